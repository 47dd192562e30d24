//! Marks of keys that the store does not keep: when a command last used a key, and whether a command changed
//! its value in place.
//!
//! Redis keeps both with each key, in memory alone. Here they are in a table of fixed size, since keys may be
//! more than memory holds.
//!
//! # Invariants
//! M1. A key has one slot, by its hash, and was used no later than its slot says. So a key is never reported
//!     as idle for longer than it was. Keys that share a slot make each other seem used.
//! M2. A slot has a fingerprint of the key that used it last, and only that key's change in place. The mark is
//!     forgotten when another key uses the slot, and when the server ends.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::store::DbIndex;

/// Slots of the table. If no more keys than this are in use, most of them do not share a slot.
const SLOTS: usize = 1 << 17;

/// The table. Each slot has, from the highest bit on: 32 bits of seconds since the start, 31 bits of
/// fingerprint, and one bit for a change in place.
#[derive(Debug)]
pub(crate) struct KeyMarks {
    slots: Box<[AtomicU64]>,
    /// Wall seconds of the start, before which no use is known.
    started_s: u64,
}

/// The slot of a key, and its fingerprint in place.
#[derive(Clone, Copy)]
struct Place {
    slot: usize,
    fingerprint: u64,
}

const IN_PLACE: u64 = 1;
const FINGERPRINT: u64 = 0xFFFF_FFFE;

impl KeyMarks {
    /// A table that begins at the wall time `now_ms`.
    pub(crate) fn new(now_ms: u64) -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { slots, started_s: now_ms / 1000 }
    }

    fn place(db: DbIndex, key: &[u8]) -> Place {
        let hash = codec::hash64(u64::from(db), key);
        Place { slot: (hash >> 32) as usize % SLOTS, fingerprint: hash & FINGERPRINT }
    }

    fn second(&self, now_ms: u64) -> u64 {
        (now_ms / 1000).saturating_sub(self.started_s).min(u64::from(u32::MAX))
    }

    fn load(&self, place: Place) -> u64 {
        self.slots.get(place.slot).map_or(0, |slot| slot.load(Relaxed))
    }

    /// Stores a slot that changed; one that did not stays in the caches of other processors.
    fn store(&self, place: Place, old: u64, new: u64) {
        if old != new
            && let Some(slot) = self.slots.get(place.slot)
        {
            slot.store(new, Relaxed);
        }
    }

    /// Notes a use of a key that leaves its value as it is.
    #[inline]
    pub(crate) fn note_use(&self, db: DbIndex, key: &[u8], now_ms: u64) {
        let place = Self::place(db, key);
        let old = self.load(place);
        let is_same = old & FINGERPRINT == place.fingerprint;
        let in_place = if is_same { old & IN_PLACE } else { 0 };
        self.store(place, old, self.second(now_ms) << 32 | place.fingerprint | in_place);
    }

    /// Notes that a key has a new value, which a command may have made by a change in place.
    #[inline]
    pub(crate) fn note_value(&self, db: DbIndex, key: &[u8], now_ms: u64, in_place: bool) {
        let place = Self::place(db, key);
        let new = self.second(now_ms) << 32 | place.fingerprint | u64::from(in_place);
        self.store(place, self.load(place), new);
    }

    /// Returns seconds for which a key was not used, or fewer.
    pub(crate) fn idle_s(&self, db: DbIndex, key: &[u8], now_ms: u64) -> u64 {
        let used = self.load(Self::place(db, key)) >> 32;
        self.second(now_ms).saturating_sub(used)
    }

    /// Whether a command is known to have changed the value of a key in place.
    pub(crate) fn is_changed_in_place(&self, db: DbIndex, key: &[u8]) -> bool {
        let place = Self::place(db, key);
        let slot = self.load(place);
        slot & FINGERPRINT == place.fingerprint && slot & IN_PLACE != 0
    }
}

#[cfg(test)]
mod tests;
