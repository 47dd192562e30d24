//! Reports as tables on the terminal.

use std::fmt::Write;

use super::{Report, WriterWait};
use crate::compare::{BuildRatio, Spread, SummaryRow};

/// Of a column of names, at least.
const NAME_WIDTH: usize = 16;

/// The table of one run.
pub fn run_table(report: &Report) -> String {
    let r = report;
    let mut out = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<22}{value}");
    };
    row("store", format!("{} on {}", r.engine, r.workload));
    let skew = format!("{} theta {}", r.distribution, r.theta);
    row("data", format!("{} keys of {}, {skew}", count(r.keys as f64), r.shape));
    row("memory budget", budget(r));
    let amplification = amplification(r.load.write_amplification);
    let load = format!("{:.1} s, {} keys/s", r.load.seconds, count(r.load.ops_per_s));
    let rest = format!("at rest {:.1} s later", r.load.rest_seconds);
    row("load", format!("{load}, {rest}, write amplification {amplification}"));
    if !r.is_elsewhere {
        let (read, written) = (bytes(r.load.device_read_bytes), bytes(r.load.device_write_bytes));
        let processor = format!("processor {:.1} s", r.load.cpu_seconds);
        row("load at the device", format!("{read} read, {written} written, {processor}"));
    }
    if r.aged > 0 {
        row("aged", format!("{} phases of {} updates", r.aged, count(r.keys as f64)));
    }
    row("warm-up", warm_up(r));
    let threads =
        if r.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", r.threads) };
    let depth = if r.depth > 1 {
        format!(", {} operations under way each", r.depth)
    } else {
        String::new()
    };
    let operations = format!("{} in {:.1} s, {threads}{depth}", count(r.ops as f64), r.seconds);
    row("operations", operations);
    row("throughput", format!("{} ops/s", count(r.ops_per_s)));
    let l = &r.latency_us;
    let latency = format!("p50 {}  p95 {}  p99 {}", micros(l.p50), micros(l.p95), micros(l.p99));
    row("latency", format!("{latency}  p99.9 {}  max {}", micros(l.p999), micros(l.max)));
    let modes = format!("user {:.2}, system {:.2}", r.cpu.user_us_per_op, r.cpu.system_us_per_op);
    row("processor", format!("{:.2} us/op ({modes})", r.cpu_us_per_op));
    for (name, value) in resources(r) {
        row(name, value);
    }
    if r.stalls.intervals > 0 {
        row("stalls", format!("{}, {:.1} s", r.stalls.intervals, r.stalls.seconds));
    }
    for wait in &r.writer_waits {
        let WriterWait { cause, count, total_ms, longest_ms } = wait;
        let times = format!("{count} of {total_ms:.0} ms in all, longest {longest_ms:.0} ms");
        row("writers waited", format!("for {cause}, since the opening: {times}"));
    }
    let checked = format!("{} checked ({})", count(r.verified_reads as f64), r.versions);
    row("answers", format!("{checked}, {} wrong", r.wrong_reads));
    for fault in &r.wrong_read_examples {
        row("WRONG", fault.clone());
    }
    for mark in &r.marks {
        row("NOT TO BE QUOTED", mark.to_string());
    }
    out
}

/// The memory that the store may take.
fn budget(r: &Report) -> String {
    let cache = match r.cgroup_limit_bytes {
        _ if r.is_elsewhere => return "no limit: the store is in other processes".to_owned(),
        Some(limit) => format!("page cache counted, limit {}", bytes(limit)),
        None => "page cache free".to_owned(),
    };
    format!("{} ({cache})", bytes(r.memory_budget_bytes))
}

/// The memory, the device and the space that the store has used.
fn resources(r: &Report) -> Vec<(&'static str, String)> {
    if r.is_elsewhere {
        let unknown = "not measured, as the processor time: those of the store's processes";
        return vec![("memory, device, space", unknown.to_owned())];
    }
    let share = r.rss_peak_bytes as f64 * 100.0 / r.memory_budget_bytes.max(1) as f64;
    let cache = r.cache_bytes.map_or(String::new(), |cache| format!(", cache {}", bytes(cache)));
    let resident = format!("{}, {share:.0}% of the budget{cache}", bytes(r.rss_peak_bytes));
    let device = &r.device;
    let live = format!("{} for {} live", bytes(r.space_bytes), bytes(r.live_bytes));
    vec![
        ("resident peak", resident),
        ("device read", traffic(device.read_bytes, device.read_ops, r.read_amplification)),
        ("device written", traffic(device.write_bytes, device.write_ops, r.write_amplification)),
        ("space", format!("{live}, {} at most", bytes(r.space_peak_bytes))),
    ]
}

