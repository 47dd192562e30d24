//! New entries, in 8 bytes each: the more are put together, the fewer chunks are written for each.
//!
//! ```text
//!  63                 32 31                                     0
//! +---------------------+----------------------------------------+
//! | prefix of position  | bytes / 16 from the base to the record |
//! +---------------------+----------------------------------------+
//! ```
//!
//! The order of these words is that of the chunks, and of the records of one tag in the order in
//! which they were appended.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use engine::Result;
use workers::StopToken;

use super::ColdIndex;
use super::apply::{Applied, Change};
use super::chunk::{ADDRESS_UNIT, Prefix};
use crate::address::LogAddress;
use crate::cold::Covered;
use crate::position::Position;

/// Entries to be put, of records that are within 64 GiB behind a base.
#[derive(Debug, Default)]
pub(crate) struct Puts {
    base: LogAddress,
    words: Vec<u64>,
}

/// The same in order, to be applied by many threads.
#[derive(Debug, Default)]
pub(crate) struct SortedPuts {
    puts: Puts,
    /// Number of words at the front that were taken.
    taken: AtomicUsize,
}

impl Puts {
    /// Bytes of memory of one entry.
    pub(crate) const BYTES: u64 = size_of::<u64>() as u64;

    /// Of records at or behind `base`. As long as there are no more than `count` they take no more
    /// memory than they need.
    pub(crate) fn new(base: LogAddress, count: usize) -> Self {
        Self { base, words: Vec::with_capacity(count) }
    }

    pub(crate) fn base(&self) -> LogAddress {
        self.base
    }

    /// Whether a record at `at` is near enough to the base.
    pub(crate) fn reaches(&self, at: LogAddress) -> bool {
        at >= self.base && (at.get() - self.base.get()) / ADDRESS_UNIT <= u64::from(u32::MAX)
    }

    /// Adds the record at `at`, which has to be near enough.
    pub(crate) fn push(&mut self, position: Position, at: LogAddress) {
        // Cut off it would name another record.
        assert!(self.reaches(at), "{at:?} is too far from {:?}", self.base);
        let units = (at.get() - self.base.get()) / ADDRESS_UNIT;
        self.words.push(u64::from(Prefix::of(position).0) << u32::BITS | units);
    }

    /// Adds the entries of `other`, of the same base.
    pub(crate) fn extend(&mut self, other: &mut Self) {
        assert_eq!(self.base, other.base, "distances from another place");
        self.words.append(&mut other.words);
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// In the order in which they are applied.
    pub(crate) fn sorted(mut self) -> SortedPuts {
        self.words.sort_unstable();
        SortedPuts { puts: self, taken: AtomicUsize::new(0) }
    }

    fn prefix(&self, index: usize) -> Option<Prefix> {
        self.words.get(index).map(|word| Prefix((word >> u32::BITS) as u32))
    }

    fn change(&self, word: u64) -> Change {
        let units = word & u64::from(u32::MAX);
        let position = Prefix((word >> u32::BITS) as u32).position();
        Change { position, old: LogAddress::NONE, new: self.base.plus(units * ADDRESS_UNIT) }
    }
}

impl ColdIndex {
    /// Makes the directory large enough for the entries that [`ColdIndex::put_some`] is to put.
    pub(crate) fn make_room_for(&self, puts: &SortedPuts) {
        self.grow_for(puts.puts.len() as u64);
    }

    /// Puts a slice that no thread has taken yet. Returns the positions that are crowded now, and
    /// the records that have newer ones in front of them; `None` if there is no slice, or if it was
    /// stopped. When all threads have got `None`, all are put. Each chunk is read once and written
    /// once, unless others change it meanwhile. Blocks; the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's; a chunk too long for a page. Some may have been put
    /// then.
    pub(crate) fn put_some(
        &self,
        puts: &SortedPuts,
        stop: &StopToken,
    ) -> Result<Option<(Vec<Position>, Covered)>> {
        let SortedPuts { puts, taken } = puts;
        let prefix_of = |index: usize| puts.prefix(index);
        let mut first = taken.load(Relaxed);
        let end = loop {
            if first >= puts.len() {
                return Ok(None);
            }
            let end = self.end_of_slice(first, puts.len(), &prefix_of);
            // The words were there before the threads were.
            match taken.compare_exchange(first, end, Relaxed, Relaxed) {
                Ok(_) => break end,
                Err(now) => first = now,
            }
        };
        let mut value = Vec::new();
        let mut applied = Applied::default();
        let is_whole = self.with_chunks(first..end, &prefix_of, stop, &mut |group, chunk| {
            let changes = puts.words[group.first..group.end].iter().map(|word| puts.change(*word));
            self.edit(group, chunk, changes, &mut value, &mut applied)
        })?;
        Ok(is_whole.then_some((applied.crowded, applied.covered)))
    }
}
