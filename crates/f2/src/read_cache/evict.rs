//! Eviction: entries that lead to the oldest page are led back to the log.

use std::sync::Arc;

use super::ring::Ring;
use crate::address::LogAddress;
use crate::hash_index::HashIndex;
use crate::key_hash::KeyHash;
use crate::planted::{Planted, is_planted};
use crate::record::Live;

impl Ring {
    /// Takes at most `count` records off the oldest page, if its memory is needed soon, and tells
    /// `evicted` the hash and the page of those that were still cached. Does nothing while another
    /// tends the ring. The caller is protected.
    pub(super) fn evict_some(
        &self,
        index: &HashIndex,
        hash_seed: u64,
        count: usize,
        evicted: &mut dyn FnMut(KeyHash, u64),
    ) {
        let Some(tending) = self.tend() else { return };
        for _ in 0..count {
            let Some((page, offset)) = tending.to_evict() else { break };
            if offset == tending.end(page) {
                tending.evicted_until(page + 1, 0);
                self.free_below(page + 1);
                continue;
            }
            let at = self.address(page, offset);
            let record = self.live(at);
            if !record.header().is_invalid() {
                let hash = hash_of(record, hash_seed);
                if unlink(index, hash, at, record.header().previous()) {
                    evicted(hash, page);
                }
            }
            tending.evicted_until(page, offset + record.bytes() as u64);
        }
    }

    /// Gives the memory of the pages below `page` away, once nobody reads them any more. [R4]
    fn free_below(&self, page: u64) {
        let borders = Arc::clone(&self.borders);
        let free = move || borders.free_below(page);
        if is_planted(Planted::FreedEarly) { free() } else { self.epochs.bump_with(free) }
    }
}

/// Leads the entry back to the log if it still leads to `at`; says whether it did. The page is
/// sealed, so nobody links `at` afterwards [R3].
fn unlink(index: &HashIndex, hash: KeyHash, at: LogAddress, log_head: LogAddress) -> bool {
    loop {
        let Some(slot) = index.find(hash) else { return false };
        if slot.address() != at && !is_planted(Planted::EvictedBlindly) {
            return false;
        }
        let led_back = match log_head {
            LogAddress::NONE => index.release(hash, slot),
            _ => slot.compare_exchange(log_head),
        };
        // Otherwise a write was first, or a split has the entry in hand.
        if led_back.is_ok() {
            return true;
        }
    }
}

fn hash_of(record: Live<'_>, hash_seed: u64) -> KeyHash {
    let mut key = Vec::new();
    record.read_key(&mut key);
    KeyHash::of(&key, hash_seed)
}
