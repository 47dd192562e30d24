//! The keys of which a group may have records.
//!
//! A delete, or the put of a small pair, leaves a marker in its group only if the group may have a
//! record of the key. Most small pairs were never large, so most of them leave none.
//!
//! The filter never lacks a key of a record, in a write buffer or on the device (F1). A few other
//! keys seem to be in it: their markers take space, and nothing else.
//!
//! A filter has stages ([`codec::bloom_place`]). The number of keys doubles with each stage. No
//! key is removed. A filter of which most keys have no
//! records any more is made again.
//!
//! # Making a filter
//! A store that is opened does not know the keys. A task makes the filter of a group from the
//! footers of its sealed segments, next to writes (`crate::key_filters`). Keys of records that
//! are not sealed, and of later records, go to a second filter. The stages of
//! both are the new filter. A job that moves records meanwhile adds no key.

use crate::key_hash::KeyHash;

/// Keys for each word of a stage: about one of 200 other keys seems to be in a full one.
const KEYS_PER_WORD: usize = 4;
/// Keys of the first stage.
const KEYS_MIN: usize = 64 * KEYS_PER_WORD;
/// Markers that a group without a filter appends before it requests one again.
const MARKERS_PER_TRY: u32 = 1024;
/// Keys of a filter that may have no records before it is made again. More are allowed if fewer
/// than half of all keys have none.
const STALE_KEYS_MIN: u64 = 4096;

/// A set of keys, of which it may seem to have a few more.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyFilter {
    stages: Vec<Stage>,
    keys: usize,
}

#[derive(Clone, Debug)]
struct Stage {
    words: Vec<u64>,
    /// Keys for which there is room.
    room: usize,
}

/// The known keys of a group's records.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    /// `None` if they are not known.
    all: Option<KeyFilter>,
    /// Those of records that were not sealed when a task began to read the footers, and of later
    /// ones.
    since: Option<KeyFilter>,
    /// Whether most keys have no record any more.
    is_stale: bool,
    /// Markers that were appended while the keys were not known.
    blind_markers: u32,
}

/// Whether a delete or a small pair needs a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The group may have a record of the key.
    pub(crate) is_needed: bool,
    /// A task should make the filter of the group.
    pub(crate) wants_filter: bool,
}

impl KeyFilter {
    /// Returns a filter without keys, with room for some.
    pub(crate) fn with_room(keys: usize) -> Self {
        Self { stages: vec![Stage::with_room(keys)], keys: 0 }
    }

    /// Returns the bytes of a filter with room for this number of keys.
    pub(crate) fn bytes_for(keys: usize) -> u64 {
        (Stage::words_for(keys) * size_of::<u64>()) as u64
    }

    /// Returns its bytes of memory.
    fn bytes(&self) -> u64 {
        let words = self.stages.iter().map(|stage| stage.words.len());
        (words.sum::<usize>() * size_of::<u64>()) as u64
    }

    /// Returns whether a key may be in it.
    pub(crate) fn may_have(&self, hash: KeyHash) -> bool {
        self.stages.iter().any(|stage| stage.may_have(hash))
    }

    /// Adds a key.
    pub(crate) fn add(&mut self, hash: KeyHash) {
        if self.may_have(hash) {
            return;
        }
        if self.stages.last().is_none_or(|last| last.room == 0) {
            self.stages.push(Stage::with_room(self.keys));
        }
        if let Some(last) = self.stages.last_mut() {
            last.add(hash);
            self.keys += 1;
        }
    }

    /// Adds the keys of another filter.
    fn join(&mut self, other: Self) {
        self.keys += other.keys;
        self.stages.extend(other.stages);
    }
}

impl Stage {
    fn words_for(keys: usize) -> usize {
        keys.max(KEYS_MIN).div_ceil(KEYS_PER_WORD)
    }

    fn with_room(keys: usize) -> Self {
        let words = vec![0; Self::words_for(keys)];
        Self { room: words.len() * KEYS_PER_WORD, words }
    }

    fn may_have(&self, hash: KeyHash) -> bool {
        let (at, bits) = codec::bloom_place(hash.low(), self.words.len());
        self.words.get(at).is_none_or(|word| word & bits == bits)
    }

    fn add(&mut self, hash: KeyHash) {
        let (at, bits) = codec::bloom_place(hash.low(), self.words.len());
        if let Some(word) = self.words.get_mut(at) {
            *word |= bits;
        }
        self.room = self.room.saturating_sub(1);
    }
}

impl KnownKeys {
    /// Returns what is known of a group without any record.
    pub(crate) fn of_empty_group() -> Self {
        Self { all: Some(KeyFilter::default()), ..Self::default() }
    }

