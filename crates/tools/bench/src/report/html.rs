//! One self-contained page for one run or many: per workload a table, throughput over time, latency
//! curves and amplification. It loads nothing and runs no script.

use std::fmt::Write;
use std::io;
use std::path::Path;

use super::Report;
use super::json::write_whole;
use super::plot::{Axis, Bar, Line, Scale, bar_chart, escape, line_chart, time_marks};
use super::table::{bytes, count, micros};

/// Series of the page's style sheet; more stores than this share colours.
const SERIES: usize = 8;

/// Writes [`page`] to `path`.
///
/// # Errors
/// The file cannot be written.
pub fn write_page(path: &Path, title: &str, reports: &[Report]) -> io::Result<()> {
    write_whole(path, page(title, reports).as_bytes())
}

/// The page of these runs, grouped by workload in the order they came in.
pub fn page(title: &str, reports: &[Report]) -> String {
    let mut stores: Vec<&str> = Vec::new();
    let mut workloads: Vec<&str> = Vec::new();
    for report in reports {
        if !stores.contains(&report.engine.as_str()) {
            stores.push(&report.engine);
        }
        if !workloads.contains(&report.workload.as_str()) {
            workloads.push(&report.workload);
        }
    }
    let mut html = format!(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>\
         <meta name='viewport' content='width=device-width,initial-scale=1'>\
         <title>{0}</title><style>{1}</style></head><body><h1>{0}</h1>",
        escape(title),
        include_str!("page.css"),
    );
    if let Some(first) = reports.first() {
        let _ = write!(html, "<p>{}</p>", escape(&setting(first)));
    }
    for workload in workloads {
        let runs: Vec<&Report> = reports.iter().filter(|run| run.workload == workload).collect();
        section(&mut html, workload, &runs, &stores);
    }
    html.push_str("</body></html>\n");
    html
}

pub(crate) fn setting(report: &Report) -> String {
    let memory = match report.is_elsewhere {
        true => "no limit of memory as the store is in other processes".to_owned(),
        false => {
            let cache = if report.cgroup_limit_bytes.is_some() { "counted" } else { "free" };
            let budget = bytes(report.memory_budget_bytes);
            format!("budget {budget} ({}), page cache {cache}", report.memory)
        }
    };
    format!(
        "{} keys of {}, {memory}, {} threads, durability {:?}, seed {}",
        count(report.keys as f64),
        report.shape,
        report.threads,
        report.durability,
        report.seed,
    )
}

fn section(html: &mut String, workload: &str, runs: &[&Report], stores: &[&str]) {
    let color =
        |run: &Report| stores.iter().position(|store| *store == run.engine).unwrap_or(0) % SERIES;
    let _ = write!(html, "<h2>{}</h2>", escape(workload));
    if stores.len() > 1 {
        for (index, store) in stores.iter().enumerate() {
            let series = index % SERIES;
            let _ =
                write!(html, "<span class='key'><i class='s{series}'></i>{}</span>", escape(store));
        }
    }
    table(html, runs);
    html.push_str("<h3>Throughput over time</h3>");
    html.push_str(&throughput(runs, &color));
    html.push_str("<h3>Latency by share of operations</h3>");
    html.push_str(&latency(runs, &color));
    html.push_str("<h3>Bytes written at the device per byte written</h3>");
    html.push_str(&amplification(runs, &color, |run| run.write_amplification));
    html.push_str("<h3>Bytes read at the device per byte read</h3>");
    html.push_str(&amplification(runs, &color, |run| run.read_amplification));
    html.push_str("<h3>Space on disk per live byte</h3>");
    html.push_str(&amplification(runs, &color, |run| {
        crate::measure::ratio(run.space_bytes, run.live_bytes)
    }));
}

fn table(html: &mut String, runs: &[&Report]) {
    html.push_str(
        "<div class='wide'><table><tr><th>store</th><th>ops/s</th><th>p50</th><th>p99</th>\
         <th>p99.9</th><th>max</th><th>CPU/op</th><th>resident</th><th>space</th><th>at most</th><th>load/s</th>\
         <th>stalls</th><th>checked</th><th>wrong</th></tr>",
    );
    for run in runs {
        let latency = &run.latency_us;
        let cells = [
            count(run.ops_per_s),
            micros(latency.p50),
            micros(latency.p99),
            micros(latency.p999),
            micros(latency.max),
            micros(run.cpu_us_per_op),
            bytes(run.rss_peak_bytes),
            bytes(run.space_bytes),
            bytes(run.space_peak_bytes),
            count(run.load.ops_per_s),
            run.stalls.intervals.to_string(),
            count(run.verified_reads as f64),
        ];
        let _ = write!(html, "<tr><td>{}</td>", escape(&run.engine));
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", escape(&cell));
        }
        let class = if run.is_right() { "" } else { " class='wrong'" };
        let _ = write!(html, "<td{class}>{}</td></tr>", run.wrong_reads);
    }
    html.push_str("</table></div>");
    for run in runs {
        for mark in &run.marks {
            let round = run.round + 1;
            let text = format!("{} round {round}: not to be quoted: {mark}", run.engine);
            let _ = write!(html, "<p class='wrong'>{}</p>", escape(&text));
        }
    }
    for fault in runs.iter().flat_map(|run| &run.wrong_read_examples) {
        let _ = write!(html, "<p class='wrong'>{}</p>", escape(fault));
    }
}

fn throughput(runs: &[&Report], color: &impl Fn(&Report) -> usize) -> String {
    let lines: Vec<Line> = runs
        .iter()
        .map(|run| Line {
            name: run.engine.clone(),
            color: color(run),
            points: run.intervals.iter().map(|i| (i.at, i.ops_per_s)).collect(),
        })
        .collect();
    let end = lines.iter().flat_map(|line| &line.points).map(|&(x, _)| x).fold(0.0, f64::max);
    let axis = Axis { title: "seconds", marks: time_marks(end) };
    line_chart(&lines, &axis, "operations a second over time", Scale::Linear, count)
}

/// Shares are drawn by their nines: 90% at 1, 99% at 2, 99.9% at 3.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-6).log10()
}

fn latency(runs: &[&Report], color: &impl Fn(&Report) -> usize) -> String {
    let drawn = |run: &&Report| Line {
        name: run.engine.clone(),
        color: color(run),
        points: run
            .latency_curve_us
            .iter()
            .filter(|&&(share, _)| share < 1.0)
            .map(|&(share, us)| (nines(share), us))
            .collect(),
    };
    let lines: Vec<Line> = runs.iter().map(drawn).collect();
    let marks = [(0.0, "0%"), (0.5, "50%"), (0.9, "90%"), (0.99, "99%"), (0.999, "99.9%")];
    let marks = marks.into_iter().chain([(0.9999, "99.99%"), (0.99999, "99.999%")]);
    let marks = marks.map(|(share, text)| (nines(share), text.to_owned())).collect();
    let axis = Axis { title: "share of operations", marks };
    line_chart(&lines, &axis, "latency by share of operations", Scale::Logarithmic, micros)
}

fn amplification(
    runs: &[&Report],
    color: &impl Fn(&Report) -> usize,
    ratio: impl Fn(&Report) -> Option<f64>,
) -> String {
    let bars: Vec<Bar> = runs
        .iter()
        .filter_map(|run| {
            let value = ratio(run)?;
            let text = format!("{value:.2}");
            Some(Bar { name: run.engine.clone(), color: color(run), value, text })
        })
        .collect();
    if bars.is_empty() {
        return "<p>none in this workload</p>".to_owned();
    }
    bar_chart(&bars, "amplification")
}
