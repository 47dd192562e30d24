//! Every request is answered, however the thread that serves it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Wake;

use engine::{BegunOld, Listener};

use super::*;

/// A seat on which every read is pending, and whose queue fails or which never tells.
struct Broken {
    pending: usize,
    panics: bool,
}

fn failure() -> engine::Error {
    engine::Error::of_journal(engine::Error::Closed)
}

impl Seat for Broken {
    fn begin_get(&mut self, _: u64, _: &[u8], _: &mut Vec<u8>) -> engine::Result<Begun> {
        self.pending += 1;
        Ok(Begun::Pending)
    }

    fn begin_old(&mut self, _: u64, _: &[u8]) -> engine::Result<BegunOld> {
        unreachable!("futures only get")
    }

    fn complete(&mut self, _: bool, _: &mut dyn Listener) -> engine::Result<usize> {
        assert!(!self.panics, "a planted panic");
        Err(failure())
    }

    fn pending(&self) -> usize {
        self.pending
    }

    fn ring(&mut self, _: &Arc<device::Doorbell>) -> engine::Result<()> {
        unreachable!("the desk waits for its seat")
    }
}

/// A desk with so many requests, none of which is begun.
fn asked(count: u8) -> (Shared, Vec<Arc<Answer>>) {
    let shared = Shared::default();
    let answers: Vec<Arc<Answer>> = (0..count).map(|_| Arc::default()).collect();
    let request = |(key, answer): (u8, &Arc<Answer>)| Request::new(vec![key], Arc::clone(answer));
    let mut state = shared.state.lock();
    state.requests.extend((0..count).zip(&answers).map(request));
    state.is_serving = true;
    drop(state);
    (shared, answers)
}

fn outcomes(answers: &[Arc<Answer>]) -> Vec<Option<Outcome>> {
    answers.iter().map(|answer| answer.take(Waker::noop())).collect()
}

#[test]
fn a_queue_that_fails_is_told_to_all_who_wait() {
    // More than are under way at once.
    let (shared, answers) = asked(200);
    shared.serve(Box::new(Broken { pending: 0, panics: false }));
    let told = outcomes(&answers);
    assert!(told.iter().all(|outcome| *outcome == Some(Err(failure().into()))), "{told:?}");
    assert_eq!(shared.standing(), (false, false), "the next request starts another thread");
}

#[test]
fn whoever_waits_for_a_thread_that_panics_is_answered() {
    let (shared, answers) = asked(200);
    let serve = || shared.serve(Box::new(Broken { pending: 0, panics: true }));
    assert!(catch_unwind(AssertUnwindSafe(serve)).is_err());
    let told = outcomes(&answers);
    assert!(told.iter().all(|outcome| *outcome == Some(Err(Error::Closed))), "{told:?}");
    assert_eq!(shared.standing(), (false, false));
}

/// What a waker asks for while the thread ends is not lost either.
#[test]
fn a_request_that_comes_while_the_thread_ends_is_answered() {
    struct AsksAgain(Arc<Shared>, Arc<Answer>);
    impl Wake for AsksAgain {
        fn wake(self: Arc<Self>) {
            let mut state = self.0.state.lock();
            assert!(state.is_serving);
            state.requests.push_back(Request::new(vec![1], Arc::clone(&self.1)));
        }
    }
    let (shared, answers) = asked(1);
    let (shared, late) = (Arc::new(shared), Arc::new(Answer::default()));
    let waker = Waker::from(Arc::new(AsksAgain(Arc::clone(&shared), Arc::clone(&late))));
    assert!(answers.iter().all(|answer| answer.take(&waker).is_none()));
    shared.serve(Box::new(Broken { pending: 0, panics: false }));
    assert!(outcomes(&answers).into_iter().all(|outcome| outcome.is_some()));
    assert_eq!(late.take(Waker::noop()), Some(Err(Error::Closed)));
}
