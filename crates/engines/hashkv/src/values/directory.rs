//! The directory of a group: where the records are that jobs have moved.
//!
//! A handle in the index names the segment to which a write appended the record. Once a job has
//! moved it, the directory has its place. A table with open addressing has a word of 8 bytes for
//! each record of a base segment:
//!
//! ```text
//!  63        38 37       26 25            0
//!  | fingerprint | segment | offset       |
//! ```
//!
//! The fingerprint is of the key's hash and is not zero. So an entry may be of another key, and the
//! record that it leads to is compared with the handle.

use crate::key_hash::KeyHash;

const OFFSET_BITS: u32 = 26;
const SLOT_BITS: u32 = 12;
const FINGERPRINT_BITS: u32 = u64::BITS - SLOT_BITS - OFFSET_BITS;
/// Base segments that a directory may name.
pub(crate) const SEGMENTS_MAX: usize = 1 << SLOT_BITS;
/// Entries of a table without any.
const ENTRIES_MIN: usize = 16;

/// The places of the records of one group's base segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// The numbers of segments, by the number that entries have.
    slots: Vec<Option<u64>>,
    /// A power of two of them; zero is no entry.
    words: Vec<u64>,
    entries: usize,
}

impl Directory {
    /// Returns a directory without entries, with room for some.
    pub(crate) fn with_room(entries: usize) -> Self {
        let words = entries.saturating_mul(8).div_ceil(7).max(ENTRIES_MIN).next_power_of_two();
        Self { slots: Vec::new(), words: vec![0; words], entries: 0 }
    }

    /// Returns its bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.words.len() * size_of::<u64>() + self.slots.len() * size_of::<Option<u64>>()) as u64
    }

    /// Adds the records of a segment, by their hashes and offsets. Returns whether there was room
    /// for another segment.
    #[must_use]
    pub(crate) fn add(
        &mut self,
        segment: u64,
        records: impl IntoIterator<Item = (KeyHash, u32)>,
    ) -> bool {
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if free >= SEGMENTS_MAX {
            return false;
        }
        match self.slots.get_mut(free) {
            Some(slot) => *slot = Some(segment),
            None => self.slots.push(Some(segment)),
        }
        for (hash, offset) in records {
            if (self.entries + 1) * 8 > self.words.len() * 7 {
                self.rebuild(self.words.len() * 2);
            }
            let word = fingerprint(hash) << (SLOT_BITS + OFFSET_BITS);
            self.put(word | (free as u64) << OFFSET_BITS | u64::from(offset));
        }
        true
    }

    /// Removes the records of segments.
    pub(crate) fn remove(&mut self, segments: &[u64]) {
        for slot in &mut self.slots {
            if slot.is_some_and(|segment| segments.contains(&segment)) {
                *slot = None;
            }
        }
        let live = self.words.iter().filter(|word| self.is_live(**word)).count();
        self.rebuild(Self::with_room(live).words.len());
    }

    /// Returns the places that a record with this hash may have: segments and offsets.
    pub(crate) fn find(&self, hash: KeyHash) -> Vec<(u64, u32)> {
        let wanted = fingerprint(hash);
        let mut found = Vec::new();
        let mut at = self.first(wanted);
        while let Some(word) = self.words.get(at).copied().filter(|word| *word != 0) {
            if word >> (SLOT_BITS + OFFSET_BITS) == wanted
                && let Some(Some(segment)) = self.slots.get(slot_of(word))
            {
                found.push((*segment, (word & ((1 << OFFSET_BITS) - 1)) as u32));
            }
            at = (at + 1) & (self.words.len() - 1);
        }
        found
    }

    /// Returns whether a word is an entry of a segment that is there.
    fn is_live(&self, word: u64) -> bool {
        word != 0 && self.slots.get(slot_of(word)).is_some_and(Option::is_some)
    }

    fn rebuild(&mut self, words: usize) {
        let before = std::mem::replace(&mut self.words, vec![0; words]);
        self.entries = 0;
        for word in before {
            if self.is_live(word) {
                self.put(word);
            }
        }
    }

    /// Returns where the search for a fingerprint begins.
    fn first(&self, fingerprint: u64) -> usize {
        fingerprint as usize & (self.words.len() - 1)
    }

    fn put(&mut self, word: u64) {
        let mut at = self.first(word >> (SLOT_BITS + OFFSET_BITS));
        while self.words.get(at).is_some_and(|there| *there != 0) {
            at = (at + 1) & (self.words.len() - 1);
        }
        if let Some(there) = self.words.get_mut(at) {
            *there = word;
            self.entries += 1;
        }
    }
}

/// Returns bits of a hash that its group does not imply.
fn fingerprint(hash: KeyHash) -> u64 {
    (hash.low() & ((1 << FINGERPRINT_BITS) - 1)).max(1)
}

fn slot_of(word: u64) -> usize {
    (word >> OFFSET_BITS) as usize & (SEGMENTS_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_hash::Secret;

    fn hash(number: u64) -> KeyHash {
        Secret([3, 4]).hash(&number.to_le_bytes())
    }

    #[test]
    fn records_are_found_until_their_segment_goes() {
        let mut directory = Directory::with_room(0);
        for segment in 0..20_u64 {
            let records = (0..100).map(|at| (hash(segment * 100 + at), at as u32 * 500));
            assert!(directory.add(segment + 1000, records));
        }
        let has = |directory: &Directory, number: u64| {
            let place = (number / 100 + 1000, (number % 100) as u32 * 500);
            directory.find(hash(number)).contains(&place)
        };
        assert!((0..2000).all(|number| has(&directory, number)));
        let bytes = directory.bytes();
        directory.remove(&[1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014]);
        for number in 0..2000 {
            assert_eq!(has(&directory, number), !(300..1500).contains(&number), "{number}");
        }
        assert!(directory.bytes() < bytes);
        // A later segment gets the slot of a removed one.
        assert!(directory.add(2000, [(hash(7), (1 << OFFSET_BITS) - 1)]));
        assert!(directory.find(hash(7)).contains(&(2000, (1 << OFFSET_BITS) - 1)));
        assert!(has(&directory, 7));
    }

    #[test]
    fn a_directory_names_a_limited_number_of_segments() {
        let mut directory = Directory::with_room(0);
        assert!((0..SEGMENTS_MAX as u64).all(|segment| directory.add(segment, [])));
        assert!(!directory.add(9_999, [(hash(1), 0)]));
        assert_eq!(directory.find(hash(1)), []);
    }

    #[test]
    fn few_entries_are_of_other_keys() {
        let mut directory = Directory::with_room(100_000);
        assert!(directory.add(1, (0..100_000).map(|number| (hash(number), 0))));
        let others: usize =
            (100_000..200_000).map(|number| directory.find(hash(number)).len()).sum();
        // 100,000 of 2^26 for each.
        assert!(others < 400, "{others}");
    }
}
