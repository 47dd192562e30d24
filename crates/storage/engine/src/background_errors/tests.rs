//! Entries, their counts and their pauses.

use std::sync::Arc;

use environment::ManualClock;

use super::*;

const FLUSH: &str = "the flush";
const COLLECT: &str = "the collector";

fn no_space() -> Error {
    Error::Device(device::Error::NoSpace { name: "log".to_owned() })
}

fn refused() -> Error {
    Error::OutOfMemory { limit: 1 }
}

fn with_clock() -> (BackgroundErrors, Environment, Arc<ManualClock>) {
    let (environment, clock) = Environment::simulated(1);
    (BackgroundErrors::default(), environment, clock)
}

#[test]
fn each_kind_of_work_has_an_entry_until_it_succeeds() {
    let (errors, environment, clock) = with_clock();
    assert_eq!(errors.report(|_, _| true), []);
    errors.fail(FLUSH, &no_space(), &environment);
    let since_ms = environment.wall_ms();
    clock.advance(Duration::from_secs(100));
    errors.fail(COLLECT, &refused(), &environment);
    errors.fail(FLUSH, &refused(), &environment);
    let found = errors.report(|work, cause| work == FLUSH && *cause == refused());
    let [flush, collect] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((flush.work, flush.failures, flush.since_ms), (FLUSH, 2, since_ms));
    assert!(flush.refuses_writes && flush.cause == refused(), "the last cause counts");
    assert!(collect.failures == 1 && !collect.refuses_writes);
    errors.succeed(FLUSH);
    assert!(!errors.is_failing(FLUSH) && errors.is_failing(COLLECT));
    assert_eq!(errors.cause(COLLECT), Some(refused()));
    errors.succeed(COLLECT);
    assert_eq!((errors.report(|_, _| true), errors.cause(COLLECT)), (vec![], None));
}

#[test]
fn pauses_double_up_to_the_longest_and_end_with_a_success() {
    let (errors, environment, clock) = with_clock();
    let mut pause = PAUSE_MIN;
    for _ in 0..12 {
        errors.note(FLUSH, &Err::<(), _>(no_space()), &environment);
        // Another thread that tried at the same time begins no pause of its own.
        errors.note(FLUSH, &Err::<(), _>(no_space()), &environment);
        assert_eq!(errors.pausing(FLUSH, &environment), Some(no_space()));
        clock.advance(pause - Duration::from_nanos(1));
        assert!(errors.pausing(FLUSH, &environment).is_some(), "{pause:?}");
        clock.advance(Duration::from_nanos(1));
        assert!(errors.pausing(FLUSH, &environment).is_none(), "{pause:?}");
        pause = (pause * 2).min(PAUSE_MAX);
    }
    errors.note(FLUSH, &Ok(()), &environment);
    errors.note(FLUSH, &Err::<(), _>(no_space()), &environment);
    clock.advance(PAUSE_MIN);
    assert!(errors.pausing(FLUSH, &environment).is_none(), "the pauses begin with the shortest");
}

#[test]
fn an_error_for_good_and_a_close_make_no_entry_by_a_note() {
    let (errors, environment, _clock) = with_clock();
    errors.note(FLUSH, &Err::<(), _>(Error::LogEnded), &environment);
    errors.fail(FLUSH, &Error::Closed, &environment);
    assert!(!errors.is_failing(FLUSH));
}
