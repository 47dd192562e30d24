//! The page: for each comparison a table with a line for each workload and a column for each store, and one
//! with a line for each of their runs that says what it took.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::{Found, Suite};
use crate::compare::SummaryRow;
use crate::report::{bytes, count, micros, write_whole};

/// Writes [`page`] to a file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, suite: &Suite, found: &[Found], command: &str) -> io::Result<()> {
    write_whole(path, page(suite, found, command).as_bytes())
}

/// The page of `suite`, whose first comparisons have come out as `found`. `command` made it.
pub fn page(suite: &Suite, found: &[Found], command: &str) -> String {
    let mut out = format!("# {}\n\n", suite.title);
    if !suite.about.is_empty() {
        let _ = writeln!(out, "{}\n", suite.about.trim());
    }
    let _ = writeln!(
        out,
        "Made by `{command}`. Each cell: the median of the rounds in operations a second, the slowest \
         and the fastest round, how many times as fast as the store ours is, the median of the rounds' \
         99th percentile and 99.9th, the longest operation of all rounds, and bytes written to the device for \
         each byte that the workload wrote. Below: the most that the files took up, the cache, the most memory \
         that was resident in any round, and that as a share of the budget (**bold** outside 95 to 100%); \
         processor time of an operation, and bytes read and written at the device; of the load the seconds, \
         those after it until the store was at rest, keys a second, processor time of a key, and bytes that it \
         wrote to the device and read from it for each byte loaded. A row marked with † may not be quoted; \
         the reasons are below it. What the words mean: [README.md](README.md).\n",
    );
    for (wanted, found) in suite.comparison.iter().zip(found) {
        let _ = writeln!(out, "## {}\n", wanted.title);
        if !wanted.about.is_empty() {
            let _ = writeln!(out, "{}\n", wanted.about.trim());
        }
        if let Some(setting) = &found.setting {
            let _ = writeln!(out, "{setting}. [Plots]({}).\n", found.plots);
        }
        table(&mut out, &found.rows);
    }
    let missing = suite.comparison.len().saturating_sub(found.len());
    if missing > 0 {
        let _ = writeln!(out, "{missing} comparisons of this page were not run.\n");
    }
    out
}

fn table(out: &mut String, rows: &[SummaryRow]) {
    let mut stores: Vec<&str> = Vec::new();
    let mut workloads: Vec<&str> = Vec::new();
    for row in rows {
        if !stores.contains(&row.store.as_str()) {
            stores.push(&row.store);
        }
        if !workloads.contains(&row.workload.as_str()) {
            workloads.push(&row.workload);
        }
    }
    let _ = writeln!(out, "| workload | {} |", stores.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(stores.len()));
    for workload in workloads {
        let of_store = |store: &&str| {
            rows.iter().find(|row| row.workload == workload && row.store == *store).map(cell)
        };
        let cells: Vec<String> =
            stores.iter().map(|store| of_store(store).unwrap_or_default()).collect();
        let _ = writeln!(out, "| {workload} | {} |", cells.join(" | "));
    }
    resources(out, rows);
}

/// The disk, memory and processor time that each run took, and the cost of its load.
fn resources(out: &mut String, rows: &[SummaryRow]) {
    const COLUMNS: [&str; 14] = [
        "workload",
        "store",
        "on disk at most",
        "cache",
        "resident at most",
        "of its budget",
        "CPU/op",
        "read",
        "written",
        "load",
        "load, keys/s",
        "load, CPU/key",
        "load, w-amp",
        "load, r-amp",
    ];
    let _ = writeln!(out, "\n| {} |", COLUMNS.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(COLUMNS.len()));
    let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    for row in rows.iter().filter(|row| row.rounds > 0) {
        let share = row.rss_peak_max_bytes as f64 * 100.0 / row.memory_budget_bytes.max(1) as f64;
        let has_load = row.load_ops_per_s > 0.0;
        let of_load = |text: String| if has_load { text } else { "-".to_owned() };
        let cells = [
            row.workload.clone(),
            format!("{}{}", row.store, mark(row)),
            bytes(row.space_peak_bytes),
            row.cache_bytes.map_or("-".to_owned(), bytes),
            bytes(row.rss_peak_max_bytes),
            match row.fills_budget {
                Some(false) => format!("**{share:.0}%**"),
                Some(true) | None => format!("{share:.0}%"),
            },
            micros(row.cpu_us_per_op_median),
            bytes(row.device_read_bytes),
            bytes(row.device_write_bytes),
            of_load(format!("{:.1} + {:.1} s", row.load_seconds, row.load_rest_seconds)),
            of_load(count(row.load_ops_per_s)),
            of_load(micros(row.load_cpu_us_per_op)),
            ratio(row.load_write_amplification),
            ratio(row.load_read_amplification),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
    for row in rows {
        for note in &row.notes {
            let _ = writeln!(out, "- {}, {}: {note}.", row.workload, row.store);
        }
    }
    if rows.iter().any(|row| !row.notes.is_empty()) {
        out.push('\n');
    }
}

/// The sign of a row that may not be quoted.
fn mark(row: &SummaryRow) -> &'static str {
    if row.is_quotable { "" } else { "†" }
}

fn cell(row: &SummaryRow) -> String {
    if row.rounds == 0 {
        let problem = row.failure.as_deref().unwrap_or("no run");
        return format!("failed: {}", problem.replace(['|', '\n'], " "));
    }
    let mut cell = format!(
        "**{}**{} ({} - {})",
        count(row.ops_per_s_median),
        mark(row),
        count(row.ops_per_s_min),
        count(row.ops_per_s_max)
    );
    if let Some(ratio) = row.ratio_ours_to_this {
        let _ = write!(cell, ", {ratio:.2}x");
    }
    let (p99, p999) = (micros(row.p99_us_median), micros(row.p999_us_median));
    let _ = write!(cell, ", p99 {p99}, p99.9 {p999}, longest {}", micros(row.max_us));
    if let Some(amplification) = row.write_amplification {
        let _ = write!(cell, ", w-amp {amplification:.2}");
    }
    if row.wrong_reads > 0 {
        let _ = write!(cell, ", **{} wrong answers**", row.wrong_reads);
    }
    if row.failure.is_some() {
        let _ = write!(cell, ", {} rounds only", row.rounds);
    }
    cell
}
