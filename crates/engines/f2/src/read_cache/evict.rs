//! Eviction: entries that lead to the oldest page are led back to the log. Records that were read
//! meanwhile are copied to the tail instead (*second chance*).

use std::sync::Arc;

use super::ring::{Ring, Tending};
use crate::address::LogAddress;
use crate::hash_index::{HashIndex, Slot};
use crate::key_hash::KeyHash;
use crate::planted::{Planted, mutant};
use crate::record::Read;

/// Share of the records examined in one call, as a divisor, that get a second chance at most. So
/// pages become free even if all their records were read.
const CHANCES_SHARE: usize = 2;

/// Outcome for a record that was cached when its page was to be evicted.
pub(super) enum Outcome {
    /// It is at the tail now.
    Kept,
    /// It was in this page, and is cached no longer.
    Evicted(u64),
}

impl Ring {
    /// Takes at most `count` records off the oldest page, if its memory is needed soon, and calls
    /// `ended` for each of these that was still cached. Does nothing while another thread tends the
    /// ring. The caller is protected.
    pub(super) fn evict_some(
        &self,
        index: &HashIndex,
        hash_seed: u64,
        count: usize,
        ended: &mut dyn FnMut(KeyHash, Outcome),
    ) {
        let Some(tending) = self.tend() else { return };
        let mut chances = count / CHANCES_SHARE;
        let (mut key, mut value) = (Vec::new(), Vec::new());
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
                record.read_key(&mut key);
                let hash = KeyHash::of(&key, hash_seed);
                let may_stay = record.header().is_hit() && chances > 0;
                if may_stay && self.keep(&tending, index, (hash, at), &key, &mut value) {
                    chances -= 1;
                    ended(hash, Outcome::Kept);
                } else if unlink(index, hash, at, record.header().previous()) {
                    ended(hash, Outcome::Evicted(page));
                }
            }
            tending.evicted_until(page, offset + record.bytes() as u64);
        }
    }

    /// Lets the entry lead to a copy of the record at the tail, if it still leads to the record and
    /// there is room. The copy counts as not read yet.
    fn keep(
        &self,
        tending: &Tending<'_>,
        index: &HashIndex,
        (hash, at): (KeyHash, LogAddress),
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> bool {
        let is_its = |slot: &Slot<'_>| mutant!(Planted::KeptBlindly, slot.address() == at, true);
        let slot = index.find(hash).filter(is_its);
        let (Some(slot), record) = (slot, self.live(at)) else { return false };
        let Some(to) = tending.allocate(record.bytes() as u64) else { return false };
        let has_value = record.read(value) == Read::Value;
        debug_assert!(has_value, "tombstones are not cached");
        self.link(slot, to, record.header().previous(), (key, value))
    }

    /// Frees the memory of the pages below `page`, once no thread reads them any more. [R4]
    fn free_below(&self, page: u64) {
        let borders = Arc::clone(&self.borders);
        let free = move || borders.free_below(page);
        mutant!(Planted::FreedEarly, self.epochs.bump_with(free), free());
    }
}

/// Leads the entry back to the log if it still leads to `at`; returns whether it did. The page is
/// sealed, so no thread links `at` afterwards [R3].
fn unlink(index: &HashIndex, hash: KeyHash, at: LogAddress, log_head: LogAddress) -> bool {
    loop {
        let Some(slot) = index.find(hash) else { return false };
        if mutant!(Planted::EvictedBlindly, slot.address() != at, false) {
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
