//! Marks of keys that the store does not keep.
//!
//! These are when a command last used a key, and the encoding in which Redis would keep its value.
//! Redis keeps both with each key, in memory alone. Here they are in tables of fixed size, since
//! keys may be more than memory holds.
//!
//! # Invariants
//! M1. A key has one slot in each thread's table of uses, by its hash, and was used no later than
//!     the latest of them says. So a key is never reported as idle for longer than it was. Keys
//!     that share a slot make each other seem used.
//! M2. A slot of encodings has the fingerprint of one key and that key's encoding. It is forgotten
//!     when another key of the slot gets such an encoding, and when the server ends.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use thermocline::telemetry::Shards;

use crate::store::DbIndex;
use uses::Uses;

mod uses;

/// Slots of encodings. Only commands that make such an encoding fill one.
const ENCODING_SLOTS: usize = 1 << 14;

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

/// The tables.
#[derive(Debug)]
pub(crate) struct KeyMarks {
    uses: Shards<Uses>,
    /// 31 bits of a key's fingerprint, and one bit that is set for [`Encoding::Raw`]. 0 is free.
    encodings: Box<[AtomicU32]>,
    /// Whether a slot of encodings was ever filled.
    has_encodings: AtomicBool,
    /// Wall seconds of the start, before which no use is known.
    started_s: u64,
}

const RAW: u32 = 1;

fn hash(db: DbIndex, key: &[u8]) -> u64 {
    thermocline::hash64(u64::from(db), key)
}

/// Returns the fingerprint in a slot of encodings, which is not 0.
fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32 & !RAW | RAW << 1
}

impl KeyMarks {
    /// Tables that begin at the wall time `now_ms`.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            uses: Shards::new(Uses::default),
            encodings: (0..ENCODING_SLOTS).map(|_| AtomicU32::new(0)).collect(),
            has_encodings: AtomicBool::new(false),
            started_s: now_ms / 1000,
        }
    }

    fn second(&self, now_ms: u64) -> u32 {
        let second = (now_ms / 1000).saturating_sub(self.started_s);
        u32::try_from(second).unwrap_or(u32::MAX)
    }

    fn encoding_slot(&self, hash: u64) -> Option<&AtomicU32> {
        self.encodings.get(hash as usize % ENCODING_SLOTS)
    }

    /// Notes a use of a key that leaves its value unchanged.
    #[inline]
    pub(crate) fn note_use(&self, db: DbIndex, key: &[u8], now_ms: u64) {
        self.uses.mine().note(hash(db, key), self.second(now_ms));
    }

    /// Notes that a key has a new value.
    #[inline]
    pub(crate) fn note_value(&self, db: DbIndex, key: &[u8], now_ms: u64, encoding: Encoding) {
        let hash = hash(db, key);
        self.uses.mine().note(hash, self.second(now_ms));
        if encoding != Encoding::Shortest || self.has_encodings.load(Relaxed) {
            self.note_encoding(hash, encoding);
        }
    }

    fn note_encoding(&self, hash: u64, encoding: Encoding) {
        let Some(slot) = self.encoding_slot(hash) else { return };
        let fingerprint = fingerprint(hash);
        match encoding {
            Encoding::Shortest if slot.load(Relaxed) & !RAW == fingerprint => {
                slot.store(0, Relaxed);
            }
            Encoding::Shortest => {}
            Encoding::Text | Encoding::Raw => {
                let raw = if encoding == Encoding::Raw { RAW } else { 0 };
                slot.store(fingerprint | raw, Relaxed);
                self.has_encodings.store(true, Relaxed);
            }
        }
    }

    /// Returns seconds for which a key was not used, or fewer.
    pub(crate) fn idle_s(&self, db: DbIndex, key: &[u8], now_ms: u64) -> u32 {
        let hash = hash(db, key);
        let last = self.uses.iter().map(|uses| uses.last(hash)).max().unwrap_or_default();
        self.second(now_ms).saturating_sub(last)
    }

    /// Returns the encoding of a key's value, [`Encoding::Shortest`] if it is not known.
    pub(crate) fn encoding(&self, db: DbIndex, key: &[u8]) -> Encoding {
        let hash = hash(db, key);
        let mark = self.encoding_slot(hash).map_or(0, |slot| slot.load(Relaxed));
        match (mark & !RAW == fingerprint(hash), mark & RAW) {
            (true, RAW) => Encoding::Raw,
            (true, _) => Encoding::Text,
            (false, _) => Encoding::Shortest,
        }
    }
}

#[cfg(test)]
mod tests;
