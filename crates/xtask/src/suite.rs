//! Runs test commands one after another, passes their output through, and counts what passed.
//!
//! 1. Each argument is `NAME=COMMAND`, run by `sh -c` from the root.
//! 2. Output is copied as it comes; lines of a known form are counted: Rust's `test result:`, and
//!    `N passed, N failed` with an optional `, N skipped` from scripts.
//! 3. A command that fails without a counted failure counts as one, and one that passes without
//!    counting anything as one passed: a step can neither vanish nor pass by being silent.
//! 4. A command that takes longer than [`LIMIT_SECONDS`] is ended with all that it started, and counts as a
//!    failure: one that stands still must not keep the others from being told of.
//! 5. The last line is `N passed, N failed` (`, N skipped` where there were any); above it is a table of the
//!    steps, with the seconds that each took.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

/// Several times what the longest step takes.
const LIMIT_SECONDS: u32 = 1500;
/// How `timeout` ends after it has ended something.
const ENDED_BY_TIMEOUT: i32 = 124;

/// What one command or all of them came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    fn line(self) -> String {
        let Self { passed, failed, skipped } = self;
        let tail = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        format!("{passed} passed, {failed} failed{tail}")
    }
}

/// Runs the steps and prints the sum.
pub(crate) fn run(steps: &[String]) -> ExitCode {
    let clock = environment::Environment::real();
    let mut total = Count::default();
    let mut table = Vec::new();
    for step in steps {
        let Some((name, command)) = step.split_once('=') else {
            eprintln!("xtask suite: {step:?} is not NAME=COMMAND");
            return ExitCode::from(2);
        };
        println!("\n=== {name}: {command}");
        let began = clock.now();
        let count = run_step(command, LIMIT_SECONDS);
        total.add(count);
        table.push((name, (clock.now() - began).as_secs(), count));
    }
    println!("\n=== summary");
    for (name, seconds, count) in table {
        println!("{name:<48} {seconds:>5} s  {}", count.line());
    }
    println!();
    println!("{}", total.line());
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_step(command: &str, limit_seconds: u32) -> Count {
    let failure = Count { failed: 1, ..Count::default() };
    let spawned = Command::new("timeout")
        .args(["--kill-after=10", &limit_seconds.to_string(), "sh"])
        .args(["-c", &format!("exec 2>&1; {command}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot run it: {error}");
            return failure;
        }
    };
    let mut count = Count::default();
    if let Some(output) = child.stdout.take() {
        copy(BufReader::new(output), &mut count);
    }
    let status = child.wait();
    let succeeded = status.as_ref().is_ok_and(|status| status.success());
    if status.is_ok_and(|status| status.code() == Some(ENDED_BY_TIMEOUT)) {
        println!("it did not end within {limit_seconds} s");
    }
    match (succeeded, count.failed, count.passed) {
        (false, 0, _) => count.failed = 1,
        (true, 0, 0) => count.passed = 1,
        _ => {}
    }
    count
}

fn copy(mut output: impl BufRead, count: &mut Count) {
    let mut line = Vec::new();
    let mut out = std::io::stdout().lock();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let _ = out.write_all(&line).and_then(|()| out.flush());
        if let Some(counted) = counted(&String::from_utf8_lossy(&line)) {
            count.add(counted);
        }
        line.clear();
    }
}

/// The figures of a line that closes a test run.
fn counted(line: &str) -> Option<Count> {
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

#[cfg(test)]
mod tests {
    use super::{Count, counted, run_step};

    #[test]
    fn closing_lines_are_counted_and_others_are_not() {
        let rust = "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; \
                    3 filtered out; finished in 0.05s";
        assert_eq!(counted(rust), Some(Count { passed: 12, failed: 1, skipped: 2 }));
        let script = Count { passed: 7, failed: 0, skipped: 0 };
        assert_eq!(counted("7 passed, 0 failed\n"), Some(script));
        let skipping = Count { skipped: 4, ..script };
        assert_eq!(counted("7 passed, 0 failed, 4 skipped"), Some(skipping));
        assert_eq!(counted("running 12 tests"), None);
        assert_eq!(counted("the 3 passed, we think"), None);
    }

    #[test]
    fn a_step_that_stands_still_is_ended_and_has_failed() {
        let count = run_step("sleep 1000 & sleep 1000", 1);
        assert_eq!(count, Count { passed: 0, failed: 1, skipped: 0 });
    }
}
