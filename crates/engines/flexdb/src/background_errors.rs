//! The background work of the store that may fail ([`engine::Engine::background_errors`]).
//!
//! A commit is tried again, and its error ends with a commit that succeeds. The collector leaves a
//! segment alone while it has live data that cannot be read. The segment's room is not released
//! before, and a reader of the data gets the damage.

use engine::{BackgroundError, Result};
use flexspace::space::Collected;

use crate::error::from_space;
use crate::store::Shared;

/// A commit of memtables that was refused.
pub(crate) const COMMIT: &str = "the commit of memtables";
/// A segment that the collector cannot read.
pub(crate) const COLLECT: &str = "the collection of segments";
/// An index that is too large for the memory (`commit/coarsen_index.rs`).
pub(crate) const HOLD_INDEX: &str = "holding the index to its share of memory";
/// A stored index that could not be read. It is reported until the store is closed.
pub(crate) const READ_INDEX: &str = "reading the index that was stored";
/// Intervals that cannot be written as one for scans.
pub(crate) const REWRITE: &str = "writing intervals as one for scans";
/// Intervals that cannot be written as one while the store is idle.
pub(crate) const DEFRAGMENT: &str = "writing intervals as one while the store is idle";

impl Shared {
    /// Returns the background work that fails now.
    pub(crate) fn background_errors(&self) -> Vec<BackgroundError> {
        let is_full = !self.has_memory();
        self.background.errors.report(|work, _| work == COMMIT && is_full)
    }

    /// Returns whether memtables are within their share, or none of them waits for a commit.
    fn has_memory(&self) -> bool {
        let is_idle = || self.state.load().as_ref().is_none_or(|state| state.sealed.is_empty());
        self.writes.memory_bytes() <= self.memory_split().memtables_bytes || is_idle()
    }

    /// Notes the end of background work. If the store takes no writes any more, its health has the
    /// reason.
    pub(crate) fn note_ended(&self, work: &'static str, ended: Result<()>) {
        match ended {
            Ok(()) => self.background.errors.succeed(work),
            Err(_) if self.health.check_writable().is_err() => {}
            Err(error) => self.background.errors.fail(work, &error, &self.host.environment),
        }
    }

    /// Notes data that a collection could not read, or that no such data is left.
    pub(crate) fn note_collected(&self, done: &Collected) {
        let errors = &self.background.errors;
        if let Some(damage) = &done.damage {
            errors.fail(COLLECT, &from_space(damage.clone()), &self.host.environment);
        } else if errors.is_failing(COLLECT) && self.space.unreadable_segments() == 0 {
            errors.succeed(COLLECT);
        }
    }
}
