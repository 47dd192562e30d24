//! When a task sleeps, and the calls that wake it.

use workers::Next;

use super::Rounds;
use sequence::Sequence;

/// Returns whether a wake-up has to begin the task again.
fn wakes(rounds: &Rounds) -> bool {
    let mut has_to_begin = false;
    rounds.wake(|| has_to_begin = true);
    has_to_begin
}

#[test]
fn a_task_ends_after_two_idle_rounds_and_begins_again_once() {
    let (rounds, sequence) = (Rounds::default(), Sequence::new());
    assert_eq!(rounds.run(&sequence, || false), Next::AsBefore);
    assert_eq!(rounds.run(&sequence, || true), Next::AsBefore);
    assert_eq!(rounds.run(&sequence, || true), Next::Never);
    assert!(wakes(&rounds));
    assert!(!wakes(&rounds), "it has begun again");
    assert_eq!(rounds.run(&sequence, || true), Next::AsBefore);
}

#[test]
fn a_write_while_the_task_dozes_keeps_it_awake() {
    let (rounds, sequence) = (Rounds::default(), Sequence::new());
    assert_eq!(rounds.run(&sequence, || true), Next::AsBefore);
    assert!(!wakes(&rounds), "it has not ended");
    assert_eq!(rounds.run(&sequence, || true), Next::AsBefore);
    // Within a round, which may have looked before.
    let within = || {
        assert!(!wakes(&rounds));
        true
    };
    assert_eq!(rounds.run(&sequence, within), Next::AsBefore);
    assert_eq!(rounds.run(&sequence, || true), Next::Never);
}

#[test]
fn a_task_waits_for_writes_that_had_begun_before_it_dozed() {
    let (rounds, sequence) = (Rounds::default(), Sequence::new());
    let write = sequence.begin();
    for _ in 0..5 {
        assert_eq!(rounds.run(&sequence, || true), Next::AsBefore, "the write may not be seen yet");
    }
    let within = || {
        drop(write);
        true
    };
    assert_eq!(rounds.run(&sequence, within), Next::AsBefore, "this round may have looked before");
    assert_eq!(rounds.run(&sequence, || true), Next::Never);
    let _later = sequence.begin();
    assert!(wakes(&rounds));
}
