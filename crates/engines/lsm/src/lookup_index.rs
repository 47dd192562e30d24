//! The lookup index: it leads a get to the memtable of a key's newest version. The get searches
//! that memtable, or the table of Level 0 that it became, and no other (the paper's section 4.1.1).
//!
//! It is a hint. It has entries by the hash of a key: the number of a write, and the id of the
//! memtable that it went to. A get that finds the key there, with that very number, has found its
//! newest version. If it does not find that, or if there is no entry, the get searches everything,
//! and is still right. So entries may be dropped at any time, two keys may share a hash, and
//! memtables may disappear. Memory is bounded, and no change of the index has to be atomic with
//! another change.
//!
//! # Invariants
//! - U1. An entry's number is not below that of any write to a key of its hash that a reader may
//!   have found. A writer puts the entry in before the version can be read, and a smaller number
//!   never replaces a larger one. So a reader that has found a version by searching everything is
//!   not led to an older one later. An entry ahead of its write leads nowhere, which does no harm.
//!   A dropped entry does not return with an older number: only writers put entries in, and writes
//!   to a key are sequential (law L6). Ingested entries bypass the index, so a reader trusts no
//!   entry that is older than the last ingestion (`version`).
//! - U2. When memtables are merged, an entry is led to the new one only if it still has the number
//!   that was merged.
//!
//! # Concurrency
//! One lock for each bucket, held while its eight entries are searched.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use memory_budget::{Account, MemoryBudget};
use sync::locks::Mutex;
use sync::mutant;

use crate::planted::Planted;

/// Entries of a bucket.
const WAYS: usize = 8;

/// See the file's head.
pub(crate) struct LookupIndex {
    buckets: Box<[Mutex<[Entry; WAYS]>]>,
    _charge: Account,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    hash: u64,
    /// Zero if there is no entry.
    seqno: u64,
    memtable: u64,
}

/// The location of the newest version of a key, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) seqno: SeqNo,
    pub(crate) memtable: u64,
}

impl LookupIndex {
    /// Makes an index that stays empty.
    pub(crate) fn none(budget: &Arc<MemoryBudget>) -> Self {
        Self::of_bytes(0, budget)
    }

    /// Makes an index that takes about `bytes` bytes, and not more. If `bytes` is less than a
    /// bucket takes, the index has no buckets.
    pub(crate) fn of_bytes(bytes: u64, budget: &Arc<MemoryBudget>) -> Self {
        let count = bytes / size_of::<Mutex<[Entry; WAYS]>>() as u64;
        let count = if count == 0 { 0 } else { 1_usize << count.ilog2() };
        let buckets: Box<[_]> = (0..count).map(|_| Mutex::default()).collect();
        let charge = Account::new(budget);
        charge.set(size_of_val(&*buckets) as u64);
        Self { buckets, _charge: charge }
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.buckets) as u64
    }

    fn bucket(&self, hash: u64) -> Option<&Mutex<[Entry; WAYS]>> {
        let mask = self.buckets.len().checked_sub(1)?;
        self.buckets.get((hash >> 32) as usize & mask)
    }

    /// Returns the hint for keys of this hash, if there is an entry.
    pub(crate) fn get(&self, hash: u64) -> Option<Hint> {
        let bucket = self.bucket(hash)?.lock();
        let entry = bucket.iter().find(|entry| entry.seqno > 0 && entry.hash == hash)?;
        Some(Hint { seqno: SeqNo::new(entry.seqno), memtable: entry.memtable })
    }

    /// Enters a write that went to a memtable, and has not returned (U1).
    pub(crate) fn put(&self, hash: u64, seqno: SeqNo, memtable: u64) {
        let Some(bucket) = self.bucket(hash) else { return };
        let mut bucket = bucket.lock();
        let new = Entry { hash, seqno: seqno.get(), memtable };
        if let Some(entry) = bucket.iter_mut().find(|entry| entry.seqno > 0 && entry.hash == hash) {
            if mutant!(Planted::NumbersUncompared, entry.seqno <= new.seqno, true) {
                *entry = new;
            }
            return;
        }
        // The entry of the oldest write is replaced.
        if let Some(entry) = bucket.iter_mut().min_by_key(|entry| entry.seqno) {
            *entry = new;
        }
    }

    /// Leads the entry of a write to another memtable, which has it now (U2).
    pub(crate) fn lead(&self, hash: u64, seqno: SeqNo, memtable: u64) {
        let Some(bucket) = self.bucket(hash) else { return };
        let mut bucket = bucket.lock();
        let is_its = |number| mutant!(Planted::NumbersUncompared, number == seqno.get(), true);
        let is_it = |entry: &&mut Entry| entry.hash == hash && is_its(entry.seqno);
        if let Some(entry) = bucket.iter_mut().find(is_it) {
            (entry.seqno, entry.memtable) = (seqno.get(), memtable);
        }
    }
}
