//! The directory of a group: where the records are that jobs have moved.
//!
//! A handle in the index names the segment to which a write appended the record. Once a job has
//! moved it, the directory has its place. A table with open addressing has a word of 8 bytes for
//! each record of a base segment:
//!
//! ```text
//!  63         38 37                      0
//!  | fingerprint | segment | offset       |
//! ```
//!
//! The offset has the bits that a segment needs: 20 if it has 1 MiB. Then the group may have 2^18
//! base segments, with 256 GiB.
//!
//! The fingerprint is of the key's hash and is not zero. So an entry may be of another key, and the
//! record that it leads to is compared with the handle.

use crate::key_hash::KeyHash;

/// Bits of the segment and of the offset together, and the most that the offset has.
const PLACE_BITS: u32 = 38;
const OFFSET_BITS_MAX: u32 = 32;
const FINGERPRINT_BITS: u32 = u64::BITS - PLACE_BITS;
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
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    offset_bits: u32,
    /// By the number that entries have.
    slots: Vec<Slot>,
    /// The numbers of free ones.
    free: Vec<u32>,
    /// A power of two of them; zero is no entry.
    words: Vec<u64>,
    /// Words that are not zero, and those of them whose segments were removed. A table with more
    /// than half of the latter is made again. A job makes a copy first, so that the group is not
    /// locked meanwhile ([`Directory::copy_without`]).
    entries: usize,
    gone: usize,
}

impl Directory {
    /// Returns a directory without entries, with room for some, in a store whose segments have
    /// `segment_bytes` bytes.
    pub(crate) fn with_room(entries: usize, segment_bytes: u32) -> Self {
        Self {
            offset_bits: offset_bits(segment_bytes),
            slots: Vec::new(),
            free: Vec::new(),
            words: vec![0; words_for(entries)],
            entries: 0,
            gone: 0,
        }
    }

    /// Returns how many base segments a directory may name.
    pub(crate) fn segments_max(segment_bytes: u32) -> usize {
        1 << (PLACE_BITS - offset_bits(segment_bytes))
    }

    /// Returns the bytes of a directory with this number of entries, without those for segments.
    pub(crate) fn bytes_for(entries: usize) -> u64 {
        (words_for(entries) * size_of::<u64>()) as u64
    }

