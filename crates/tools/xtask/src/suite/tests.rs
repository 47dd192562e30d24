//! Tests of the suite, with steps and test programs that are scripts.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::count::{Count, Outcome, counted};
use super::programs::{begun, run_programs, threads};
use super::{Ended, Place, Step, run_all, run_command, summary};
use crate::built::Program;

const PATIENCE: Duration = Duration::from_secs(60);

fn outcome_of(argument: &str, silence_max: Duration) -> (Outcome, String) {
    let mut output = Vec::new();
    let step = Step::of(argument).expect("a step");
    let outcome = run_command(step, Place::InFront, silence_max, &mut output);
    (outcome, String::from_utf8(output).expect("it is text"))
}

/// A folder of the test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn program(&self, name: &str, script: &str) -> Program {
        let path = self.0.join(name);
        write(&path, &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("permissions");
        let package = String::new();
        Program { package, name: name.to_owned(), path, folder: self.0.clone() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[expect(clippy::disallowed_methods, reason = "a script that the test runs")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
}

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
fn a_step_without_a_count_counts_as_one() {
    let counted = |command: &str| {
        let count = outcome_of(&format!("step={command}"), PATIENCE).0.count;
        (count.passed, count.failed)
    };
    assert_eq!(counted("true"), (1, 0));
    assert_eq!(counted("false"), (0, 1));
    assert_eq!(counted("echo '0 passed, 0 failed'"), (0, 0));
    assert_eq!(counted("echo '0 passed, 0 failed'; false"), (0, 1));
    assert_eq!(counted("echo '3 passed, 0 failed'; echo '2 passed, 2 failed'; false"), (5, 2));
}

#[test]
fn a_build_has_no_limit_and_counts_only_if_it_fails() {
    let (outcome, _) = outcome_of("build:compile=sleep 1", Duration::from_millis(100));
    assert_eq!(outcome.count, Count::default());
    let (outcome, _) = outcome_of("build:compile=exit 3", PATIENCE);
    assert_eq!(outcome.count, Count { failed: 1, ..Count::default() });
    assert_eq!(outcome.failures, ["it ended with exit status: 3"]);
}

#[test]
fn a_silent_step_is_ended_with_its_children_and_has_failed() {
    let (outcome, output) =
        outcome_of("step=echo begun; sleep 1000 & sleep 1000", Duration::from_secs(1));
    assert_eq!(outcome.count, Count { failed: 1, ..Count::default() });
    assert_eq!(outcome.failures, ["it printed nothing for 1 s and was ended"]);
    assert_eq!(output, "begun\nit printed nothing for 1 s and was ended\n");
}

#[test]
fn a_step_that_prints_is_not_ended() {
    let talks = "step=for i in 1 2 3 4 5 6; do sleep 0.5; echo $i; done";
    assert_eq!(outcome_of(talks, Duration::from_secs(2)).0.count.passed, 1);
}

#[test]
fn the_summary_names_each_failed_test_and_step() {
    let lines = "echo 'test a::b ... FAILED'; echo 'test a::c ... ok'; \
                 echo 'FAILED scan: got 2, want 3'; \
                 echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'; false";
    let (outcome, _) = outcome_of(&format!("step={lines}"), PATIENCE);
    let (silent, _) = outcome_of("step=exit 7", PATIENCE);
    let table = [
        Ended { name: "programs", seconds: 1, outcome },
        Ended { name: "clients", seconds: 2, outcome: silent },
    ];
    let text = summary(&table);
    let (_, failed) = text.split_once("=== failed\n").expect("a list of failures");
    assert_eq!(
        failed,
        "programs: a::b\nprograms: FAILED scan: got 2, want 3\n\
         clients: it ended with exit status: 7\n\n1 passed, 3 failed\n"
    );
}

#[test]
fn a_test_that_hangs_is_named() {
    let folder = Folder::new("hangs");
    let hangs = folder.program(
        "hangs",
        "case \"$*\" in *--list*) printf 'a: test\\nb: test\\nc: test\\nd: test\\n'; exit;; esac\n\
         echo 'running 4 tests'; echo 'test b ... ok'; echo 'test a ... ok'; sleep 1000",
    );
    let fails = folder.program(
        "fails",
        "echo 'test result: ok. 9 passed; 0 failed; 0 ignored'\n\
         echo 'test x - should panic ... FAILED'\n\
         echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101",
    );
    let aborts = folder.program("aborts", "kill -ABRT $$");
    let mut output = Vec::new();
    let (programs, silence_max) = ([hangs, fails, aborts], Duration::from_secs(2));
    let outcome = run_programs(&programs, &[], Place::InFront, silence_max, &mut output);
    assert_eq!(outcome.count, Count { passed: 1, failed: 3, skipped: 0 });
    let mut failures = outcome.failures;
    failures.sort();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut expected = vec![
        "aborts: it ended with signal: 6 (SIGABRT) (core dumped)".to_owned(),
        "fails: x".to_owned(),
        "hangs: c had not ended".to_owned(),
        "hangs: d had not ended".to_owned(),
        "hangs: it printed nothing for 2 s and was ended".to_owned(),
    ];
    expected.retain(|line| threads > 1 || !line.contains("d had"));
    let without_core = |line: &String| line.replace(" (core dumped)", "");
    assert_eq!(
        failures.iter().map(without_core).collect::<Vec<_>>(),
        expected.iter().map(without_core).collect::<Vec<_>>()
    );
    let output = String::from_utf8(output).expect("it is text");
    assert!(output.contains("--- output of fails\n"), "{output}");
}

#[test]
fn the_tests_that_have_begun_are_the_first_that_have_not_ended() {
    let listed = ["a", "b", "c", "d", "e"].map(str::to_owned);
    let output = "running 5 tests\ntest c ... ok\ntest a - should panic ... ok\n";
    assert_eq!(begun(&listed, output, 2), ["b", "d"]);
    assert_eq!(begun(&listed, output, 1), ["b"]);
}

/// Each step waits until another one has begun.
#[test]
fn steps_run_beside_those_in_front_and_beside_each_other() {
    let folder = Folder::new("meets");
    let meets = |mine: &str, other: &str| {
        let dir = folder.0.display();
        format!(
            "meets=touch {dir}/{mine}; until [ -e {dir}/{other} ]; do sleep 0.01; done; \
             echo '2 passed, 0 failed, 1 skipped'"
        )
    };
    let mut arguments = vec![meets("a", "b"), meets("b", "a"), meets("c", "d"), meets("d", "c")];
    let all = folder.0.display();
    arguments.push(format!("last=[ -e {all}/c ] && [ -e {all}/d ] && echo '3 passed, 0 failed'"));
    let steps = Step::all(&arguments).expect("steps");
    let table = run_all(&steps[..1], &steps[1..4], &steps[4..], PATIENCE);
    let counts: Vec<Count> = table.iter().map(|ended| ended.outcome.count).collect();
    let met = Count { passed: 2, failed: 0, skipped: 1 };
    assert_eq!(counts, [met, met, met, met, Count { passed: 3, failed: 0, skipped: 0 }]);
}

#[test]
fn steps_beside_run_while_a_processor_is_idle() {
    let scheduling = |text: &str| (text.contains("SCHED_IDLE"), text.starts_with("19\n"));
    let of_step = |place| {
        let mut output = Vec::new();
        let step = Step::of("step=nice; chrt --pid $$; echo '1 passed, 0 failed'").expect("a step");
        let outcome = run_command(step, place, PATIENCE, &mut output);
        assert_eq!(outcome.count, Count { passed: 1, failed: 0, skipped: 0 });
        scheduling(&String::from_utf8(output).expect("it is text"))
    };
    // The tests themselves may run next to others.
    let own = Command::new("sh").args(["-c", "nice; chrt --pid $$"]).output().expect("a shell");
    assert_eq!(of_step(Place::InFront), scheduling(&String::from_utf8_lossy(&own.stdout)));
    let beside = of_step(Place::Beside);
    assert!(beside.0 || beside.1, "idle, or the lowest niceness");
}

#[test]
fn the_number_of_threads_is_a_word_or_that_of_the_machine() {
    assert_eq!(threads(&["models", "--test-threads=1"]), 1);
    assert_eq!(threads(&["--test-threads=7", "models"]), 7);
    assert!(threads(&["models"]) >= 1);
}
