//! The text around the tables, and the tables themselves.
#![expect(clippy::disallowed_methods, reason = "a page is no file of a database")]

use std::fmt::Write as _;
use std::path::Path;

use thermocline_bench::tables::Origin;

use crate::Outcome;
use crate::plan::Plan;

/// The cell of a row that has no figure or no goal.
pub(crate) const NOTHING: &str = "-";

/// Returns the beginning of the page.
pub(crate) fn head(plan: &Plan, seconds: u64) -> String {
    let state =
        plan.state.as_deref().unwrap_or("Nothing was noted about other work of the machine.");
    format!(
        "# Clusters

The figures of a [cluster](../nova.md) on one machine. Each process is on loopback, and has the certificates that a cluster needs. All
processes and the client share the processors and the disk. So a figure shows the cost of the parts, and not the speed of a cluster
of several machines.

Made by `./dev tables nova` in {seconds} s: {} s for a measured phase. Each figure is the median of the rounds, in which the rows of a
table take turns, with the smallest and the largest one. A ratio compares two figures of one round. A goal is that of the design, and a
first guess. Rounds: {}.

{}. {state}

",
        plan.seconds,
        plan.rounds,
        Origin::here(),
    )
}

/// Returns a text without line breaks and without signs of tables.
pub(crate) fn one_line(text: &str) -> String {
    text.trim().trim_end_matches('.').replace(['|', '\n'], " ")
}

/// A table.
pub(crate) struct Table {
    text: String,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        let line = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
        Self { text: line }
    }

    pub(crate) fn row(&mut self, cells: &[&str]) {
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    pub(crate) fn text(self) -> String {
        self.text
    }
}

pub(crate) fn write(path: &Path, text: &str) -> Outcome<()> {
    Ok(std::fs::write(path, text)?)
}