/// The length of the warm-up, and why it ended.
fn warm_up(report: &Report) -> String {
    let length = format!("{:.1} s", report.warmup_seconds);
    let limit = report.warmup_limit_seconds.unwrap_or_default();
    match report.warmup_is_steady {
        None => length,
        Some(true) => format!("{length}, until the caches were steady"),
        Some(false) => format!("{length}, not steady at its limit of {limit:.0} s"),
    }
}

fn traffic(total: u64, operations: u64, ratio: Option<f64>) -> String {
    let operations = count(operations as f64);
    format!("{} in {operations} operations, amplification {}", bytes(total), amplification(ratio))
}

/// The table of a comparison: a line for each workload and store.
pub fn comparison_table(rows: &[SummaryRow]) -> String {
    let mut out = String::new();
    let width = |name: fn(&SummaryRow) -> &String| {
        rows.iter().map(|row| name(row).len()).fold(NAME_WIDTH, usize::max) + 2
    };
    let (workloads, stores) = (width(|row| &row.workload), width(|row| &row.store));
    let _ = writeln!(
        out,
        "  {:<workloads$}{:<stores$}{:>10}{:>20}{:>8}{:>8}{:>10}{:>11}{:>11}{:>10}{:>10}",
        "workload",
        "store",
        "ops/s",
        "min - max",
        "ours/it",
        "w-amp",
        "space",
        "resident",
        "cache",
        "p99",
        "longest"
    );
    for row in rows {
        let spread = format!("{} - {}", count(row.ops_per_s_min), count(row.ops_per_s_max));
        let _ = writeln!(
            out,
            "  {:<workloads$}{:<stores$}{:>10}{:>20}{:>8}{:>8}{:>10}{:>11}{:>11}{:>10}{:>10}",
            row.workload,
            row.store,
            count(row.ops_per_s_median),
            spread,
            row.ratio_ours_to_this.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x")),
            amplification(row.write_amplification),
            bytes(row.space_peak_bytes),
            bytes(row.rss_peak_max_bytes),
            row.cache_bytes.map_or("-".to_owned(), bytes),
            micros(row.p99_us_median),
            micros(row.max_us),
        );
        if let Some(failure) = &row.failure {
            let _ = writeln!(out, "    {failure}");
        }
        if row.rounds > 0 && !row.is_quotable {
            let _ = writeln!(out, "    not to be quoted");
        }
        for note in &row.notes {
            let _ = writeln!(out, "    {note}");
        }
    }
    out
}

/// The table of two builds of ours: this one over the baseline, round by round. Empty without one.
pub fn builds_table(rows: &[BuildRatio]) -> String {
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "\n  this build over the baseline: median (smallest - largest) of the rounds"
    );
    for row in rows {
        let _ = writeln!(out, "  {} {}, {} rounds", row.workload, row.store, row.rounds);
        for (name, ratio) in [
            ("ops/s", row.ops_per_s),
            ("processor per operation", row.cpu_us_per_op),
            ("device operations per operation", row.device_ops_per_op),
        ] {
            let _ = writeln!(out, "    {name:<33}{}", spread(ratio));
        }
    }
    out
}

/// A median of ratios, and their smallest and largest.
pub(crate) fn spread(ratio: Option<Spread>) -> String {
    let text = |it: Spread| format!("{:.3} ({:.3} - {:.3})", it.median, it.min, it.max);
    ratio.map_or("-".to_owned(), text)
}

fn amplification(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// A number with a unit of thousands.
pub(crate) fn count(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// A size with a binary unit.
pub(crate) fn bytes(number: u64) -> String {
    let n = number as f64;
    match number {
        0..0x400 => format!("{number} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", n / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", n / (1 << 20) as f64),
        _ => format!("{:.2} GiB", n / (1 << 30) as f64),
    }
}

/// A latency with a unit.
pub(crate) fn micros(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.2} s", n / 1e6),
        n if n >= 1e3 => format!("{:.2} ms", n / 1e3),
        n if n >= 100.0 => format!("{n:.0} us"),
        n => format!("{n:.2} us"),
    }
}