    /// Returns the bytes of memory of the filters.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.iter().chain(&self.since).map(KeyFilter::bytes).sum()
    }

    /// Returns whether a delete or a small pair needs a marker. A group whose keys are not known
    /// counts it as appended.
    pub(crate) fn marks(&mut self, hash: KeyHash) -> Marks {
        let Some(all) = &self.all else {
            let is_turn = self.blind_markers.is_multiple_of(MARKERS_PER_TRY);
            self.blind_markers = self.blind_markers.wrapping_add(1);
            return Marks { is_needed: true, wants_filter: is_turn && self.since.is_none() };
        };
        let wants_filter = std::mem::take(&mut self.is_stale) && self.since.is_none();
        Marks { is_needed: all.may_have(hash), wants_filter }
    }

    /// Has the next marker ask for a filter: no task could be queued.
    pub(crate) fn ask_again(&mut self) {
        self.is_stale |= self.all.is_some();
        self.blind_markers = 0;
    }

    /// Adds the key of a record that is appended.
    pub(crate) fn add(&mut self, hash: KeyHash) {
        let known = self.all.iter_mut().chain(&mut self.since);
        known.for_each(|filter| filter.add(hash));
    }

    /// Has the keys of later records noted for a new filter, and those of `unsealed` records.
    pub(crate) fn begin(&mut self, unsealed: impl Iterator<Item = KeyHash>) {
        let mut since = KeyFilter::default();
        unsealed.for_each(|hash| since.add(hash));
        self.since = Some(since);
    }

    /// Ends the making of a filter. `sealed` has the keys of all segments that were sealed at its
    /// beginning; none if they could not be read.
    pub(crate) fn end(&mut self, sealed: Option<KeyFilter>) {
        let (Some(since), Some(mut all)) = (self.since.take(), sealed) else { return };
        all.join(since);
        self.all = Some(all);
        (self.is_stale, self.blind_markers) = (false, 0);
    }

    /// Notes how many records the group has.
    pub(crate) fn note_records(&mut self, records: u64) {
        let keys = self.all.as_ref().map_or(0, |all| all.keys as u64);
        self.is_stale = keys > (2 * records).max(records + STALE_KEYS_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_hash::Secret;

    fn hash(number: u64) -> KeyHash {
        Secret([5, 6]).hash(&number.to_le_bytes())
    }

    /// (F1)
    #[test]
    fn a_filter_grows_and_lacks_no_key() {
        let mut filter = KeyFilter::default();
        for number in 0..50_000 {
            filter.add(hash(number));
        }
        assert!((0..50_000).all(|number| filter.may_have(hash(number))));
        let others = (50_000..150_000).filter(|number| filter.may_have(hash(*number))).count();
        assert!(others < 5_000, "{others} of 100,000 others");
        assert!(filter.keys > 47_000, "{} keys", filter.keys);
        let bytes = filter.bytes();
        assert!(bytes <= 50_000 * 4, "{bytes} bytes");
        (0..50_000).for_each(|number| filter.add(hash(number)));
        assert_eq!(filter.bytes(), bytes, "a key that is there takes nothing");
    }

    #[test]
    fn a_new_filter_has_the_keys_that_came_meanwhile() {
        let mut known = KnownKeys::default();
        let wants = |known: &mut KnownKeys, number| known.marks(hash(number));
        let blind = Marks { is_needed: true, wants_filter: true };
        assert_eq!(wants(&mut known, 1), blind);
        assert_eq!(wants(&mut known, 1), Marks { wants_filter: false, ..blind });
        known.begin([hash(1)].into_iter());
        known.add(hash(2));
        let mut sealed = KeyFilter::with_room(1);
        sealed.add(hash(3));
        known.end(Some(sealed));
        for number in 1..4 {
            assert_eq!(wants(&mut known, number), Marks { wants_filter: false, ..blind });
        }
        let none = Marks { is_needed: false, wants_filter: false };
        assert_eq!(wants(&mut known, 4), none);
        // A second filter does not replace the first one if it fails.
        known.begin([].into_iter());
        known.end(None);
        assert_eq!(wants(&mut known, 3), Marks { wants_filter: false, ..blind });
    }

    #[test]
    fn a_filter_of_keys_without_records_is_made_again() {
        let mut known = KnownKeys::of_empty_group();
        (0..10_000).for_each(|number| known.add(hash(number)));
        known.note_records(9_000);
        assert!(!known.marks(hash(0)).wants_filter);
        known.note_records(3_000);
        assert!(known.marks(hash(0)).wants_filter);
        assert!(!known.marks(hash(0)).wants_filter, "once");
        known.ask_again();
        assert!(known.marks(hash(0)).wants_filter);
    }
}
