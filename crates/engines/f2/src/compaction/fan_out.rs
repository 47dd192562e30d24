//! Several threads on one piece of work: the thread that has it to do, and free threads of the
//! pool.
//!
//! The work is written so that any number of threads may do it at the same time, each taking the
//! next part until there is none. A thread that begins after the first thread has found no more
//! parts does nothing. So the work waits for no thread that has not begun, and a pool that is busy
//! elsewhere does no harm. A thread that has not begun does not keep the work alive. A panic of any
//! thread becomes one of the first thread.

use std::sync::Arc;
use std::thread::panicking;

use sync::locks::{Condvar, Mutex};
use workers::{Class, Group};

/// The threads that do the work.
#[derive(Default)]
struct FanOut {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    at_work: usize,
    is_over: bool,
    has_panicked: bool,
}

/// Leaves the crew on drop, also when the work panics.
struct Member<'a>(&'a FanOut);

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.at_work -= 1;
        state.has_panicked |= panicking();
        self.0.left.notify_all();
    }
}

/// Ends the crew on drop, also when the first thread panics: no thread is at work afterwards.
struct First<'a>(&'a FanOut);

impl Drop for First<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl FanOut {
    fn join(&self) -> Option<Member<'_>> {
        let mut state = self.state.lock();
        if state.is_over {
            return None;
        }
        state.at_work += 1;
        Some(Member(self))
    }

    fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        while state.at_work > 0 {
            self.left.wait(&mut state);
        }
    }
}

/// Does `work` on this thread, and concurrently on up to `others` threads of the pool, whose tasks
/// have this name. When it returns, no thread does the work any more or will do it, and no other
/// thread holds it.
///
/// # Panics
/// If another's work did: parts that were taken are not done then.
pub(crate) fn together(
    workers: &Group,
    name: &'static str,
    others: usize,
    work: &Arc<dyn Fn() + Send + Sync>,
) {
    let crew = Arc::new(FanOut::default());
    for _ in 0..others {
        let (crew, work) = (Arc::clone(&crew), Arc::downgrade(work));
        // A pool that is stopping gives no help.
        let _ = workers.submit(Class::Compact, name, move |_stop| {
            // A thread that is in time finds the work, which the first thread holds until the end.
            if let Some(_member) = crew.join()
                && let Some(work) = work.upgrade()
            {
                work();
            }
        });
    }
    let first = First(&crew);
    work();
    drop(first);
    assert!(!crew.state.lock().has_panicked, "a thread of the crew panicked");
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
