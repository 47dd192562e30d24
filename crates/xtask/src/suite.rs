//! Runs test commands, some beside others, passes their output through, and counts what passed.
//!
//! 1. Each argument is `NAME=COMMAND`, run by `sh -c` from the root. Those before a `--` run in front, one after
//!    another.
//! 2. Those behind it run beside them, one at a time and at low priority: they get the processor time that tests
//!    leave which wait, or which are the last of their program. Once those in front are over, two run at a time.
//! 3. Output of a step in front is copied as it comes, that of another when it is over; lines of a known form are
//!    counted: Rust's `test result:`, and `N passed, N failed` with an optional `, N skipped` from scripts.
//! 4. A command that fails without a counted failure counts as one, and one that passes and says nothing of a
//!    count as one passed: a step can neither vanish nor pass by being silent. One that only prepares another says
//!    `0 passed, 0 failed`.
//! 5. A command that takes longer than [`LIMIT_SECONDS`] is ended with all that it started, and counts as a
//!    failure: one that stands still must not keep the others from being told of.
//! 6. The last line is `N passed, N failed` (`, N skipped` where there were any); above it is a table of the
//!    steps, with the seconds that each took.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

/// Twice what the longest step takes, and enough for one that has little processor time beside it.
const LIMIT_SECONDS: u32 = 1800;
/// How `timeout` ends after it has ended something.
const ENDED_BY_TIMEOUT: i32 = 124;
/// The priority beside others, as `nice` takes it: a tenth of the processor time where both want it.
const NICENESS: &str = "10";

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

/// A command by its name.
#[derive(Clone, Copy)]
struct Step<'a> {
    name: &'a str,
    command: &'a str,
}

impl<'a> Step<'a> {
    fn all(arguments: &'a [String]) -> Result<Vec<Self>, String> {
        let step = |argument: &'a String| match argument.split_once('=') {
            Some((name, command)) => Ok(Self { name, command }),
            None => Err(format!("{argument:?} is not NAME=COMMAND")),
        };
        arguments.iter().map(step).collect()
    }
}

/// Whether a step goes on before its output is seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    InFront,
    Beside,
}

/// Where the output of a step in front goes. By `print!`, which tests keep to themselves: what the steps of this file's
/// tests count must not be counted by a suite that runs those tests.
struct Printed;

impl Write for Printed {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        print!("{}", String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().flush()
    }
}

/// How a step ended.
struct Told<'a> {
    name: &'a str,
    seconds: u64,
    count: Count,
}

/// Runs the steps and prints the sum.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let mut groups = arguments.splitn(2, |argument| argument == "--");
    let mut group = || Step::all(groups.next().unwrap_or_default());
    let (front, beside) = match (group(), group()) {
        (Ok(front), Ok(beside)) => (front, beside),
        (Err(why), _) | (_, Err(why)) => {
            eprintln!("xtask suite: {why}");
            return ExitCode::from(2);
        }
    };
    let table = run_all(&front, &beside, LIMIT_SECONDS);
    let mut total = Count::default();
    println!("\n=== summary");
    for Told { name, seconds, count } in table {
        println!("{name:<48} {seconds:>5} s  {}", count.line());
        total.add(count);
    }
    println!();
    println!("{}", total.line());
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all<'a>(front: &[Step<'a>], beside: &[Step<'a>], limit_seconds: u32) -> Vec<Told<'a>> {
    let waiting: Mutex<VecDeque<Step<'a>>> = Mutex::new(beside.iter().copied().collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let run_waiting = || -> Vec<Told<'a>> {
        iter::from_fn(next).map(|step| run_step(step, Place::Beside, limit_seconds)).collect()
    };
    thread::scope(|scope| {
        let others = scope.spawn(run_waiting);
        let in_front = |step: &Step<'a>| run_step(*step, Place::InFront, limit_seconds);
        let mut told: Vec<Told<'a>> = front.iter().map(in_front).collect();
        told.extend(run_waiting());
        told.extend(others.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        told
    })
}

fn run_step<'a>(step: Step<'a>, place: Place, limit_seconds: u32) -> Told<'a> {
    let Step { name, command } = step;
    let clock = environment::Environment::real();
    let began = clock.now();
    let count = match place {
        Place::InFront => {
            println!("\n=== {name}: {command}");
            run_command(command, place, limit_seconds, &mut Printed)
        }
        Place::Beside => {
            println!("\n=== {name}, beside, begins");
            let mut output = Vec::new();
            let count = run_command(command, place, limit_seconds, &mut output);
            let output = String::from_utf8_lossy(&output);
            println!("\n=== {name}, beside: {command}\n{output}=== {name}, beside, is over");
            count
        }
    };
    Told { name, seconds: (clock.now() - began).as_secs(), count }
}

