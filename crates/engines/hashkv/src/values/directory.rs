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

/// The segment of a number in entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Live {
        segment: u64,
        entries: u32,
    },
    /// It was removed, and its entries are still there.
    Gone,
}

/// The places of the records of one group's base segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// By the number that entries have.
    slots: Vec<Slot>,
    /// A power of two of them; zero is no entry.
    words: Vec<u64>,
    /// Words that are not zero, and those of them whose segments were removed. A table with more
    /// than half of the latter is made again: the group is locked meanwhile.
    entries: usize,
    gone: usize,
}

impl Directory {
    /// Returns a directory without entries, with room for some.
    pub(crate) fn with_room(entries: usize) -> Self {
        Self { words: vec![0; words_for(entries)], ..Self::default() }
    }

    /// Returns the bytes of a directory with this number of entries, without those for segments.
    pub(crate) fn bytes_for(entries: usize) -> u64 {
        (words_for(entries) * size_of::<u64>()) as u64
    }

    /// Returns its bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.words.len() * size_of::<u64>() + self.slots.len() * size_of::<Slot>()) as u64
    }

    /// Adds the records of a segment, by their hashes and offsets. Returns whether there was room
    /// for another segment.
    #[must_use]
    pub(crate) fn add(
        &mut self,
        segment: u64,
        records: impl IntoIterator<Item = (KeyHash, u32)>,
    ) -> bool {
        if self.free_slot() >= SEGMENTS_MAX {
            self.rebuild(self.words.len());
        }
        let free = self.free_slot();
        if free >= SEGMENTS_MAX {
            return false;
        }
        self.set_slot(free, Slot::Live { segment, entries: 0 });
        let mut entries = 0;
        for (hash, offset) in records {
            if (self.entries + 1) * 8 > self.words.len() * 7 {
                self.rebuild(words_for(2 * (self.entries - self.gone + 1)));
            }
            let word = fingerprint(hash) << (SLOT_BITS + OFFSET_BITS);
            self.put(word | (free as u64) << OFFSET_BITS | u64::from(offset));
            entries += 1;
        }
        self.set_slot(free, Slot::Live { segment, entries });
        true
    }

    fn free_slot(&self) -> usize {
        let free = self.slots.iter().position(|slot| *slot == Slot::Free);
        free.unwrap_or(self.slots.len())
    }

    fn set_slot(&mut self, at: usize, slot: Slot) {
        match self.slots.get_mut(at) {
            Some(there) => *there = slot,
            None => self.slots.push(slot),
        }
    }

    /// Removes the records of segments.
    pub(crate) fn remove(&mut self, segments: &[u64]) {
        for slot in &mut self.slots {
            if let Slot::Live { segment, entries } = *slot
                && segments.contains(&segment)
            {
                *slot = Slot::Gone;
                self.gone += entries as usize;
            }
        }
        if self.gone * 2 > self.entries {
            self.rebuild(words_for(self.entries - self.gone));
        }
    }

    /// Returns the places that a record with this hash may have: segments and offsets.
    pub(crate) fn find(&self, hash: KeyHash) -> Vec<(u64, u32)> {
        let wanted = fingerprint(hash);
        let mut found = Vec::new();
        let mut at = self.first(wanted);
        while let Some(word) = self.words.get(at).copied().filter(|word| *word != 0) {
            if word >> (SLOT_BITS + OFFSET_BITS) == wanted
                && let Some(Slot::Live { segment, .. }) = self.slots.get(slot_of(word))
            {
                found.push((*segment, (word & ((1 << OFFSET_BITS) - 1)) as u32));
            }
            at = (at + 1) & (self.words.len() - 1);
        }
        found
    }

    /// Returns whether a word is an entry of a segment that is there.
    fn is_live(&self, word: u64) -> bool {
        word != 0 && matches!(self.slots.get(slot_of(word)), Some(Slot::Live { .. }))
    }

    /// Makes a table of this number of words, without the entries of removed segments.
    fn rebuild(&mut self, words: usize) {
        let before = std::mem::replace(&mut self.words, vec![0; words]);
        (self.entries, self.gone) = (0, 0);
        for word in before {
            if self.is_live(word) {
                self.put(word);
            }
        }
        let gone = self.slots.iter_mut().filter(|slot| **slot == Slot::Gone);
        gone.for_each(|slot| *slot = Slot::Free);
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

/// Returns the number of words of a table with this number of entries.
fn words_for(entries: usize) -> usize {
    entries.saturating_mul(8).div_ceil(7).max(ENTRIES_MIN).next_power_of_two()
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

    /// A few removed segments leave their entries, which name no segment. No other segment gets
    /// their slots while the entries are there.
    #[test]
    fn a_few_removed_segments_do_not_make_the_table_again() {
        let mut directory = Directory::with_room(2000);
        let add = |directory: &mut Directory, segment: u64| {
            let records = (0..100).map(|at| (hash(segment * 100 + at), at as u32));
            assert!(directory.add(segment, records));
        };
        (0..10).for_each(|segment| add(&mut directory, segment));
        directory.remove(&[2, 3]);
        assert_eq!((directory.entries, directory.gone), (1000, 200));
        add(&mut directory, 20);
        for number in 0..1000 {
            let expected = if (200..400).contains(&number) { None } else { Some(number / 100) };
            let found = directory.find(hash(number));
            let own = found.iter().find(|(_, offset)| u64::from(*offset) == number % 100);
            assert_eq!(own.map(|(segment, _)| *segment), expected, "{number}");
        }
        directory.remove(&[0, 1, 4, 5]);
        assert_eq!((directory.entries, directory.gone), (500, 0));
        (30..40).for_each(|segment| add(&mut directory, segment));
        assert!(directory.slots.len() <= 15, "{:?}", directory.slots);
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
