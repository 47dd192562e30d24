//! The text around the tables: how they were made, and the goals that they are compared with.

use std::path::Path;

use rustix::fs::{self, Mode, OFlags};

use crate::spaces::{self, Pattern};
use crate::{Outcome, Plan, trees};

pub(crate) fn head(state: Option<&str>, seconds: u64) -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(": ").nth(1)).unwrap_or("a processor");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let state = state.unwrap_or("Nobody said what else the machine did.");
    format!(
        "# FlexTree and FlexSpace

The figures of the FlexSpace paper's tables 1 and 2 (section 6.1), what the collector costs, and how long recovery takes. Made by
`./dev tables flexspace` in {seconds} s.

{model}, {cores} cores, Linux {}. {state} Medians of the rounds.

",
        kernel.trim()
    )
}

/// A goal, the measured value, and whether that reaches it.
struct Goal(String, Option<f64>, f64, bool);

/// Returns the goals of the design.
pub(crate) fn goals(plan: &Plan, trees: &[trees::Row], spaces: &[spaces::Row]) -> String {
    let mut goals = Vec::new();
    for (extents, times) in [(100_000, 100.0), (1_000_000, 2000.0)] {
        let insert = |name: &str| {
            trees.iter().find(|row| row.extents == extents && row.name == name)?.insert
        };
        let ratio = insert("flex_tree").zip(insert("unshifted_tree")).map(|(f, u)| f / u);
        let what = format!("random inserts at {extents} extents, times the tree without shifts");
        goals.push(Goal(what, ratio, times, true));
    }
    let bytes = trees.iter().filter_map(|row| row.bytes.map(|(appends, _)| appends));
    let most = bytes.reduce(f64::max);
    goals.push(Goal("bytes of memory an extent after appends".to_owned(), most, 24.0, false));
    let find = |is_space: bool, pattern: Pattern| {
        spaces.iter().find(|row| row.is_space == is_space && row.pattern == pattern)
    };
    let insert = find(true, Pattern::RandomInsert);
    let share = |other: Option<&spaces::Row>| Some(insert?.write / other?.write);
    let sequential = share(find(true, Pattern::SequentialWrite));
    goals.push(Goal("random inserts, of its sequential write".to_owned(), sequential, 0.5, true));
    let system = spaces::file_system(&plan.dir);
    let shifted = share(find(false, Pattern::RandomInsert));
    let what = format!("random inserts, times {system}'s insert-range ({} MiB)", plan.file_mib);
    goals.push(Goal(what, shifted, 100.0, true));
    let amplification = insert.and_then(|row| row.amplification);
    goals.push(Goal("bytes written for each inserted".to_owned(), amplification, 1.05, false));
    let mut text = String::from(
        "## Goals

| goal | asked for | measured | reached |
|---|---:|---:|---|
",
    );
    for Goal(what, measured, asked, is_least) in goals {
        let Some(measured) = measured else { continue };
        let is_reached = if is_least { measured >= asked } else { measured <= asked };
        let (word, reached) =
            (if is_least { "at least" } else { "at most" }, if is_reached { "yes" } else { "no" });
        text += &format!("| {what} | {word} {asked} | {measured:.3} | {reached} |\n");
    }
    text
}

pub(crate) fn write(path: &Path, text: &str) -> Outcome<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = fs::open(path, flags, mode)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let count = rustix::io::write(&file, rest)?;
        rest = &rest[count..];
    }
    Ok(())
}
