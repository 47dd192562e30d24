//! Background work that fails, for whoever looks after the store ([`engine::Engine::troubles`]): commits that are
//! refused, what the collector cannot read, what cannot be written as one for scans or while the store is idle, an index that is too large for the
//! memory (`commit/thinning.rs`), and one that was stored and could not be read, which is told until the store is closed.
//!
//! A commit is tried again, and its trouble ends with one that succeeds. A segment with something that cannot be
//! read is left alone by the collector as long as that lives: its room does not come back before, and whoever
//! reads it is told of the damage.

use engine::{Error, Result, Trouble};
use flexspace::space::Collected;
use sync::locks::Mutex;

use crate::error::from_space;
use crate::store::Shared;

/// What fails, since when, and how often it has.
#[derive(Clone, Debug)]
struct Failing {
    cause: Error,
    since_ms: u64,
    failures: u64,
}

/// One kind of work.
#[derive(Debug, Default)]
pub(crate) struct Work(Mutex<Option<Failing>>);

impl Work {
    /// It failed, at a time of the wall clock.
    pub(crate) fn fail(&self, cause: Error, now_ms: u64) {
        if cause == Error::Closed {
            return;
        }
        let mut failing = self.0.lock();
        let (since_ms, failures) =
            failing.as_ref().map_or((now_ms, 0), |before| (before.since_ms, before.failures));
        *failing = Some(Failing { cause, since_ms, failures: failures + 1 });
    }

    /// It succeeded.
    pub(crate) fn succeed(&self) {
        *self.0.lock() = None;
    }

    fn is_failing(&self) -> bool {
        self.0.lock().is_some()
    }

    fn trouble(&self, work: &'static str, refuses_writes: bool) -> Option<Trouble> {
        let Failing { cause, since_ms, failures } = self.0.lock().clone()?;
        Some(Trouble { work, cause, since_ms, failures, refuses_writes })
    }
}

impl Shared {
    /// What fails just now.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let is_full = !self.has_room(self.memory_split().memtables_bytes);
        let commits = self.commits_failing.trouble("the commit of memtables", is_full);
        let collector = self.collector_failing.trouble("the collection of segments", false);
        let index = self.index_failing.trouble("holding the index to its share of memory", false);
        let unread = self.index_unread.trouble("reading the index that was stored", false);
        let rewriting = self.rewriting_failing.trouble("writing intervals as one for scans", false);
        let tidying = "writing intervals as one while the store is idle";
        let tidying = self.tidying_failing.trouble(tidying, false);
        [commits, collector, index, unread, rewriting, tidying].into_iter().flatten().collect()
    }

    /// Notes how work has ended that nobody waits for. Of a store that takes no writes any more its health tells.
    pub(crate) fn note_ended(&self, work: &Work, ended: Result<()>) {
        match ended {
            Ok(()) => work.succeed(),
            Err(_) if self.health.check_writable().is_err() => {}
            Err(error) => work.fail(error, self.host.environment.wall_ms()),
        }
    }

    /// Notes what a collection could not read, or that there is nothing such any more.
    pub(crate) fn note_collected(&self, done: &Collected) {
        if let Some(damage) = &done.damage {
            let now_ms = self.host.environment.wall_ms();
            self.collector_failing.fail(from_space(damage.clone()), now_ms);
        } else if self.collector_failing.is_failing() && self.space.unreadable_segments() == 0 {
            self.collector_failing.succeed();
        }
    }
}
