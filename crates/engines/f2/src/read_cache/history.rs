//! The keys that were recently read from a device, or evicted: a full cache admits these.
//!
//! Most keys of a skewed load are read once in a long while, and a copy of such a key would take
//! the place of one that is read again. So the first read of a key is only remembered here, and the
//! second one admits it. A fingerprint of the key takes the place of another in a small set of a
//! table of fixed length.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use crate::key_hash::KeyHash;

/// Fingerprints of a set.
const WAYS: usize = 8;
/// Lowest bit of a fingerprint in a hash, above the bits that choose the set.
const FINGERPRINT_SHIFT: u32 = u64::BITS - u16::BITS;
/// Of no key.
const NONE: u16 = 0;

/// The table. The checkers do not see it: it orders nothing, and a lost note does no harm.
pub(super) struct History {
    /// A power of two of them, or none.
    sets: Box<[[AtomicU16; WAYS]]>,
    /// Number of notes so far, which determines the place that the next one takes.
    noted: AtomicUsize,
}

impl History {
    /// Makes a table of at most `bytes` bytes. If that is too little for a set, it knows every key.
    pub(super) fn new(bytes: u64) -> Self {
        let sets = bytes as usize / size_of::<[AtomicU16; WAYS]>();
        let sets = if sets == 0 { 0 } else { 1 << sets.ilog2() };
        let empty = || std::array::from_fn(|_| AtomicU16::new(NONE));
        Self { sets: (0..sets).map(|_| empty()).collect(), noted: AtomicUsize::new(0) }
    }

    /// The set of a hash, and its fingerprint.
    fn place(&self, hash: KeyHash) -> Option<(&[AtomicU16; WAYS], u16)> {
        let mixed = hash.mixed();
        let set = self.sets.get(mixed as usize & self.sets.len().wrapping_sub(1))?;
        Some((set, (mixed >> FINGERPRINT_SHIFT) as u16 | 1))
    }

    /// Remembers a key.
    pub(super) fn note(&self, hash: KeyHash) {
        let Some((set, fingerprint)) = self.place(hash) else { return };
        let way = self.noted.fetch_add(1, Relaxed) % WAYS;
        set[way].store(fingerprint, Relaxed);
    }

    /// Whether the key is remembered, which it then no longer is; otherwise it is from now on.
    pub(super) fn knows(&self, hash: KeyHash) -> bool {
        let Some((set, fingerprint)) = self.place(hash) else { return true };
        let known = set.iter().find(|way| way.load(Relaxed) == fingerprint);
        match known {
            Some(way) => way.store(NONE, Relaxed),
            None => self.note(hash),
        }
        known.is_some()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.sets) as u64
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn hash(key: u64) -> KeyHash {
        KeyHash::of(&key.to_le_bytes(), 5)
    }

    #[test]
    fn the_second_read_of_a_key_is_known_if_it_comes_soon() {
        let history = History::new(16 << 10);
        assert!(!history.knows(hash(1)));
        assert!(history.knows(hash(1)));
        assert!(!history.knows(hash(1)), "it was admitted, and is forgotten");
        history.note(hash(2));
        assert!(history.knows(hash(2)));
        // 8,192 fingerprints: of a thousand most are there, of a hundred thousand few.
        let known = |keys: std::ops::Range<u64>| {
            keys.clone().for_each(|key| history.note(hash(key)));
            keys.filter(|key| history.knows(hash(*key))).count()
        };
        let few = known(1_000..2_000);
        assert!(few > 900, "{few}");
        let many = known(100_000..200_000);
        assert!(many < 12_000, "{many}");
    }

    #[test]
    fn without_a_table_every_key_is_known() {
        let history = History::new(15);
        assert_eq!(history.bytes(), 0);
        history.note(hash(1));
        assert!(history.knows(hash(1)) && history.knows(hash(2)));
    }
}
