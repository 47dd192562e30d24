//! Mutants: the product with one fault at a time, which a test must find.
//!
//! A mutant is a patch, `reliability/mutants/CRATE/NAME.patch` (`mutants/patch.rs`). Its head says
//! what is wrong, and which test must fail. The patch adds a branch that is taken if
//! `sync::mutants::is_on("NAME")` returns true. That function is in the copy alone.
//!
//! All patches apply together to one copy of the tree, so it is compiled once. A variable of the
//! environment selects the mutant of a run.
//!
//! - `mutants` applies all patches, and compares the pages with the heads of the patches. With
//!   `--write` it writes the pages.
//! - `mutants run [WORD]` also compiles the copy. The test of each mutant must pass without the
//!   mutant, and fail with it. A test that ends with a time limit has found it, too.
//! - `mutants refresh` applies each patch alone, where one line of context has to match, and writes
//!   it again.

mod patch;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use crate::Findings;
use crate::limited::{self, End};
use patch::Patch;
use tree::{Programs, Tree, on};

/// The folder of the patches.
const PATCHES: &str = "reliability/mutants";
/// The variable that selects a mutant.
const SELECTED: &str = "THERMOCLINE_MUTANT";
/// Time for which a test with a mutant may print nothing.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Runs the subcommand.
pub(crate) fn run(arguments: &[String]) -> Findings {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let patches = Patch::all()?;
    match words.as_slice() {
        [] => check(&patches, false),
        ["--write"] => check(&patches, true),
        ["run"] => find_all(&patches, ""),
        ["run", word] => find_all(&patches, word),
        ["refresh"] => patch::refresh(&patches),
        _ => Err("mutants [--write] | mutants run [WORD] | mutants refresh".to_owned()),
    }
}

/// Applies all patches, and compares or writes the pages.
fn check(patches: &[Patch], write: bool) -> Findings {
    let (_, mut findings) = Tree::patched(patches)?;
    for (name, text) in pages(patches) {
        let path = format!("docs/reliability/mutants-{name}.md");
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        if there != text && write {
            #[expect(clippy::disallowed_methods, reason = "writes a file of the repository")]
            std::fs::write(&path, text).map_err(|error| format!("{path}: {error}"))?;
        } else if there != text {
            findings.push(format!("{path} is not that of the patches: run `mutants --write`"));
        }
    }
    Ok(findings)
}

/// Returns the page of each crate.
fn pages(patches: &[Patch]) -> BTreeMap<&str, String> {
    let mut pages = BTreeMap::new();
    for patch in patches {
        let page = pages.entry(patch.of.as_str()).or_insert_with(|| {
            format!(
                "# Mutants of `{0}`\n\n\
                 Each row is `{0}` with one fault, and the test that must fail then. The patches \
                 are in `{PATCHES}/{0}/`.\n`cargo run -p thermocline-xtask -- mutants run` \
                 compiles them, and runs these tests with and without each.\n\n\
                 | mutant | fault | test |\n|---|---|---|\n",
                patch.of
            )
        });
        *page += &format!("| `{}` | {} | `{}` |\n", patch.name, patch.what, patch.test);
    }
    pages
}

/// Shows that each mutant with `word` in its name or crate is found.
fn find_all(patches: &[Patch], word: &str) -> Findings {
    let (tree, mut findings) = Tree::patched(patches)?;
    if !findings.is_empty() {
        return Ok(findings);
    }
    let is_wanted = |patch: &&Patch| patch.of.contains(word) || patch.name.contains(word);
    let wanted: Vec<&Patch> = patches.iter().filter(is_wanted).collect();
    let programs = tree.build(wanted.iter().map(|patch| patch.package.as_str()))?;
    let tests: BTreeSet<_> =
        wanted.iter().map(|patch| (patch.package.as_str(), patch.test.as_str())).collect();
    for (test, (end, passed)) in run_all(&programs, tests.into_iter().map(|test| (test, "")))? {
        match end {
            End::Exited(status) if status.success() && passed > 0 => {}
            end => findings.push(format!(
                "{} of {} does not pass without a mutant: {}, {passed} tests passed",
                test.0.1,
                test.0.0,
                end.text(Some(SILENCE_MAX))
            )),
        }
    }
    if !findings.is_empty() {
        return Ok(findings);
    }
    let mut found = 0;
    let mutants = wanted
        .iter()
        .map(|patch| ((patch.package.as_str(), patch.test.as_str()), patch.name.as_str()));
    for (((_, test), name), (end, _)) in run_all(&programs, mutants)? {
        match end {
            End::Exited(status) if !status.success() => println!("{name}: found"),
            End::Silent => println!("{name}: found, the test does not end"),
            End::Exited(_) => {
                findings.push(format!("{name} is not found by {test}"));
                continue;
            }
            End::Unstarted(why) => return Err(why),
        }
        found += 1;
    }
    println!("{found} passed, {} failed", findings.len());
    Ok(findings)
}

