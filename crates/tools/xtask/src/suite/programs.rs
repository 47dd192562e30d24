//! Builds the programs of a `cargo test` command, and then runs each of them with a limit of its
//! own.
//!
//! 1. `--no-run` builds all programs without a limit, and cargo's messages name them.
//! 2. Two programs run at a time. The second one has low priority and comes from the end of the
//!    list: it takes the processor time that the tests of the first one leave.
//! 3. The output of a program is printed only if a test failed.
//! 4. If a program prints nothing for too long, it is ended. libtest runs the tests in the order of
//!    `--list`, on a known number of threads, and prints each one that ends. So the first tests of
//!    the list that have not ended are the running ones.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{iter, thread};

use environment::Environment;

use super::count::{Outcome, ended_test};
use super::{Place, Priority, shell};
use crate::built::{MESSAGES, Program};
use crate::limited::{self, End};

/// Time for a program to list its tests.
const LIST_MAX: Duration = Duration::from_secs(60);

/// Builds and runs the programs of `command`; the words after ` -- ` are given to each program.
pub(super) fn run(
    command: &str,
    place: Place,
    silence_max: Duration,
    out: &mut (impl Write + Send),
) -> Outcome {
    let (cargo, words) = command.split_once(" -- ").unwrap_or((command, ""));
    let words: Vec<&str> = words.split_whitespace().collect();
    match build(cargo, place, out) {
        Ok(programs) if programs.is_empty() => Outcome::failed("cargo built no test program"),
        Ok(programs) => run_programs(&programs, &words, place, silence_max, out),
        Err(failed) => failed,
    }
}

fn build(cargo: &str, place: Place, out: &mut impl Write) -> Result<Vec<Program>, Outcome> {
    let command = format!("{cargo} --no-run {MESSAGES}");
    let mut programs = Vec::new();
    let end = limited::run(&mut shell(&command, place), None, |line| {
        let text = String::from_utf8_lossy(line);
        if !text.starts_with('{') {
            let _ = out.write_all(line).and_then(|()| out.flush());
        } else if let Some(program) = Program::of(&text) {
            programs.push(program);
        }
    });
    let mut outcome = Outcome::default();
    outcome.end(&end, None);
    if outcome.count.failed > 0 {
        return Err(outcome);
    }
    Ok(programs)
}

pub(super) fn run_programs(
    programs: &[Program],
    words: &[&str],
    place: Place,
    silence_max: Duration,
    out: &mut (impl Write + Send),
) -> Outcome {
    let waiting: Mutex<VecDeque<&Program>> = Mutex::new(programs.iter().collect());
    let (total, out) = (Mutex::new(Outcome::default()), Mutex::new(out));
    let run_some = |take: fn(&mut VecDeque<&'_ Program>) -> Option<usize>, priority: Priority| {
        let next = || {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let at = take(&mut waiting)?;
            waiting.remove(at)
        };
        for program in iter::from_fn(next) {
            let (outcome, text) = run_program(program, words, priority, silence_max);
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.add(&program.name, outcome);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| run_some(|waiting| waiting.len().checked_sub(1), place.priority().second()));
        run_some(|waiting| (!waiting.is_empty()).then_some(0), place.priority());
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program. Returns its outcome and the text to print: one line, and its output if it
/// failed.
fn run_program(
    program: &Program,
    words: &[&str],
    priority: Priority,
    silence_max: Duration,
) -> (Outcome, String) {
    let clock = Environment::real();
    let (began, mut output, mut outcome) = (clock.now(), String::new(), Outcome::default());
    let end = limited::run(&mut command(program, words, priority), Some(silence_max), |line| {
        let line = String::from_utf8_lossy(line);
        outcome.note_of_program(&line);
        output.push_str(&line);
    });
    outcome.end(&end, Some(silence_max));
    if let End::Silent = end
        && output.lines().any(|line| line.starts_with("running "))
    {
        let begun = begun(&listed(program, words), &output, threads(words));
        outcome.failures.extend(begun.into_iter().map(|test| format!("{test} had not ended")));
    }
    let seconds = (clock.now() - began).as_secs();
    let line = format!("{}: {}, {seconds} s\n", program.name, outcome.count.line());
    let text = match outcome.count.failed {
        0 => line,
        _ => format!("--- output of {}\n{output}\n{line}", program.name),
    };
    (outcome, text)
}

fn command(program: &Program, words: &[&str], priority: Priority) -> Command {
    let mut command = priority.command("sh");
    command
        .args(["-c", "exec 2>&1; exec \"$0\" \"$@\""])
        .arg(&program.path)
        .args(words)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .current_dir(&program.folder);
    command
}

/// Returns the tests of a program in the order in which it runs them.
fn listed(program: &Program, words: &[&str]) -> Vec<String> {
    let words = [words, &["--list", "--format=terse"]].concat();
    let mut tests = Vec::new();
    let end =
        limited::run(&mut command(program, &words, Priority::Usual), Some(LIST_MAX), |line| {
            let line = String::from_utf8_lossy(line);
            tests.extend(line.trim_end().strip_suffix(": test").map(str::to_owned));
        });
    drop(end);
    tests
}

/// Returns the number of tests that libtest runs at a time, if it is given `words`.
pub(super) fn threads(words: &[&str]) -> usize {
    let given = words.iter().find_map(|word| word.strip_prefix("--test-threads="));
    let set = given.map(str::to_owned).or_else(|| std::env::var("RUST_TEST_THREADS").ok());
    set.and_then(|threads| threads.parse().ok())
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Returns the tests that had begun and not ended.
pub(super) fn begun(listed: &[String], output: &str, threads: usize) -> Vec<String> {
    let ended: BTreeSet<&str> =
        output.lines().filter_map(ended_test).map(|(name, _)| name).collect();
    let running = listed.iter().filter(|test| !ended.contains(test.as_str()));
    running.take(threads).cloned().collect()
}
