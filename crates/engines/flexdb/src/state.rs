//! The state at one moment: memtables, and the space with its index.
//!
//! It never changes; each step makes the next one.
//!
//! # Invariants
//! - S1. Every write that was not replaced is in one of the memtables or in the base. A commit
//!   takes its memtables out and puts in the base that has them, in one step. So a reader that
//!   holds a state misses nothing.
//! - S2. A pin for which a commit has put too much into the base has another base here, while it is
//!   held. That base has nothing above the pin, and all writes at or below the pin are in
//!   it or in memtables.
//! - S3. In all states with the same count of commits, a key that a reader finds in none of the
//!   memtables has the same pair in the base, or none. Pins with a base of their own are an
//!   exception. A commit that is under way, a commit that was refused, or deletes that freed room
//!   may have changed keys there; a named memtable has these keys, in newer versions than any other
//!   pin sees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codec::SeqNo;
use engine::Host;
use flexspace::{Found, space};
use sync::mutant;

use crate::index::{self, IndexSnapshot, Interval};
use crate::memtable::{Batch, Memtable, Walker};
use crate::planted::Planted;

/// The time, and the number of checks, for which a thread waits at most for readers that still hold
/// a replaced state. A get ends sooner, unless it reads the device or is not running. The waiting
/// thread yields to others, which may take longer than that.
const READERS_WAIT: Duration = Duration::from_micros(50);
const READERS_LOOKS_MAX: u32 = 100;

/// A state of the space and the index to it.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) space: space::Snapshot,
    pub(crate) index: IndexSnapshot,
}

impl Base {
    /// The interval that a key belongs to.
    pub(crate) fn interval_of(&self, key: &[u8]) -> Option<Found<'_, Interval>> {
        index::find(&self.index, key)
    }
}

/// The earlier state that commits have left for a pin.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) base: Arc<Base>,
    /// Memtables that were committed since and hold writes that are not in the base, the youngest
    /// first.
    pub(crate) memtables: Vec<Arc<Memtable>>,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct State {
    /// The memtable that is written to.
    pub(crate) active: Arc<Memtable>,
    /// The memtables that wait, the youngest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    pub(crate) base: Arc<Base>,
    pub(crate) pinned: BTreeMap<SeqNo, Pinned>,
    /// Commits since the store was opened (S3).
    pub(crate) commits: u64,
}

/// The parts that a reader looks into, the youngest first.
pub(crate) struct Sources<'a> {
    memtables: [&'a [Arc<Memtable>]; 3],
    pub(crate) base: &'a Arc<Base>,
    /// The state's count of commits, if the base is the one of all readers (S3).
    pub(crate) commits: Option<u64>,
}

impl<'a> Sources<'a> {
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &'a Arc<Memtable>> + use<'a> {
        self.memtables.into_iter().flatten()
    }

    /// Returns a walk for each memtable, over the versions that a reader at `upto` sees.
    pub(crate) fn walkers(&self, upto: SeqNo) -> Vec<Walker<'a>> {
        self.memtables().map(|memtable| Walker::new(memtable, SeqNo::ZERO, upto)).collect()
    }
}

impl State {
    /// Returns the parts that a reader at `seqno` looks into.
    pub(crate) fn at(&self, seqno: SeqNo) -> Sources<'_> {
        let ours = [std::slice::from_ref(&self.active), &self.sealed[..]];
        match self.pinned.get(&seqno) {
            Some(Pinned { base, memtables }) => {
                let memtables = [ours[0], ours[1], &memtables[..]];
                Sources { memtables, base, commits: None }
            }
            None => {
                let (memtables, commits) = ([ours[0], ours[1], &[]], Some(self.commits));
                Sources { memtables, base: &self.base, commits }
            }
        }
    }

    /// All memtables that wait or are written to.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// Once `without` is in the space, everything up to this is.
    pub(crate) fn floor_without(&self, without: Option<&Batch>) -> SeqNo {
        let is_other = |memtable: &&Arc<Memtable>| without.is_none_or(|it| !it.has(memtable.id()));
        let others = self.memtables().filter(is_other);
        others.map(|memtable| memtable.floor()).min().unwrap_or(SeqNo::ZERO)
    }

    /// With another memtable to be written to.
    pub(crate) fn with_active(&self, active: Arc<Memtable>) -> Self {
        let mut sealed = vec![Arc::clone(&self.active)];
        sealed.extend(self.sealed.iter().cloned());
        let (base, pinned) = (Arc::clone(&self.base), self.pinned.clone());
        Self { active, sealed, base, pinned, commits: self.commits }
    }

    /// With another base, in which the memtables `committed` are.
    pub(crate) fn with_base(
        &self,
        base: Arc<Base>,
        committed: Option<&Batch>,
        pinned: BTreeMap<SeqNo, Pinned>,
    ) -> Self {
        let waits = |memtable: &&Arc<Memtable>| committed.is_none_or(|it| !it.has(memtable.id()));
        let sealed = self.sealed.iter().filter(waits).cloned().collect();
        let commits = self.commits + u64::from(committed.is_some());
        Self { active: Arc::clone(&self.active), sealed, base, pinned, commits }
    }
}

/// Releases a state whose base was replaced. This frees everything that only the old state has:
/// nodes that were copied, heads, blocks, which may take milliseconds. A get that began before may
/// still hold it, by this state or by an earlier one, and would free all of that if it were the
/// last to release it.
pub(crate) fn release_state(state: Arc<State>, host: &Host) {
    let begun = host.environment.now();
    for _ in 0..READERS_LOOKS_MAX {
        let is_ours = Arc::strong_count(&state) == 1 && Arc::strong_count(&state.base) == 1;
        let is_long = || host.environment.now() - begun > READERS_WAIT;
        if is_ours || is_long() || mutant!(Planted::LeftToReaders, false, true) {
            break;
        }
        sync::thread::yield_now();
    }
}

#[cfg(test)]
impl Drop for Base {
    fn drop(&mut self) {
        in_tests::note_freed();
    }
}

#[cfg(all(test, shuttle))]
pub(crate) use in_tests::freed_here;

/// On which threads bases go, for tests.
#[cfg(test)]
mod in_tests {
    use std::cell::Cell;

    use sync::thread::thread_local;

    thread_local! {
        static FREED: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn note_freed() {
        FREED.with(|freed| freed.set(freed.get() + 1));
    }

    /// Returns how many were freed on this thread.
    #[cfg(shuttle)]
    pub(crate) fn freed_here() -> u64 {
        FREED.with(Cell::get)
    }
}
