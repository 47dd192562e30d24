//! A memtable: versions of keys in memory, in order, written by many threads concurrently.
//!
//! The crate `memtable` has its floor, its gate and its memory. A sealed memtable may be committed.
//!
//! Versions are in a skip list with memory of its own ([`arena::skip_list`]), which returns to the
//! system as a whole once no thread reads the memtable any more. A write makes no allocation, and
//! none of its memory is between other allocations.
//!
//! # Invariants
//! - M1 and M3 are those of the crate `memtable`.
//! - M2. Of two writes of one key, the later one is in the same memtable or a younger one. The
//!   older one has returned before the other one begins (law L6), and a writer that finds a
//!   memtable sealed looks for the next one. A write that comes a second time in a replay is left
//!   out.
//! - M4. All steps of a write are in one memtable, so a commit has all of them or none, except
//!   steps that later writes have replaced (M5, M6).
//! - M5. A newer version of a key replaces an older one in the same memtable, in its place, if no
//!   snapshot, present or future, sees the older one. A reader that looks for the newest finds the
//!   newer one. So a key that is written repeatedly takes the memory of one that is written once.
//!   If the newer version has no room in that place, it is put before the old one, which is left
//!   until the memtable is freed, and which no reader uses. The newer version gets one and a half
//!   times the words of the old one, so that this does not happen often.
//! - M6. A version that is marked as replaced has a newer one in a younger memtable, and no
//!   snapshot, present or future, sees it. A commit leaves it out. A reader finds the newer one
//!   first, and after a crash the journal has the newer one, once it has reached
//!   [`Memtable::replaced_by`]. The version stays in memory, for readers whose state does not name
//!   the younger memtable.
//! - M7. A key that is in it, or was, passes its filter (`memtable/filter.rs`): a key that does not
//!   pass needs no search.

mod batch;
mod entered;
mod filter;
mod replaced;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod walk;

use std::ops::Deref;
use std::sync::Arc;

use arena::skip_list::SkipList;
use codec::SeqNo;
use memtable::{MemtableSet, Versions};
use sync::atomic::AtomicU64;
use sync::mutant;

use crate::planted::Planted;
pub(crate) use batch::{Batch, BatchWalker};
use filter::Filter;
pub(crate) use walk::{Ahead, Update, Walker};

/// Whether a snapshot, present or future, may see a version of a number that a newer one replaces.
pub(crate) type IsSeen<'a> = &'a dyn Fn(SeqNo, SeqNo) -> bool;

/// The result of a search for one key; a value was copied to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The write's number; zero if the version is in the space, where none has a number.
    pub(crate) seqno: SeqNo,
    /// Whether it is a value, rather than a tombstone.
    pub(crate) is_value: bool,
}

impl Found {
    /// A value that is in the space.
    pub(crate) const IN_SPACE: Self = Self { seqno: SeqNo::ZERO, is_value: true };

    /// A value that is in the space, copied.
    pub(crate) fn in_space(value: &[u8], into: &mut Vec<u8>) -> Self {
        into.clear();
        into.extend_from_slice(value);
        Self::IN_SPACE
    }
}

/// A memtable of versions that newer ones may replace.
#[derive(Debug)]
pub(crate) struct Memtable {
    versions: Versions,
    filter: Filter,
    /// M6.
    replaced_by: AtomicU64,
}

impl Memtable {
    /// An empty memtable. Everything up to `floor` is in the space, or was finished before.
    pub(crate) fn new(floor: SeqNo, memtables: &Arc<MemtableSet>) -> Arc<Self> {
        let account = memtables.memory().account();
        Arc::new(Self {
            versions: Versions::new(memtables.new_head(floor), SkipList::new()),
            filter: Filter::new(account.budget_bytes(), account),
            replaced_by: AtomicU64::new(0),
        })
    }

    /// The one that takes this one's place. Everything up to `visible` is finished.
    pub(crate) fn successor(&self, visible: SeqNo) -> Arc<Self> {
        let applied = self.memtable_set().applied();
        let finished = mutant!(Planted::FloorPassesOpen, visible.min(applied), applied);
        Self::new(finished.max(self.floor()), self.memtable_set())
    }

    /// Calls `tell` with the key of each tombstone among every `stride`th of its versions.
    pub(crate) fn sample_tombstones(&self, stride: usize, tell: &mut dyn FnMut(&[u8])) {
        let mut key = Vec::new();
        let sampled = self.entries().iter().step_by(stride.max(1));
        sampled.filter(|entry| entry.value_len().is_none()).for_each(|entry| {
            entry.read_key(&mut key);
            tell(&key);
        });
    }

    /// The newest version of `key` at or below `seqno`, its value copied.
    pub(crate) fn get(&self, key: &[u8], seqno: SeqNo, into: &mut Vec<u8>) -> Option<Found> {
        if !self.filter.may_have(key) {
            return None;
        }
        let found = self.entries().seek(key, seqno.get()).filter(|found| found.has_key(key))?;
        into.clear();
        let (number, is_value) = found.append_version(into);
        Some(Found { seqno: SeqNo::new(number), is_value })
    }
}

impl Deref for Memtable {
    type Target = Versions;

    fn deref(&self) -> &Versions {
        &self.versions
    }
}
