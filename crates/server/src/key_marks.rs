//! Marks of keys that the store does not keep: when a command last used a key, and the encoding in
//! which Redis would keep its value.
//!
//! Redis keeps both with each key, in memory alone. Here they are in a table of fixed size, since
//! keys may be more than memory holds.
//!
//! # Invariants
//! M1. A key has one slot, by its hash, and was used no later than its slot says. So a key is never
//!     reported as idle for longer than it was. Keys that share a slot make each other seem used.
//! M2. A slot has a fingerprint of the key that used it last, and only that key's encoding. The
//!     encoding is forgotten when another key uses the slot, and when the server ends.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::store::DbIndex;

/// Slots of the table. If no more keys than this are in use, most of them do not share a slot.
const SLOTS: usize = 1 << 17;

/// The encoding in which Redis would keep a string, as the command that made it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The shortest for the value: a command wrote the whole of it.
    Shortest,
    /// A string also if it spells an integer: INCRBYFLOAT made it.
    Text,
    /// A string in memory of its own: SETRANGE or APPEND changed it.
    Raw,
}

/// The table. Each slot has, from the highest bit on: 32 bits of seconds since the start, 30 bits
/// of fingerprint, and 2 bits of encoding.
#[derive(Debug)]
pub(crate) struct KeyMarks {
    slots: Box<[AtomicU64]>,
    /// Wall seconds of the start, before which no use is known.
    started_s: u64,
}

/// The slot of a key, and its fingerprint at the bits where a slot has it.
#[derive(Clone, Copy)]
struct Place {
    slot: usize,
    fingerprint: u64,
}

const ENCODING: u64 = 0b11;
const FINGERPRINT: u64 = 0xFFFF_FFFC;

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
        let encoding = if is_same { old & ENCODING } else { 0 };
        self.store(place, old, self.second(now_ms) << 32 | place.fingerprint | encoding);
    }

    /// Notes that a key has a new value.
    #[inline]
    pub(crate) fn note_value(&self, db: DbIndex, key: &[u8], now_ms: u64, encoding: Encoding) {
        let place = Self::place(db, key);
        let encoding = match encoding {
            Encoding::Shortest => 0,
            Encoding::Text => 1,
            Encoding::Raw => 2,
        };
        let new = self.second(now_ms) << 32 | place.fingerprint | encoding;
        self.store(place, self.load(place), new);
    }

    /// Returns seconds for which a key was not used, or fewer.
    pub(crate) fn idle_s(&self, db: DbIndex, key: &[u8], now_ms: u64) -> u64 {
        let used = self.load(Self::place(db, key)) >> 32;
        self.second(now_ms).saturating_sub(used)
    }

    /// Returns the encoding of a key's value, [`Encoding::Shortest`] if it is not known.
    pub(crate) fn encoding(&self, db: DbIndex, key: &[u8]) -> Encoding {
        let place = Self::place(db, key);
        let slot = self.load(place);
        match slot & ENCODING {
            1 if slot & FINGERPRINT == place.fingerprint => Encoding::Text,
            2 if slot & FINGERPRINT == place.fingerprint => Encoding::Raw,
            _ => Encoding::Shortest,
        }
    }
}

#[cfg(test)]
mod tests;
