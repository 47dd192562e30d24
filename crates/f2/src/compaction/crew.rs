//! Several threads on one piece of work: the one that has it to do, and others of the pool as they
//! are free.
//!
//! The work is written so that any number of threads may do it at once, each taking the next part
//! until there is none. Whoever comes when the first thread has found no more parts does nothing:
//! so the work waits for nobody who has not begun, and a pool that is busy elsewhere does no harm.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use workers::{Class, Group};

/// Who is at it.
#[derive(Default)]
struct Crew {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    at_work: usize,
    is_over: bool,
}

/// Leaves the crew on drop, also when the work panics.
struct Member<'a>(&'a Crew);

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.0.state.lock().at_work -= 1;
        self.0.left.notify_all();
    }
}

impl Crew {
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

/// Does `work` on this thread, and at once on up to `others` threads of the pool. When it returns
/// nobody is at it any more, and nobody will be.
pub(super) fn together(workers: &Group, others: usize, work: &Arc<dyn Fn() + Send + Sync>) {
    let crew = Arc::new(Crew::default());
    for _ in 0..others {
        let (crew, work) = (Arc::clone(&crew), Arc::clone(work));
        // A pool that is stopping gives no help.
        let _ = workers.submit(Class::Compact, "help to compact", move |_stop| {
            if let Some(_member) = crew.join() {
                work();
            }
        });
    }
    work();
    crew.end();
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
