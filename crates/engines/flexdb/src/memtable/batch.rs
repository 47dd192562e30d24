//! Memtables that are committed as one, and a walk over the updates that a commit puts of them.

use std::ops::Bound;
use std::sync::Arc;

use codec::SeqNo;

use super::{Ahead, Memtable, Update, Walker};

/// Memtables that follow each other in age, the youngest first; at least one.
#[derive(Clone, Debug)]
pub(crate) struct Batch(Arc<[Arc<Memtable>]>);

impl Batch {
    /// These, the youngest first.
    pub(crate) fn of(memtables: Vec<Arc<Memtable>>) -> Self {
        debug_assert!(!memtables.is_empty(), "at least one");
        debug_assert!(memtables.is_sorted_by(|left, right| left.id() > right.id()), "by their age");
        Self(memtables.into())
    }

    /// The youngest first.
    pub(crate) fn memtables(&self) -> &[Arc<Memtable>] {
        &self.0
    }

    /// The numbers of the oldest one and the youngest.
    pub(crate) fn ids(&self) -> (u64, u64) {
        let id = |memtable: Option<&Arc<Memtable>>| memtable.map_or(0, |memtable| memtable.id());
        (id(self.0.last()), id(self.0.first()))
    }

    /// Whether a memtable is one of them.
    pub(crate) fn has(&self, id: u64) -> bool {
        let (oldest, youngest) = self.ids();
        (oldest..=youngest).contains(&id)
    }

    /// The largest number in them.
    pub(crate) fn newest(&self) -> SeqNo {
        self.0.iter().map(|memtable| memtable.newest()).max().unwrap_or(SeqNo::ZERO)
    }

    /// The number that the journal has to reach before versions marked in them are left out; zero
    /// if none were.
    pub(crate) fn replaced_by(&self) -> SeqNo {
        self.0.iter().map(|memtable| memtable.replaced_by()).max().unwrap_or(SeqNo::ZERO)
    }

    /// Bytes of memory, as the budget counts them.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|memtable| memtable.bytes()).sum()
    }

    /// Returns a walk over the updates that a commit puts, of the writes above one number, up to
    /// another: the newest version of each key. It has no position yet.
    pub(crate) fn walker(&self, above: SeqNo, upto: SeqNo) -> BatchWalker<'_> {
        let walkers = self.0.iter().map(|memtable| Walker::of_commit(memtable, above, upto));
        BatchWalker { walkers: walkers.collect(), at: None }
    }
}

/// A walk over a batch, forward alone.
///
/// Of versions of one key in several memtables the youngest one's is the newest (memtable, M2).
pub(crate) struct BatchWalker<'a> {
    /// The youngest memtable's first.
    walkers: Vec<Walker<'a>>,
    /// The walker at the least key; the first one if several are there.
    at: Option<usize>,
}

impl BatchWalker<'_> {
    /// Returns the key and the length of the update at its position.
    pub(crate) fn here(&self) -> Option<Ahead<'_>> {
        self.walkers.get(self.at?)?.ahead()
    }

    /// Takes the update at its position, and moves to the next key.
    pub(crate) fn take(&mut self) -> Option<Update> {
        let at = self.at?;
        let update = self.walkers.get_mut(at)?.take()?;
        // The walkers before it are at larger keys.
        for walker in self.walkers.iter_mut().skip(at + 1) {
            if walker.here().is_some_and(|older| older.key() == update.key()) {
                walker.take_one();
            }
        }
        self.find_first();
        Some(update)
    }

    /// Moves to the next key, and copies nothing for the caller; `false` if it has no position.
    pub(crate) fn pass(&mut self) -> bool {
        let Some(at) = self.at else { return false };
        let (before, behind) = self.walkers.split_at_mut(at + 1);
        let Some(youngest) = before.last_mut() else { return false };
        for older in behind {
            if older.here().map(Update::key) == youngest.here().map(Update::key) {
                older.take_one();
            }
        }
        youngest.take_one();
        self.find_first();
        true
    }

    /// Goes to the first key at or behind `key`, or behind it.
    pub(crate) fn seek(&mut self, key: Bound<&[u8]>) {
        self.walkers.iter_mut().for_each(|walker| walker.seek(key));
        self.find_first();
    }

    fn find_first(&mut self) {
        let here = self.walkers.iter().enumerate();
        let here = here.filter_map(|(at, walker)| Some((walker.here()?.key(), at)));
        self.at = here.min().map(|(_, at)| at);
    }
}
