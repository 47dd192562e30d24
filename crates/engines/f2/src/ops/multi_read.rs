//! The lookup of many keys, some of them at a time under one protection.
//!
//! 1. Some keys are searched in memory, protected, and their values are copied.
//! 2. Unprotected, the callback gets these values, and the lookups of the other keys.

use std::sync::Arc;

use engine::{At, EachLookup, LookedUp, Result};

use crate::address::LogAddress;
use crate::key_hash::KeyHash;
use crate::ops::disk_lookup::{Beyond, DiskLookup, InMemory, Progress};
use crate::store::Shared;

/// Keys that are searched in memory under one protection; fewer if their values are long.
const KEYS_PER_TURN: usize = 64;
/// Keys of a protection whose misses of the processor's caches overlap.
const KEYS_PREFETCHED: usize = 16;
/// Bytes of values that are copied under one protection, or one value that is longer.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// The results of a search of some keys in memory.
#[derive(Default)]
struct Searched {
    values: Vec<u8>,
    /// The index of each key that memory knows, and the end of its value among the values if it
    /// has one.
    known: Vec<(usize, Option<usize>)>,
    beyond: Vec<(usize, KeyHash, Beyond)>,
}

impl Shared {
    /// Looks `keys` up, and calls `each` once for each. Never waits for the device.
    pub(crate) fn lookup_many(
        self: &Arc<Self>,
        keys: &[&[u8]],
        at: At<'_>,
        each: &mut EachLookup<'_>,
    ) -> Result<()> {
        self.health.check_open()?;
        let mut scratch = Vec::new();
        if !matches!(at, At::Newest) {
            for (index, key) in keys.iter().enumerate() {
                each(index, self.lookup(key, at, &mut scratch)?.with_value(&scratch))?;
            }
            return Ok(());
        }
        let mut searched = Searched::default();
        let mut first = 0;
        while first < keys.len() {
            first = self.search_some(keys, first, &mut scratch, &mut searched);
            // The callback runs unprotected, and may do anything.
            searched.report(each)?;
            for (index, hash, beyond) in searched.beyond.drain(..) {
                let key = keys[index];
                let mut lookup = DiskLookup::new(hash, beyond, true);
                let looked_up = match lookup.start(self, key, &mut scratch)? {
                    Progress::Value => LookedUp::Found(&scratch),
                    Progress::Absent => LookedUp::Absent,
                    Progress::Read => LookedUp::Pending(self.pending(lookup, None, key)),
                };
                each(index, looked_up)?;
            }
        }
        Ok(())
    }

    /// Searches some keys in memory, from index `first` on. Returns the index of the next key.
    fn search_some(
        &self,
        keys: &[&[u8]],
        first: usize,
        scratch: &mut Vec<u8>,
        searched: &mut Searched,
    ) -> usize {
        let _guard = self.epochs.protect();
        let end = keys.len().min(first + KEYS_PER_TURN);
        for begin in (first..end).step_by(KEYS_PREFETCHED) {
            let some = &keys[begin..end.min(begin + KEYS_PREFETCHED)];
            let mut hashes = [KeyHash::default(); KEYS_PREFETCHED];
            let hashes = &mut hashes[..some.len()];
            hashes.iter_mut().zip(some).for_each(|(hash, key)| *hash = self.hash(key));
            if some.len() > 1 {
                self.prefetch(hashes);
            }
            for (index, (key, hash)) in (begin..).zip(some.iter().zip(&*hashes)) {
                if searched.values.len() >= VALUE_BYTES_MAX {
                    return index;
                }
                match self.look_in_memory(*hash, key, LogAddress::NONE, scratch) {
                    InMemory::Value => {
                        searched.values.extend_from_slice(scratch);
                        searched.known.push((index, Some(searched.values.len())));
                    }
                    InMemory::Tombstone => searched.known.push((index, None)),
                    InMemory::Beyond(beyond) => searched.beyond.push((index, *hash, beyond)),
                }
            }
        }
        end
    }
}

impl Searched {
    /// Calls `each` for the keys that memory knows.
    fn report(&mut self, each: &mut EachLookup<'_>) -> Result<()> {
        let mut begin = 0;
        for (index, end) in self.known.drain(..) {
            let value = end.and_then(|end| self.values.get(begin..end));
            begin = end.unwrap_or(begin);
            each(index, value.map_or(LookedUp::Absent, LookedUp::Found))?;
        }
        self.values.clear();
        self.values.shrink_to(VALUE_BYTES_MAX);
        Ok(())
    }
}
