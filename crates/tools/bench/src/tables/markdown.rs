//! The page.
//!
//! Each comparison has a table with a line for each workload and peer, one with the cost of each
//! run, and one with the loads.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::{Found, Suite};
use crate::compare::{BuildRatio, Spread, SummaryRow};
use crate::report::{bytes, count, micros, spread, write_json, write_whole};

/// The meaning of the columns.
const LEGEND: &str = "\
Made by `{command}`. The **ratio** is our operations a second over the peer's, the median of the rounds with the smallest \
and the largest round. Rows in which the peer leads come first. The columns p99 and p99.9 have medians of the rounds, and the \
longest operation is that of all rounds. The column w-amp has the bytes written at the device for each byte that the workload \
wrote. Resident: the largest resident peak of the rounds, also as a share of the budget. It is **bold** outside 95 to 100%; \
workloads that share an opening are judged by the largest of their peaks. A load ends when the store is at rest: the second \
number is the time after its flush. A row with † may not be quoted; the reasons are below it. [README.md](README.md) explains \
the words.";

/// Writes [`page`] to `NAME.md` in `dir`, and the figures to `NAME.json`.
///
/// # Errors
/// A file cannot be written.
pub fn write(
    dir: &Path,
    name: &str,
    suite: &Suite,
    found: &[Found],
    (command, before): (&str, &str),
) -> io::Result<()> {
    write_json(&dir.join(format!("{name}.json")), &found)?;
    write_whole(&dir.join(format!("{name}.md")), page(suite, found, command, before).as_bytes())
}

/// Returns the page of `suite`, with the results `found` of the comparisons so far. `command` made
/// it. `before` is the old page: it keeps a comparison of another page that has no figures.
pub fn page(suite: &Suite, found: &[Found], command: &str, before: &str) -> String {
    let mut out = format!("# {}\n\n", suite.title);
    if !suite.about.is_empty() {
        let _ = writeln!(out, "{}\n", suite.about.trim());
    }
    let _ = writeln!(out, "{}\n", LEGEND.replace("{command}", command));
    let mut missing = 0;
    for wanted in &suite.comparison {
        let Some(found) = found.iter().find(|found| found.title == wanted.title) else {
            match section(before, &wanted.title).filter(|_| wanted.from.is_some()) {
                Some(section) => out.push_str(section),
                None => missing += 1,
            }
            continue;
        };
        let _ = writeln!(out, "## {}\n", wanted.title);
        if !wanted.about.is_empty() {
            let _ = writeln!(out, "{}\n", wanted.about.trim());
        }
        if let Some(setting) = &found.setting {
            let _ = writeln!(out, "{setting}.");
        }
        if let Some(origin) = &found.origin {
            let _ = writeln!(out, "{origin}.");
        }
        if found.setting.is_some() || found.origin.is_some() {
            let _ = writeln!(out);
        }
        builds(&mut out, &found.builds);
        tables(&mut out, &found.rows, &wanted.engine);
    }
    if missing > 0 {
        let _ = writeln!(out, "{missing} comparisons of this page were not run.\n");
    }
    if !suite.notes.is_empty() {
        let _ = writeln!(out, "{}", suite.notes.trim());
    }
    out
}

/// Returns the section of a page that has this title.
fn section<'p>(page: &'p str, title: &str) -> Option<&'p str> {
    const HEAD: &str = "\n## ";
    let begin = page.find(&format!("{HEAD}{title}\n"))? + 1;
    let section = page.get(begin..)?;
    Some(section.find(HEAD).and_then(|end| section.get(..=end)).unwrap_or(section))
}

fn tables(out: &mut String, rows: &[SummaryRow], engine: &str) {
    if rows.iter().any(|row| row.store != engine) {
        ratios(out, rows, engine);
    }
    speeds(out, rows);
    loads(out, rows);
    for row in rows {
        for note in &row.notes {
            let _ = writeln!(out, "- {}, {}: {note}.", row.workload, row.store);
        }
        if let Some(failure) = &row.failure {
            let failure = failure.replace(['|', '\n'], " ");
            let _ = writeln!(out, "- {}, {}: a round failed: {failure}.", row.workload, row.store);
        }
        if row.wrong_reads > 0 {
            let wrong = row.wrong_reads;
            let _ = writeln!(out, "- {}, {}: **{wrong} wrong answers**.", row.workload, row.store);
        }
    }
    if rows.iter().any(|row| !row.notes.is_empty() || row.failure.is_some()) {
        out.push('\n');
    }
}

