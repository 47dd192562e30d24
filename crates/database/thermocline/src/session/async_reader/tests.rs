//! Every request gets an answer, whatever ends the thread that serves it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use engine::Progress;

use super::*;
use crate::stand_in::{NoQueue, OneRead};

/// An async reader with these requests, none of which is begun.
fn asked(count: u8, lookup: impl Fn() -> OneRead) -> (Shared, Vec<Arc<Answer>>) {
    let shared = Shared::default();
    let answers: Vec<Arc<Answer>> = (0..count).map(|_| Arc::default()).collect();
    let request = |answer: &Arc<Answer>| Request::new(Box::new(lookup()), Arc::clone(answer));
    let mut state = shared.state.lock();
    state.requests.extend(answers.iter().map(request));
    state.is_serving = true;
    drop(state);
    (shared, answers)
}

fn reads() -> InFlightReads<Promise> {
    InFlightReads::new(DEPTH, &Arc::new(MemoryBudget::new(u64::MAX)))
}

fn without_queue() -> OneRead {
    OneRead::new(Arc::new(NoQueue), || Ok(Progress::Absent))
}

fn panicking() -> OneRead {
    let source = Arc::new(engine::DeviceReads(device::memory()));
    OneRead::new(source, || panic!("as the test wants it"))
}

/// Stops the async reader once it has been woken as often as there are requests.
struct Stops(Arc<Shared>, AtomicUsize);

impl Wake for Stops {
    fn wake(self: Arc<Self>) {
        if self.1.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.state.lock().is_stopped = true;
        }
    }
}

fn outcomes(answers: &[Arc<Answer>]) -> Vec<Option<Outcome>> {
    answers.iter().map(|answer| answer.take(Waker::noop())).collect()
}

#[test]
fn every_request_gets_the_failure_of_its_queue() {
    // More than are in flight together.
    let (shared, answers) = asked(200, without_queue);
    let shared = Arc::new(shared);
    let stops = Arc::new(Stops(Arc::clone(&shared), AtomicUsize::new(answers.len())));
    let waker = Waker::from(stops);
    assert!(answers.iter().all(|answer| answer.take(&waker).is_none()));
    shared.serve(reads());
    let found = outcomes(&answers);
    let failed = Some(Err(engine::Error::Device(NoQueue::failure()).into()));
    assert!(found.iter().all(|outcome| *outcome == failed), "{found:?}");
}

#[test]
fn every_request_of_a_thread_that_panics_gets_an_answer() {
    let (shared, answers) = asked(200, panicking);
    let serve = || shared.serve(reads());
    assert!(catch_unwind(AssertUnwindSafe(serve)).is_err());
    let found = outcomes(&answers);
    assert!(found.iter().all(|outcome| *outcome == Some(Err(Error::Closed))), "{found:?}");
    assert_eq!(shared.run_state(), (false, false), "the next request starts another thread");
}

/// Nor is the request of a waker lost that runs while the thread ends.
#[test]
fn a_request_that_comes_while_the_thread_ends_gets_an_answer() {
    struct AsksAgain(Arc<Shared>, Arc<Answer>);
    impl Wake for AsksAgain {
        fn wake(self: Arc<Self>) {
            let mut state = self.0.state.lock();
            assert!(state.is_serving);
            let request = Request::new(Box::new(without_queue()), Arc::clone(&self.1));
            state.requests.push_back(request);
        }
    }
    let (shared, answers) = asked(1, panicking);
    let (shared, late) = (Arc::new(shared), Arc::new(Answer::default()));
    let waker = Waker::from(Arc::new(AsksAgain(Arc::clone(&shared), Arc::clone(&late))));
    assert!(answers.iter().all(|answer| answer.take(&waker).is_none()));
    assert!(catch_unwind(AssertUnwindSafe(|| shared.serve(reads()))).is_err());
    assert!(outcomes(&answers).into_iter().all(|outcome| outcome.is_some()));
    assert_eq!(late.take(Waker::noop()), Some(Err(Error::Closed)));
}