/// A package, a filter of its tests, and a mutant; the empty name is none.
type Run<'p> = ((&'p str, &'p str), &'p str);

/// A run, how it ended, and the number of tests that have passed.
type Ended<'p> = (Run<'p>, (End, u64));

/// Runs tests with mutants, on all processors. Returns how each ended, and how many tests have
/// passed, in the order of `runs`.
fn run_all<'p>(
    programs: &Programs<'_>,
    runs: impl Iterator<Item = Run<'p>>,
) -> Result<Vec<Ended<'p>>, String> {
    let runs: Vec<Run<'p>> = runs.collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let part = |worker: usize| {
        let own = runs.iter().enumerate().skip(worker).step_by(workers);
        own.map(|(number, run)| (number, (*run, run_test(programs, *run)))).collect::<Vec<_>>()
    };
    let part = &part;
    let ended = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..workers).map(|worker| scope.spawn(move || part(worker))).collect();
        let ended: Result<Vec<_>, _> = parts.into_iter().map(|part| part.join()).collect();
        ended.map_err(|_| "a worker has panicked".to_owned())
    })?;
    let mut ended: BTreeMap<_, _> = ended.into_iter().flatten().collect();
    // Some tests depend on time, and the processors were shared: a second run is alone.
    for (run, end) in ended.values_mut() {
        if !is_expected(*run, end) {
            *end = run_test(programs, *run);
        }
    }
    Ok(ended.into_values().collect())
}

/// Whether a test passed without a mutant, or found its mutant.
fn is_expected((_, mutant): Run<'_>, (end, passed): &(End, u64)) -> bool {
    match end {
        End::Exited(status) if mutant.is_empty() => status.success() && *passed > 0,
        End::Exited(status) => !status.success(),
        End::Silent => !mutant.is_empty(),
        End::Unstarted(_) => false,
    }
}

/// Runs tests of a package with a mutant. Returns how many have passed.
fn run_test(programs: &Programs<'_>, ((package, test), mutant): Run<'_>) -> (End, u64) {
    let Some(program) = programs.get(package) else {
        return (End::Unstarted(format!("{package} has no tests")), 0);
    };
    // As cargo runs it.
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder);
    command.arg(test).env(SELECTED, mutant).stderr(std::process::Stdio::null());
    let mut passed = 0;
    let end = limited::run(&mut command, Some(SILENCE_MAX), |line| {
        passed += passed_in(&String::from_utf8_lossy(line));
    });
    (end, passed)
}

/// Returns the number of tests that a line of a test program reports as passed.
fn passed_in(line: &str) -> u64 {
    let Some((_, rest)) = line.split_once("test result: ") else { return 0 };
    let number = rest.split_once(" passed").and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Runs a command that must succeed. Returns its output.
fn must_run(command: &mut Command) -> Result<String, String> {
    match on(command)? {
        (true, output) => Ok(output),
        (false, output) => Err(format!("{command:?}: {output}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted() {
        let line = "test result: ok. 12 passed; 0 failed; 0 ignored; 3 filtered out; in 0.50s";
        assert_eq!((passed_in(line), passed_in("running 12 tests")), (12, 0));
    }

    #[test]
    fn a_page_has_a_row_for_each_patch() {
        let patch = |name: &str| Patch {
            name: name.to_owned(),
            of: "hashkv".to_owned(),
            what: "Nothing is synced.".to_owned(),
            package: "thermocline-hashkv".to_owned(),
            test: "tests::crash".to_owned(),
            diff: String::new(),
        };
        let patches = [patch("One"), patch("Two")];
        let pages = pages(&patches);
        let page = &pages["hashkv"];
        assert!(page.contains("| `One` | Nothing is synced. | `tests::crash` |\n| `Two` |"));
    }
}
