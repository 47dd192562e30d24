//! Runs cases that users of other stores reported, and reports which of them are right here.
//!
//! 1. `cases` runs all cases, and `cases WORD` those with the word in their name. The last line is
//!    `N of M cases right`; the exit code is 1 if one is wrong.
//! 2. Each case runs in a process of its own (`cases --run NAME DIRECTORY`) with an empty
//!    directory, and prints its verdict. A process that fails, or takes longer than [`CASE_MAX`],
//!    is wrong.
//! 3. A verdict has the wanted and the seen behaviour. A case that cannot run here is skipped, with
//!    the reason.

mod database;
mod files;
mod place;
mod redis;
mod verdict;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use place::Place;
use verdict::{Outcome, Verdict};

/// Time that one case may take.
const CASE_MAX: Duration = Duration::from_secs(300);

/// A case: its name, and its work in an empty directory.
struct Case {
    name: &'static str,
    run: fn(&Place) -> Outcome,
}

/// Returns all cases.
fn cases() -> Vec<Case> {
    let groups = [database::CASES, files::CASES, redis::CASES];
    groups.concat().into_iter().map(|(name, run)| Case { name, run }).collect()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--run", name, directory] => run_one(name, directory),
        ["--list"] => {
            cases().iter().for_each(|case| println!("{}", case.name));
            ExitCode::SUCCESS
        }
        [] => run_all(""),
        [word] if !word.starts_with('-') => run_all(word),
        _ => {
            eprintln!("usage: cases [WORD] | --list");
            ExitCode::from(2)
        }
    }
}

fn run_one(name: &str, directory: &str) -> ExitCode {
    let Some(case) = cases().into_iter().find(|case| case.name == name) else {
        eprintln!("no case {name:?}");
        return ExitCode::from(2);
    };
    let verdict = (case.run)(&Place::new(directory.into())).unwrap_or_else(|error| {
        Verdict::wrong("that the case runs to its end", format!("an error: {error}"))
    });
    println!("{}", verdict.line());
    ExitCode::SUCCESS
}

fn run_all(word: &str) -> ExitCode {
    let chosen: Vec<Case> = cases().into_iter().filter(|case| case.name.contains(word)).collect();
    if chosen.is_empty() {
        eprintln!("no case has {word:?} in its name; `./dev cases --list` lists them");
        return ExitCode::from(2);
    }
    let (mut right, mut wrong) = (0, 0);
    for case in chosen {
        let began = Instant::now();
        let line = run_in_process(case.name);
        println!("{:<24} {:>3} s  {line}", case.name, began.elapsed().as_secs());
        right += u32::from(line.starts_with(verdict::RIGHT));
        wrong += u32::from(line.starts_with(verdict::WRONG));
    }
    println!("{right} of {} cases right", right + wrong);
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a case in a process of its own, and returns the line of its verdict.
fn run_in_process(name: &str) -> String {
    let directory = std::env::temp_dir().join(format!("case-{name}-{}", std::process::id()));
    let line = verdict_of(name, &directory).unwrap_or_else(|error| {
        Verdict::wrong("that the case runs to its end", format!("an error: {error}")).line()
    });
    place::remove(&directory);
    line
}

fn verdict_of(name: &str, directory: &Path) -> Result<String, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(directory)?;
    let errors = std::fs::File::create(directory.join("errors"))?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--run", name])
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()?;
    let finished = place::wait(&mut child, CASE_MAX)?;
    if !finished {
        place::kill(&mut child);
    }
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take().filter(|_| finished) {
        std::io::Read::read_to_string(&mut output, &mut text)?;
    }
    let is_verdict = |line: &&str| {
        [verdict::RIGHT, verdict::WRONG, verdict::SKIPPED].iter().any(|word| line.starts_with(word))
    };
    let verdict = text.lines().rev().find(is_verdict).map(str::to_owned);
    Ok(verdict.unwrap_or_else(|| {
        let errors = std::fs::read_to_string(directory.join("errors")).unwrap_or_default();
        let last = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        let how = if finished { "it ended without a verdict" } else { "it did not end" };
        Verdict::wrong("that the case runs to its end", format!("{how}: {last}")).line()
    }))
}