/// This build over the baseline, the smallest ratio first.
fn builds(out: &mut String, rows: &[BuildRatio]) {
    if rows.is_empty() {
        return;
    }
    let columns = ["workload", "store", "rounds", "ops/s", "CPU/op", "device operations/op"];
    let _ = writeln!(out, "This build over the baseline:\n");
    header(out, &columns);
    let median = |row: &BuildRatio| row.ops_per_s.map_or(0.0, |ratio| ratio.median);
    let mut rows: Vec<&BuildRatio> = rows.iter().collect();
    rows.sort_by(|one, other| median(one).total_cmp(&median(other)));
    for row in rows {
        let cells = [
            row.workload.clone(),
            row.store.clone(),
            row.rounds.to_string(),
            spread(row.ops_per_s),
            spread(row.cpu_us_per_op),
            spread(row.device_ops_per_op),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

/// Ours over each peer, the smallest ratio first.
fn ratios(out: &mut String, rows: &[SummaryRow], engine: &str) {
    let ours =
        |workload: &str| rows.iter().find(|row| row.store == engine && row.workload == workload);
    let mut lines: Vec<(&SummaryRow, &SummaryRow)> = rows
        .iter()
        .filter(|row| row.store != engine)
        .filter_map(|row| Some((ours(&row.workload)?, row)))
        .collect();
    let key = |row: &SummaryRow| row.ratio_ours_to_this.unwrap_or(f64::INFINITY);
    lines.sort_by(|(_, one), (_, other)| key(one).total_cmp(&key(other)));
    let _ = writeln!(out, "| workload | peer | ratio | ours, ops/s | peer, ops/s |");
    let _ = writeln!(out, "|---|---|---|---|---|");
    for (ours, peer) in lines {
        let ratio = match peer.ratio_ours_to_this {
            Some(ratio) => match of_rounds(ours, peer) {
                Some(Spread { min, max, .. }) => format!("**{ratio:.2}** ({min:.2} - {max:.2})"),
                None => format!("**{ratio:.2}**"),
            },
            None => "-".to_owned(),
        };
        let rate = |row: &SummaryRow| match row.rounds {
            0 => "failed".to_owned(),
            _ => format!("{}{}", count(row.ops_per_s_median), mark(row)),
        };
        let cells = [peer.workload.clone(), peer.store.clone(), ratio, rate(ours), rate(peer)];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

/// The ratios of the rounds that both have.
fn of_rounds(ours: &SummaryRow, peer: &SummaryRow) -> Option<Spread> {
    let rounds = ours.ops_per_s_rounds.iter().zip(&peer.ops_per_s_rounds);
    let ratios = rounds.filter_map(|(ours, peer)| Some((*ours)? / (*peer)?));
    Spread::of(ratios.filter(|ratio| ratio.is_finite()).collect())
}

/// The speed and the cost of each store in each workload.
fn speeds(out: &mut String, rows: &[SummaryRow]) {
    const COLUMNS: [&str; 14] = [
        "workload",
        "store",
        "ops/s",
        "slowest - fastest round",
        "p99",
        "p99.9",
        "longest",
        "CPU/op",
        "w-amp",
        "read",
        "written",
        "cache",
        "resident",
        "on disk at most",
    ];
    header(out, &COLUMNS);
    for row in rows.iter().filter(|row| row.rounds > 0) {
        let latency = |us: f64| if row.max_us > 0.0 { micros(us) } else { "-".to_owned() };
        let share = row.rss_peak_max_bytes as f64 * 100.0 / row.memory_budget_bytes.max(1) as f64;
        let share = match row.fills_budget {
            Some(false) => format!("**{share:.0}%**"),
            Some(true) | None => format!("{share:.0}%"),
        };
        let cells = [
            row.workload.clone(),
            format!("{}{}", row.store, mark(row)),
            count(row.ops_per_s_median),
            format!("{} - {}", count(row.ops_per_s_min), count(row.ops_per_s_max)),
            latency(row.p99_us_median),
            latency(row.p999_us_median),
            latency(row.max_us),
            micros(row.cpu_us_per_op_median),
            row.write_amplification.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            bytes(row.device_read_bytes),
            bytes(row.device_write_bytes),
            row.cache_bytes.map_or("-".to_owned(), bytes),
            format!("{}, {share}", bytes(row.rss_peak_max_bytes)),
            bytes(row.space_peak_bytes),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

/// The load of each store; one line, since all its runs begin from loads of the same data.
fn loads(out: &mut String, rows: &[SummaryRow]) {
    const COLUMNS: [&str; 7] =
        ["store", "load", "keys/s until the flush", "CPU/key", "w-amp", "read", "written"];
    let mut shown: Vec<&str> = Vec::new();
    let loaded = |row: &&SummaryRow| row.rounds > 0 && row.load_ops_per_s > 0.0;
    for row in rows.iter().filter(loaded) {
        if shown.contains(&row.store.as_str()) {
            continue;
        }
        if shown.is_empty() {
            header(out, &COLUMNS);
        }
        shown.push(&row.store);
        let cells = [
            row.store.clone(),
            format!("{:.1} + {:.1} s", row.load_seconds, row.load_rest_seconds),
            count(row.load_ops_per_s),
            micros(row.load_cpu_us_per_op),
            row.load_write_amplification.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            bytes(row.load_device_read_bytes),
            bytes(row.load_device_write_bytes),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if !shown.is_empty() {
        out.push('\n');
    }
}

fn header(out: &mut String, columns: &[&str]) {
    let _ = writeln!(out, "| {} |", columns.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(columns.len()));
}

/// The sign of a row that may not be quoted.
fn mark(row: &SummaryRow) -> &'static str {
    if row.is_quotable { "" } else { "†" }
}
