//! Runs the steps of a test command and reports each test that failed.
//!
//! 1. Arguments are three groups, parted by `--`: steps *in front*, steps *next to them*, and
//!    *last* steps. Steps in front run sequentially. The others run next to them, two at a time,
//!    and take only the processor time that the steps in front leave (`priority.rs`). The last
//!    steps run when all others have ended.
//! 2. A step is `NAME=COMMAND` and is run by `sh -c` from the root. Before the name, `build:` marks
//!    a step that only compiles, and `tests:` a `cargo test` command whose programs run one by one
//!    (`programs.rs`).
//! 3. Compilation has no limit. A test program, or a step without a mark, is ended with all that it
//!    started when it has printed nothing for [`SILENCE_MAX`]. The report names the tests that it
//!    had begun.
//! 4. Lines of a known form are counted: Rust's `test result:`, and `N passed, N failed` with an
//!    optional `, N skipped` from scripts. A command that fails without a counted failure counts as
//!    one failed, and one that passes without a count as one passed. So no step is left out.
//! 5. At the end come a table of the steps with their seconds, the name of each failed test, and
//!    the line `N passed, N failed`.

mod count;
mod priority;
mod programs;

use std::collections::VecDeque;
use std::io::Write;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{iter, thread};

use crate::limited::{self, End};
use count::{Count, Outcome};
use priority::Priority;

/// Time for which a test program or a step may print nothing. A test prints a line when it ends, so
/// this is the most that the tests which run at one time may take.
const SILENCE_MAX: Duration = Duration::from_secs(900);
/// A step next to others may print nothing for this many times [`SILENCE_MAX`].
const SILENCE_BESIDE_TIMES: u32 = 4;

/// The work of a step's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Compiles.
    Build,
    /// Compiles test programs with `cargo test`, and runs each of them.
    Tests,
    /// Runs something that is built.
    Run,
}

/// A command with its name.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    kind: Kind,
    name: &'a str,
    command: &'a str,
}

impl<'a> Step<'a> {
    fn all(arguments: &'a [String]) -> Result<Vec<Self>, String> {
        arguments.iter().map(|argument| Self::of(argument)).collect()
    }

    fn of(argument: &'a str) -> Result<Self, String> {
        let (name, command) = argument
            .split_once('=')
            .ok_or_else(|| format!("{argument:?} is not [build:|tests:]NAME=COMMAND"))?;
        let (kind, name) = match name.split_once(':') {
            Some(("build", name)) => (Kind::Build, name),
            Some(("tests", name)) => (Kind::Tests, name),
            _ => (Kind::Run, name),
        };
        Ok(Self { kind, name, command })
    }
}

/// Whether a step runs in front of others or next to them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    InFront,
    Beside,
}

impl Place {
    fn priority(self) -> Priority {
        match self {
            Self::InFront => Priority::Usual,
            Self::Beside => Priority::Idle,
        }
    }
}

/// The output of a step in front. It uses `print!`, which libtest captures: lines that this file's
/// own tests print must not be counted by a suite that runs those tests.
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

/// A step that has ended.
struct Ended<'a> {
    name: &'a str,
    seconds: u64,
    outcome: Outcome,
}

/// Runs the steps and prints the sum.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let groups: Result<Vec<_>, _> =
        arguments.split(|argument| argument == "--").map(Step::all).collect();
    let groups = match groups {
        Ok(groups) => groups,
        Err(why) => {
            eprintln!("xtask suite: {why}");
            return ExitCode::from(2);
        }
    };
    let group = |at: usize| groups.get(at).map_or(&[][..], Vec::as_slice);
    let table = run_all(group(0), group(1), group(2), SILENCE_MAX);
    print!("\n{}", summary(&table));
    let is_passed = table.iter().all(|ended| ended.outcome.count.failed == 0);
    if is_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the table of the steps, the names of failed tests and the sum.
fn summary(table: &[Ended<'_>]) -> String {
    let mut text = String::from("=== summary\n");
    let mut total = Count::default();
    for Ended { name, seconds, outcome } in table {
        text.push_str(&format!("{name:<48} {seconds:>5} s  {}\n", outcome.count.line()));
        total.add(outcome.count);
    }
    if total.failed > 0 {
        text.push_str("\n=== failed\n");
    }
    for Ended { name, outcome, .. } in table {
        for failure in &outcome.failures {
            text.push_str(&format!("{name}: {failure}\n"));
        }
    }
    text.push_str(&format!("\n{}\n", total.line()));
    text
}

fn run_all<'a>(
    front: &[Step<'a>],
    beside: &[Step<'a>],
    last: &[Step<'a>],
    silence_max: Duration,
) -> Vec<Ended<'a>> {
    let waiting: Mutex<VecDeque<Step<'a>>> = Mutex::new(beside.iter().copied().collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let run_waiting = || -> Vec<Ended<'a>> {
        iter::from_fn(next).map(|step| run_step(step, Place::Beside, silence_max)).collect()
    };
    let in_front = |step: &Step<'a>| run_step(*step, Place::InFront, silence_max);
    thread::scope(|scope| {
        let others = [scope.spawn(run_waiting), scope.spawn(run_waiting)];
        let mut ended: Vec<Ended<'a>> = front.iter().map(in_front).collect();
        for other in others {
            ended.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        ended.extend(last.iter().map(in_front));
        ended
    })
}

fn run_step<'a>(step: Step<'a>, place: Place, silence_max: Duration) -> Ended<'a> {
    let Step { name, command, .. } = step;
    let clock = environment::Environment::real();
    let began = clock.now();
    let outcome = match place {
        Place::InFront => {
            println!("\n=== {name}: {command}");
            run_command(step, place, silence_max, &mut Printed)
        }
        Place::Beside => {
            println!("\n=== {name}, beside, begins");
            let mut output = Vec::new();
            // It may get no processor for as long as the steps in front take.
            let silence_max = silence_max.saturating_mul(SILENCE_BESIDE_TIMES);
            let outcome = run_command(step, place, silence_max, &mut output);
            let output = String::from_utf8_lossy(&output);
            println!("\n=== {name}, beside: {command}\n{output}=== {name}, beside, has ended");
            outcome
        }
    };
    Ended { name, seconds: (clock.now() - began).as_secs(), outcome }
}

fn run_command(
    step: Step<'_>,
    place: Place,
    silence_max: Duration,
    out: &mut (impl Write + Send),
) -> Outcome {
    match step.kind {
        Kind::Tests => programs::run(step.command, place, silence_max, out),
        Kind::Build => run_shell(step.command, place, None, out).of_build(),
        Kind::Run => run_shell(step.command, place, Some(silence_max), out),
    }
}

/// Runs a command of the shell, copies its output and counts.
fn run_shell(
    command: &str,
    place: Place,
    silence_max: Option<Duration>,
    out: &mut impl Write,
) -> Outcome {
    let mut outcome = Outcome::default();
    let end = limited::run(&mut shell(command, place), silence_max, |line| {
        let _ = out.write_all(line).and_then(|()| out.flush());
        outcome.note(&String::from_utf8_lossy(line));
    });
    outcome.end(&end, silence_max);
    if let End::Silent = end {
        let _ = writeln!(out, "{}", end.text(silence_max));
    }
    outcome
}

fn shell(command: &str, place: Place) -> Command {
    let mut shell = place.priority().command("sh");
    shell.args(["-c", &format!("exec 2>&1; {command}")]);
    shell
}

#[cfg(test)]
mod tests;
