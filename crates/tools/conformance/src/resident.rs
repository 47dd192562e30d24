//! The real memory of a store: the peak of the process's resident set, as the system counts it.
//! Bytes that were resident before the store was opened are subtracted.
//!
//! Each case of such a test is a process of its own, so that nothing else is in its resident set.
//! The test calls itself with the name of the case ([`run_alone`]), and its test `child` finds it
//! ([`case`]).

mod churn;
mod watched;

use std::process::Command;
use std::sync::Arc;

use memory_budget::MemoryBudget;

pub use churn::Churn;
pub use watched::{Case, Pairs, Watched};

/// Bytes that may be counted above the limit. Writers that are admitted at the same time do not see
/// each other, and each write is counted when it is applied.
const ADMITTED_TOGETHER_BYTES: u64 = 32 << 10;
/// The variable that names a child's case.
const CASE: &str = "THERMOCLINE_MEMORY_CASE";

/// A process that is watched while a store in it works.
#[derive(Debug)]
pub struct Resident {
    budget: Arc<MemoryBudget>,
    slack_bytes: u64,
    /// Bytes that were resident before.
    before: u64,
    /// The most bytes so far that were resident in addition.
    most: u64,
}

impl Resident {
    /// Watches from now on. The store has this budget; `slack_bytes` more may be resident: freed
    /// memory that the allocator keeps, stacks of threads, and the test's own memory.
    pub fn watch(budget: &Arc<MemoryBudget>, slack_bytes: u64) -> Self {
        let (budget, before) = (Arc::clone(budget), status("VmRSS:"));
        forget_peak();
        Self { budget, slack_bytes, before, most: 0 }
    }

    /// Checks that the peak since the end of the last phase, and the counted bytes, are within
    /// their limits.
    ///
    /// # Panics
    /// If one of them is not.
    pub fn end_phase(&mut self, name: &str) {
        let peak = status("VmHWM:").saturating_sub(self.before);
        forget_peak();
        self.most = self.most.max(peak);
        let (used, limit) = (self.budget.used(), self.budget.limit());
        println!("{:>8} KiB at most, {:>8} KiB counted: {name}", peak >> 10, used >> 10);
        let allowed = limit + self.slack_bytes;
        assert!(peak <= allowed, "{peak} bytes of {allowed} when {name}");
        let counted_max = limit + ADMITTED_TOGETHER_BYTES;
        assert!(used <= counted_max, "{used} bytes counted of {limit} when {name}");
    }

    /// # Panics
    /// If not even half of the budget was ever resident: then the test sees nothing.
    pub fn end(self) {
        let least = self.budget.limit() / 2;
        assert!(self.most > least, "{} bytes: this test sees nothing", self.most);
    }
}

/// Returns a line of the system's status of this process.
fn status(name: &str) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/status").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of that name");
    let kib = line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>();
    kib.expect("a number of KiB") << 10
}

/// Restarts the count of the peak.
fn forget_peak() {
    #[expect(clippy::disallowed_methods, reason = "the system is told about this process")]
    let written = std::fs::write("/proc/self/clear_refs", "5");
    written.expect("the system forgets the peak");
}

/// Returns the case that this process is to run; without one there is nothing to measure.
pub fn case() -> Option<String> {
    std::env::var(CASE).ok()
}

/// Runs the test `child` of this program by itself, with the case `name`.
///
/// # Panics
/// If it fails.
pub fn run_alone(name: &str) {
    let (has_passed, said, complaint) = run(name);
    assert!(has_passed, "{complaint}");
    assert!(said.contains("1 passed"), "the case was run");
}

/// The same, of a case with a planted flaw.
///
/// # Panics
/// If it passes, or fails with a complaint other than too much memory at the end of a phase.
pub fn must_fail_alone(name: &str, phase: &str) {
    let (has_passed, _, complaint) = run(name);
    assert!(!has_passed, "a planted flaw was not noticed");
    let is_noticed = |line: &str| line.contains(" bytes of ") && line.ends_with(phase);
    assert!(complaint.lines().any(is_noticed), "it failed in another way: {complaint}");
}

/// Returns whether the case passes, its output, and its complaint.
fn run(name: &str) -> (bool, String, String) {
    let program = std::env::current_exe().expect("this program");
    let arguments = ["--exact", "child", "--nocapture", "--test-threads=1"];
    let output = Command::new(program).args(arguments).env(CASE, name).output();
    let output = output.expect("the child runs");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let complaint = String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned(), complaint.into_owned())
}
