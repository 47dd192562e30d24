//! Reads what passed and what failed from the lines that tests print.

use std::time::Duration;

use crate::limited::End;

/// Characters of a line that names a failure.
const NAME_MAX: usize = 160;

/// Tests that passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl Count {
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    pub(super) fn line(self) -> String {
        let Self { passed, failed, skipped } = self;
        let tail = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        format!("{passed} passed, {failed} failed{tail}")
    }
}

/// The count of a command, and what failed by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) count: Count,
    pub(super) failures: Vec<String>,
    /// Whether a line of a count was printed.
    is_counted: bool,
}

impl Outcome {
    /// Reads a line: adds its count, or notes what it says has failed.
    pub(super) fn note(&mut self, line: &str) {
        if let Some(count) = counted(line) {
            self.count.add(count);
            self.is_counted = true;
        } else if let Some(failure) = failure(line) {
            self.failures.push(failure);
        }
    }

    /// Reads a line of a test program, whose last count is the only one: lines before it are output
    /// of programs that its tests ran.
    pub(super) fn note_of_program(&mut self, line: &str) {
        if counted(line).is_some() {
            self.count = Count::default();
        }
        self.note(line);
    }

    /// Notes how the command ended.
    pub(super) fn end(&mut self, end: &End, silence_max: Option<Duration>) {
        if let End::Exited(status) = end
            && status.success()
        {
            if !self.is_counted {
                self.count.passed = 1;
            }
            if self.count.failed == 0 {
                self.failures.clear();
            }
            return;
        }
        self.count.failed = self.count.failed.max(1);
        if self.failures.is_empty() || matches!(end, End::Silent) {
            self.failures.push(end.text(silence_max));
        }
    }

    /// Returns the outcome of a command that could not do its work.
    pub(super) fn failed(why: &str) -> Self {
        let count = Count { failed: 1, ..Count::default() };
        Self { count, failures: vec![why.to_owned()], is_counted: true }
    }

    /// Returns the outcome of a build, which counts only if it failed.
    pub(super) fn of_build(mut self) -> Self {
        self.count.passed = 0;
        self
    }

    /// Adds the outcome of a test program, whose failures get its name.
    pub(super) fn add(&mut self, program: &str, other: Self) {
        self.count.add(other.count);
        self.is_counted = true;
        self.failures.extend(other.failures.into_iter().map(|name| format!("{program}: {name}")));
    }
}

/// Returns the figures of a line that closes a test run.
pub(super) fn counted(line: &str) -> Option<Count> {
    let line = line.trim();
    let (line, separator) = match line.strip_prefix("test result: ") {
        Some(result) => (result.split_once(". ")?.1, "; "),
        None => (line, ", "),
    };
    let mut count = Count::default();
    let mut known = 0;
    for part in line.split(separator) {
        let (number, what) = part.trim().split_once(' ')?;
        let slot = match what.trim_end_matches(';') {
            "passed" => &mut count.passed,
            "failed" => &mut count.failed,
            "skipped" | "ignored" => &mut count.skipped,
            _ => continue,
        };
        *slot = number.parse().ok()?;
        known += 1;
    }
    (known >= 2).then_some(count)
}

/// Returns the name of the test that a line of libtest says has ended, and its result.
pub(super) fn ended_test(line: &str) -> Option<(&str, &str)> {
    let (name, result) = line.trim_end().strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((name.trim_end_matches(" - should panic"), result))
}

/// Returns the name of the test that failed, or the whole line if a script printed it.
fn failure(line: &str) -> Option<String> {
    if let Some((name, result)) = ended_test(line) {
        return result.starts_with("FAILED").then(|| name.to_owned());
    }
    let words = || line.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_failure = words().any(|word| word == "FAILED") && !line.starts_with("test result:");
    is_failure.then(|| line.trim().chars().take(NAME_MAX).collect())
}
