//! The page: for each comparison a table with a line for each workload and a column for each store, and one
//! with a line for each of their runs that says what it took.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::{Found, Suite};
use crate::compare::SummaryRow;
use crate::memory::HARNESS_BYTES;
use crate::report::{bytes, count, micros};

/// Writes [`page`] to a file.
///
/// # Errors
/// It cannot be written.
#[expect(clippy::disallowed_methods, reason = "a page, not data")]
pub fn write(path: &Path, suite: &Suite, found: &[Found], command: &str) -> io::Result<()> {
    std::fs::write(path, page(suite, found, command))
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
         99th percentile and 99.9th, the longest operation of all rounds, and bytes written to the device for each byte that the workload wrote. Below: what the files take \
         up, the most memory that was resident in any round, as a share of the budget, and whether that was \
         kept ({} more are the harness's); keys a second of the load, and bytes that it wrote to the device and read from it for \
         each byte loaded. What the words mean: [README.md](README.md).\n",
        bytes(HARNESS_BYTES),
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

/// What each run took of the disk and of memory, and what its load wrote.
fn resources(out: &mut String, rows: &[SummaryRow]) {
    let _ = writeln!(
        out,
        "\n| workload | store | on disk | resident at most | of its budget | kept | load, keys/s | load, w-amp | load, r-amp |"
    );
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|---|");
    let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    for row in rows.iter().filter(|row| row.rounds > 0) {
        let share = row.rss_peak_max_bytes as f64 / row.memory_budget_bytes.max(1) as f64;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.0}% | {} | {} | {} | {} |",
            row.workload,
            row.store,
            bytes(row.space_bytes),
            bytes(row.rss_peak_max_bytes),
            share * 100.0,
            if row.keeps_budget() { "yes" } else { "**no**" },
            if row.load_ops_per_s > 0.0 { count(row.load_ops_per_s) } else { "-".to_owned() },
            ratio(row.load_write_amplification),
            ratio(row.load_read_amplification),
        );
    }
    out.push('\n');
}

fn cell(row: &SummaryRow) -> String {
    if row.rounds == 0 {
        let problem = row.failure.as_deref().unwrap_or("no run");
        return format!("failed: {}", problem.replace(['|', '\n'], " "));
    }
    let mut cell = format!(
        "**{}** ({} - {})",
        count(row.ops_per_s_median),
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