fn run_command(command: &str, place: Place, limit_seconds: u32, out: &mut impl Write) -> Count {
    let failure = Count { failed: 1, ..Count::default() };
    let niceness = if place == Place::Beside { NICENESS } else { "0" };
    let spawned = Command::new("nice")
        .args(["-n", niceness, "timeout", "--kill-after=10", &limit_seconds.to_string(), "sh"])
        .args(["-c", &format!("exec 2>&1; {command}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let _ = writeln!(out, "cannot run it: {error}");
            return failure;
        }
    };
    let output = child.stdout.take();
    let counted = output.and_then(|output| copy(BufReader::new(output), out));
    let mut count = counted.unwrap_or_default();
    let status = child.wait();
    let succeeded = status.as_ref().is_ok_and(|status| status.success());
    if status.is_ok_and(|status| status.code() == Some(ENDED_BY_TIMEOUT)) {
        let _ = writeln!(out, "it did not end within {limit_seconds} s");
    }
    if !succeeded {
        count.failed = count.failed.max(1);
    } else if counted.is_none() {
        count.passed = 1;
    }
    count
}

/// Copies the output. Answers what it counted, if there was a line of a count.
fn copy(mut output: impl BufRead, out: &mut impl Write) -> Option<Count> {
    let mut count = None;
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let _ = out.write_all(&line).and_then(|()| out.flush());
        if let Some(counted) = counted(&String::from_utf8_lossy(&line)) {
            count.get_or_insert_with(Count::default).add(counted);
        }
        line.clear();
    }
    count
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
    use super::{Count, Place, Step, counted, run_all, run_command};

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
    fn what_is_silent_counts_as_one_and_what_counts_as_it_says() {
        let counted = |command| {
            let count = run_command(command, Place::InFront, 20, &mut Vec::new());
            (count.passed, count.failed)
        };
        assert_eq!(counted("true"), (1, 0));
        assert_eq!(counted("false"), (0, 1));
        assert_eq!(counted("echo '0 passed, 0 failed'"), (0, 0));
        assert_eq!(counted("echo '0 passed, 0 failed'; false"), (0, 1));
        assert_eq!(counted("echo '3 passed, 0 failed'; echo '2 passed, 2 failed'; false"), (5, 2));
    }

    #[test]
    fn a_step_that_stands_still_is_ended_and_has_failed() {
        let mut output = Vec::new();
        let count = run_command("sleep 1000 & sleep 1000", Place::InFront, 1, &mut output);
        assert_eq!(count, Count { passed: 0, failed: 1, skipped: 0 });
        assert_eq!(output, b"it did not end within 1 s\n");
    }

    /// Each step waits for another one to have begun.
    #[test]
    fn steps_run_beside_those_in_front_and_then_beside_each_other() {
        let dir = std::env::temp_dir().join(format!("xtask-suite-{}", std::process::id()));
        let meets = |mine: &str, other: &str| {
            let dir = dir.display();
            format!(
                "mkdir -p {dir}; touch {dir}/{mine}; until [ -e {dir}/{other} ]; do sleep 0.01; done; \
                 echo '2 passed, 0 failed, 1 skipped'"
            )
        };
        let commands = [meets("a", "b"), meets("b", "a"), meets("c", "d"), meets("d", "c")];
        let steps: Vec<Step<'_>> =
            commands.iter().map(|command| Step { name: "meets", command }).collect();
        let table = run_all(&steps[..1], &steps[1..], 20);
        let counts: Vec<Count> = table.iter().map(|told| told.count).collect();
        assert_eq!(counts, [Count { passed: 2, failed: 0, skipped: 1 }; 4]);
        std::fs::remove_dir_all(dir).expect("the steps made it");
    }

    #[test]
    fn what_runs_beside_has_a_lower_priority() {
        let niceness = |place| {
            let mut output = Vec::new();
            let count = run_command("nice; echo '1 passed, 0 failed'", place, 20, &mut output);
            assert_eq!(count, Count { passed: 1, failed: 0, skipped: 0 });
            let text = String::from_utf8(output).expect("it is text");
            text.lines().next().and_then(|line| line.parse::<i32>().ok()).expect("a number")
        };
        let (in_front, beside) = (niceness(Place::InFront), niceness(Place::Beside));
        // There is none lower than that.
        assert!(beside > in_front || in_front == 19, "{in_front} in front, {beside} beside");
    }
}
