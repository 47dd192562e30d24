//! The places of the updates that were appended to an interval (its tail).
//!
//! With them a get of a cold key reads one update, or the bytes before all of them (the main part),
//! and not all extents. Each update has a fingerprint of its key here. A key that is like none of
//! them is in the main part or nowhere. A key that is like a single one is that update's, or, once
//! in 4096, in the main part. If a key is like several, the last of these is read, which is the
//! newest of the key if it has the key; otherwise the whole interval is read.

use std::ops::Range;

use codec::hash64;

use crate::allocated::allocated_bytes;

/// Bits of an update's offset in its interval; its fingerprint is above them.
const OFFSET_BITS: u32 = 20;
/// Updates of a tail that is known: a block says by a bit for each which it has.
const UPDATES_MAX: usize = 62;
/// The bit of the main part, in [`Parts`].
const MAIN: u64 = 1 << 63;

/// The part of an interval that has the newest pair of a key, if any has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The part is not known.
    Whole,
    /// The bytes before the tail.
    Main,
    /// An update of the tail, unless its key is only like this one; then the main part.
    Update(usize),
    /// The last of several updates that are like it. If its key is only similar, the part is not
    /// known.
    Newest(usize),
}

/// Several parts of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts(u64);

impl Parts {
    /// All of them.
    pub(crate) const WHOLE: Self = Self(u64::MAX);

    pub(crate) fn of(part: Part) -> Self {
        match part {
            // The last of several is valid for one key alone, so it is never kept as a part.
            Part::Whole | Part::Newest(_) => Self::WHOLE,
            Part::Main => Self(MAIN),
            Part::Update(index) => Self(1 << (index % UPDATES_MAX)),
        }
    }

    /// These and others.
    pub(crate) fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn has(self, part: Part) -> bool {
        let wanted = Self::of(part).0;
        self.0 & wanted == wanted
    }
}

/// The updates of a tail, in the order in which they were appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail(Box<[u32]>);

fn fingerprint(key: &[u8]) -> u32 {
    // Not the bits of a block's fingerprints.
    (hash64(0, key) >> (64 - (u32::BITS - OFFSET_BITS))) as u32
}

fn offset(place: u32) -> u32 {
    place & ((1 << OFFSET_BITS) - 1)
}

impl Tail {
    /// How many updates it knows.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the stored place of each update: the offset's bits, and above them the fingerprint.
    pub(crate) fn places(&self) -> &[u32] {
        &self.0
    }

    /// The tail of an interval of `length` bytes that has these; none if no interval has.
    pub(crate) fn of_places(places: Box<[u32]>, length: u32) -> Option<Self> {
        let ends = places.iter().skip(1).map(|place| offset(*place)).chain([length]);
        let in_order = places.iter().zip(ends).all(|(place, end)| offset(*place) < end);
        (in_order && places.len() <= UPDATES_MAX).then_some(Self(places))
    }

    /// Bytes that it takes in addition to itself.
    pub(crate) fn heap_bytes(&self) -> u64 {
        allocated_bytes(size_of_val(&*self.0))
    }

    /// Returns the tail with `front` more bytes before the interval, and updates behind it, each
    /// with its place and its key. None if that is more than can be known.
    pub(crate) fn appended(&self, front: u32, updates: &[(u32, &[u8])]) -> Option<Self> {
        let old = self.0.iter().map(|place| {
            let offset = offset(*place).checked_add(front)?;
            Some((offset, place >> OFFSET_BITS))
        });
        let new = updates.iter().map(|(offset, key)| Some((*offset, fingerprint(key))));
        let place = |update: Option<(u32, u32)>| {
            let (offset, fingerprint) = update?;
            (offset >> OFFSET_BITS == 0).then_some(offset | fingerprint << OFFSET_BITS)
        };
        let places: Option<Box<[u32]>> = old.chain(new).map(place).collect();
        places.filter(|places| places.len() <= UPDATES_MAX).map(Self)
    }

    /// Returns the part that may have a key.
    pub(crate) fn part_of(&self, key: &[u8]) -> Part {
        let wanted = fingerprint(key);
        let mut alike =
            self.0.iter().enumerate().filter(|(_, place)| *place >> OFFSET_BITS == wanted);
        match (alike.next(), alike.next_back()) {
            (None, _) => Part::Main,
            (Some((index, _)), None) => Part::Update(index),
            (Some(_), Some((index, _))) => Part::Newest(index),
        }
    }

    /// Returns the bytes of a part in an interval of `length` bytes.
    pub(crate) fn range(&self, part: Part, length: u32) -> Range<u32> {
        let begin = |index: usize| self.0.get(index).map_or(length, |place| offset(*place));
        match part {
            Part::Whole => 0..length,
            Part::Main => 0..begin(0),
            Part::Update(index) | Part::Newest(index) => begin(index)..begin(index + 1),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_for_where_it_was_appended_last() {
        let tail = Tail::default().appended(0, &[(100, b"a"), (120, b"b")]).expect("few");
        let tail = tail.appended(7, &[(150, b"c"), (160, b"b")]).expect("few");
        assert_eq!(tail.len(), 4);
        let found = |key: &[u8]| (tail.part_of(key), tail.range(tail.part_of(key), 200));
        assert_eq!(found(b"a"), (Part::Update(0), 107..127));
        assert_eq!(found(b"b"), (Part::Newest(3), 160..200));
        assert_eq!(found(b"c"), (Part::Update(2), 150..160));
        assert_eq!(found(b"d"), (Part::Main, 0..107));
        assert_eq!(tail.range(Part::Update(3), 200), 160..200);
        assert_eq!(Tail::default().range(Tail::default().part_of(b"a"), 9), 0..9);
    }

    #[test]
    fn what_has_no_place_is_not_known() {
        let far = (1 << OFFSET_BITS) - 1;
        let tail = Tail::default().appended(0, &[(far, b"a")]).expect("it is near enough");
        assert_eq!(tail.range(Part::Main, far + 9), 0..far);
        assert_eq!(tail.appended(1, &[]), None);
        assert_eq!(tail.appended(0, &[(far + 1, b"b")]), None);
        let many: Vec<(u32, &[u8])> = (0..UPDATES_MAX as u32).map(|at| (at, &b"k"[..])).collect();
        let full = Tail::default().appended(0, &many).expect("exactly the most updates of a tail");
        assert_eq!(full.appended(0, &[(70, b"l")]), None);
    }

    #[test]
    fn parts_are_told_apart() {
        let all = [Part::Main, Part::Update(0), Part::Update(UPDATES_MAX - 1)];
        for part in all {
            for other in all {
                assert_eq!(Parts::of(part).has(other), part == other);
            }
            assert!(Parts::WHOLE.has(part) && !Parts::of(part).has(Part::Whole));
            assert!(!Parts::of(part).has(Part::Newest(0)), "it has to be read");
        }
        let both = Parts::of(Part::Main).with(Parts::of(Part::Update(0)));
        assert!(both.has(Part::Main) && both.has(Part::Update(0)) && !both.has(Part::Update(1)));
    }
}