    /// Returns its bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let slots = self.slots.len() * (size_of::<Slot>() + size_of::<u32>());
        (self.words.len() * size_of::<u64>() + slots) as u64
    }

    /// Adds the records of a segment, by their hashes and offsets. Returns whether there was room
    /// for another segment.
    #[must_use]
    pub(crate) fn add(
        &mut self,
        segment: u64,
        records: impl IntoIterator<Item = (KeyHash, u32)>,
    ) -> bool {
        let slots_max = 1 << (PLACE_BITS - self.offset_bits);
        if self.free.is_empty() && self.slots.len() >= slots_max {
            self.rebuild(self.words.len());
        }
        let slot = match self.free.pop() {
            Some(free) => free as usize,
            None if self.slots.len() < slots_max => self.slots.len(),
            None => return false,
        };
        self.set_slot(slot, Slot::Live { segment, entries: 0 });
        let mut entries = 0;
        for (hash, offset) in records {
            if (self.entries + 1) * 8 > self.words.len() * 7 {
                self.rebuild(words_for(2 * (self.entries - self.gone + 1)));
            }
            let place = (slot as u64) << self.offset_bits | u64::from(offset);
            self.put(fingerprint(hash) << PLACE_BITS | place);
            entries += 1;
        }
        self.set_slot(slot, Slot::Live { segment, entries });
        true
    }

    fn set_slot(&mut self, at: usize, slot: Slot) {
        match self.slots.get_mut(at) {
            Some(there) => *there = slot,
            None => self.slots.push(slot),
        }
    }

    /// Returns whether the table would be made again if these segments were removed, and `added`
    /// records added.
    pub(crate) fn is_tight(&self, segments: &[u64], added: usize) -> bool {
        let (entries, gone) = (self.entries + added, self.gone + self.entries_of(segments));
        entries * 8 > self.words.len() * 7 || gone * 2 > self.entries
    }

    /// Returns a directory without the records of these segments and of earlier ones that were
    /// removed, and with room for `added` more.
    pub(crate) fn copy_without(&self, segments: &[u64], added: usize) -> Self {
        let mut copy = self.clone_slots();
        copy.mark_gone(segments);
        let live = self.entries - self.gone - self.entries_of(segments);
        copy.fill(&self.words, words_for(live + live / 2 + added));
        copy
    }

    /// Returns a directory with the same segments and no entries.
    fn clone_slots(&self) -> Self {
        let Self { offset_bits, slots, free, .. } = self;
        let (slots, free) = (slots.clone(), free.clone());
        Self { offset_bits: *offset_bits, slots, free, words: Vec::new(), entries: 0, gone: 0 }
    }

    /// Returns the number of entries of these segments.
    fn entries_of(&self, segments: &[u64]) -> usize {
        let entries = self.slots.iter().map(|slot| match slot {
            Slot::Live { segment, entries } if segments.contains(segment) => *entries as usize,
            _ => 0,
        });
        entries.sum()
    }

    /// Removes the records of segments.
    pub(crate) fn remove(&mut self, segments: &[u64]) {
        self.gone += self.entries_of(segments);
        self.mark_gone(segments);
        if self.gone * 2 > self.entries {
            self.rebuild(words_for(self.entries - self.gone));
        }
    }

    fn mark_gone(&mut self, segments: &[u64]) {
        for slot in &mut self.slots {
            if let Slot::Live { segment, .. } = slot
                && segments.contains(segment)
            {
                *slot = Slot::Gone;
            }
        }
    }

    /// Returns the places that a record with this hash may have: segments and offsets.
    pub(crate) fn find(&self, hash: KeyHash) -> Vec<(u64, u32)> {
        let wanted = fingerprint(hash);
        let mut found = Vec::new();
        let mut at = self.first(wanted);
        while let Some(word) = self.words.get(at).copied().filter(|word| *word != 0) {
            if word >> PLACE_BITS == wanted
                && let Some(Slot::Live { segment, .. }) = self.slots.get(self.slot_of(word))
            {
                found.push((*segment, (word & ((1 << self.offset_bits) - 1)) as u32));
            }
            at = (at + 1) & (self.words.len() - 1);
        }
        found
    }

    /// Returns whether a word is an entry of a segment that is there.
    fn is_live(&self, word: u64) -> bool {
        word != 0 && matches!(self.slots.get(self.slot_of(word)), Some(Slot::Live { .. }))
    }

    /// Returns the number of an entry's segment.
    fn slot_of(&self, word: u64) -> usize {
        ((word & ((1 << PLACE_BITS) - 1)) >> self.offset_bits) as usize
    }

    /// Makes a table of this number of words, without the entries of removed segments.
    fn rebuild(&mut self, words: usize) {
        let before = std::mem::take(&mut self.words);
        self.fill(&before, words);
    }

    /// Makes a table of this number of words, with the entries of `before` whose segments are
    /// there.
    fn fill(&mut self, before: &[u64], words: usize) {
        self.words = vec![0; words];
        (self.entries, self.gone) = (0, 0);
        for word in before {
            if self.is_live(*word) {
                self.put(*word);
            }
        }
        for (number, slot) in (0..).zip(&mut self.slots) {
            if *slot == Slot::Gone {
                *slot = Slot::Free;
                self.free.push(number);
            }
        }
    }

    /// Returns where the search for a fingerprint begins.
    fn first(&self, fingerprint: u64) -> usize {
        fingerprint as usize & (self.words.len() - 1)
    }

    fn put(&mut self, word: u64) {
        let mut at = self.first(word >> PLACE_BITS);
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

/// Returns the bits of an offset in a segment.
fn offset_bits(segment_bytes: u32) -> u32 {
    (u32::BITS - segment_bytes.saturating_sub(1).leading_zeros()).clamp(1, OFFSET_BITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_hash::Secret;

    const SEGMENT_BYTES: u32 = 1 << 20;

    fn hash(number: u64) -> KeyHash {
        Secret([3, 4]).hash(&number.to_le_bytes())
    }

    #[test]
    fn records_are_found_until_their_segment_goes() {
        let mut directory = Directory::with_room(0, SEGMENT_BYTES);
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
        assert!(directory.add(2000, [(hash(7), SEGMENT_BYTES - 1)]));
        assert!(directory.find(hash(7)).contains(&(2000, SEGMENT_BYTES - 1)));
        assert!(has(&directory, 7));
    }

    /// A few removed segments leave their entries, which name no segment. No other segment gets
    /// their slots while the entries are there.
    #[test]
    fn a_few_removed_segments_do_not_make_the_table_again() {
        let mut directory = Directory::with_room(2000, SEGMENT_BYTES);
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

    /// A table that is made again while readers use the old one has the same entries.
    #[test]
    fn a_copy_has_the_entries_of_segments_that_stay() {
        let mut directory = Directory::with_room(0, SEGMENT_BYTES);
        for segment in 0..20_u64 {
            let records = (0..100).map(|at| (hash(segment * 100 + at), at as u32));
            assert!(directory.add(segment, records));
        }
        directory.remove(&[3]);
        assert!(!directory.is_tight(&[4], 10) && directory.is_tight(&[4], 10_000));
        let most: Vec<u64> = (4..16).collect();
        assert!(directory.is_tight(&most, 0));
        let mut copy = directory.copy_without(&most, 500);
        assert_eq!((copy.entries, copy.gone), (700, 0));
        let words = copy.words.len();
        for segment in 30..35_u64 {
            let records = (0..100).map(|at| (hash(segment * 100 + at), at as u32));
            assert!(copy.add(segment, records));
        }
        copy.remove(&most);
        assert_eq!((copy.entries, copy.words.len()), (1200, words), "it was not made again");
        for number in (0..2000).chain(3000..3500) {
            let is_there = !(300..1600).contains(&number);
            let place = (number / 100, (number % 100) as u32);
            assert_eq!(copy.find(hash(number)).contains(&place), is_there, "{number}");
        }
    }

    #[test]
    fn a_directory_names_a_limited_number_of_segments() {
        let segment_bytes = 64 << 20;
        let most = Directory::segments_max(segment_bytes) as u64;
        assert_eq!(most, 1 << 12);
        let mut directory = Directory::with_room(0, segment_bytes);
        assert!((0..most).all(|segment| directory.add(segment, [(hash(segment), 5)])));
        assert!(!directory.add(9_999, [(hash(most), 0)]));
        assert_eq!(directory.find(hash(most)), []);
        // Removed ones make room.
        directory.remove(&[7]);
        assert!(directory.add(9_999, [(hash(most), 9)]));
        assert_eq!(directory.find(hash(most)), [(9_999, 9)]);
        assert_eq!(directory.find(hash(7)), []);
        assert_eq!(directory.find(hash(most - 1)), [(most - 1, 5)]);
        assert_eq!(Directory::segments_max(SEGMENT_BYTES), 1 << 18);
        assert_eq!(Directory::segments_max(100_000), 1 << 21);
    }

    #[test]
    fn few_entries_are_of_other_keys() {
        let mut directory = Directory::with_room(100_000, SEGMENT_BYTES);
        assert!(directory.add(1, (0..100_000).map(|number| (hash(number), 0))));
        let others: usize =
            (100_000..200_000).map(|number| directory.find(hash(number)).len()).sum();
        // 100,000 of 2^26 for each.
        assert!(others < 400, "{others}");
    }
}
