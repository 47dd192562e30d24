//! An interval's pairs in memory: the content of the cache.
//!
//! In the space there are sorted pairs, behind which there may be updates that were appended
//! blindly (a *tail*). If several pairs have the same key, the last one counts, and a tombstone
//! hides those before it. So a reader that loads an interval needs no knowledge of its history.
//! Here only the pairs that live are kept, in order, in one piece of memory (`block/memory.rs`):
//!
//! ```text
//!  pair | pair | ... | pair | where each begins, 4 bytes | fingerprint of each key, 2 bytes
//! ```

mod memory;

use arena::pieces::Piece;
use codec::{Corruption, Reader, hash64};

use crate::index::{Part, Parts};
use crate::pair::Pair;
pub(crate) use memory::BlockMemory;
use memory_budget::Charge;

/// Pairs up to which the search for a key compares fingerprints.
const FEW_PAIRS: usize = 64;

/// Bytes of a pair in addition to its own.
const PLACE_BYTES: usize = 4;
const FINGERPRINT_BYTES: usize = 2;

/// Bytes of a block in addition to its pairs: itself, its reference count, its place in the cache's
/// ring.
const OVERHEAD_BYTES: u64 = 96;

/// The pairs of an interval that live, by key.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Piece,
    /// The offset at which the places of the pairs begin.
    pairs_end: u32,
    count: u32,
    is_plain: bool,
    /// The parts of the interval that it has.
    parts: Parts,
    charge: Charge,
}

/// Returns the part of a key's hash that is compared first (Flex 5.2).
fn fingerprint(key: &[u8]) -> u16 {
    hash64(0, key) as u16
}

impl Block {
    /// The pairs in an interval's bytes.
    pub(crate) fn decode(bytes: &[u8], memory: &BlockMemory) -> Result<Self, Corruption> {
        let mut places = Vec::new();
        let mut fields = Reader::new(bytes);
        let mut is_plain = true;
        let mut last: Option<&[u8]> = None;
        while !fields.is_empty() {
            let at = fields.position() as u32;
            let (_, pair) = Pair::take(&mut fields)?;
            is_plain &= pair.value.is_some() && last.is_none_or(|last| last < pair.key);
            last = Some(pair.key);
            places.push(at);
        }
        if is_plain {
            return Ok(Self::new(bytes, &places, true, memory));
        }
        let (bytes, places) = newest_of_each(bytes, places);
        Ok(Self::new(&bytes, &places, false, memory))
    }

    /// A block of pairs that were just put together, in their order. The caller says whether the
    /// space has them in this layout.
    pub(crate) fn of_image(
        image: &[u8],
        ends: &[usize],
        is_plain: bool,
        memory: &BlockMemory,
    ) -> Self {
        let begins = std::iter::once(0).chain(ends.iter().map(|end| *end as u32));
        let places: Vec<u32> = begins.take(ends.len()).collect();
        Self::new(image, &places, is_plain, memory)
    }

    /// The pairs of two neighbours.
    pub(crate) fn joined(left: &Self, right: &Self, memory: &BlockMemory) -> Self {
        let image = [left.pairs(), right.pairs()].concat();
        let places = |block: &Self, by: usize| {
            let places = (0..block.len()).filter_map(|index| block.place(index));
            places.map(|place| (place + by) as u32).collect::<Vec<_>>()
        };
        let places = [places(left, 0), places(right, left.pair_bytes())].concat();
        Self::new(&image, &places, left.is_plain && right.is_plain, memory)
    }

    fn new(pairs: &[u8], places: &[u32], is_plain: bool, memory: &BlockMemory) -> Self {
        let (pairs_end, count) = (pairs.len() as u32, places.len() as u32);
        let len = pairs.len() + places.len() * (PLACE_BYTES + FINGERPRINT_BYTES);
        let (mut bytes, charge) = memory.take(len, OVERHEAD_BYTES);
        let (copied, more) = bytes.split_at_mut(pairs.len());
        copied.copy_from_slice(pairs);
        let (begins, fingerprints) = more.split_at_mut(places.len() * PLACE_BYTES);
        for (into, place) in begins.chunks_exact_mut(PLACE_BYTES).zip(places) {
            into.copy_from_slice(&place.to_le_bytes());
        }
        for (into, place) in fingerprints.chunks_exact_mut(FINGERPRINT_BYTES).zip(places) {
            let fingerprint = key_at(pairs, *place as usize).map_or(0, fingerprint);
            into.copy_from_slice(&fingerprint.to_le_bytes());
        }
        Self { bytes, pairs_end, count, is_plain, parts: Parts::WHOLE, charge }
    }

    /// The same, marked as having only these parts.
    pub(crate) fn of_parts(self, parts: Parts) -> Self {
        Self { parts, ..self }
    }

    /// Returns the parts of the interval that it has.
    pub(crate) fn parts(&self) -> Parts {
        self.parts
    }

    /// Whether it has all pairs of the interval.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts == Parts::WHOLE
    }

    /// Returns the value of a key that is in a part of the interval, or that there is none; `None`
    /// if that needs other parts (`index`, X4).
    pub(crate) fn answer(&self, key: &[u8], part: impl FnOnce() -> Part) -> Option<Option<&[u8]>> {
        if self.is_whole() {
            return Some(self.find(key));
        }
        let part = part();
        if !self.parts.has(part) {
            return None;
        }
        let found = self.find(key);
        // An update may only be like the wanted one, which is then in the main part.
        (found.is_some() || self.parts.has(Part::Main)).then_some(found)
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// How many pairs live.
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the interval's bytes are these pairs in their order, and nothing else; of a whole
    /// one.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The value of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&[u8]> {
        if self.len() > FEW_PAIRS {
            let index = self.lower_bound(key);
            return (self.key(index)? == key).then(|| self.value(index)).flatten();
        }
        let wanted = fingerprint(key).to_le_bytes();
        let fingerprints = self.fingerprints().chunks_exact(FINGERPRINT_BYTES);
        let mut found = fingerprints.enumerate().filter(|(_, fingerprint)| *fingerprint == wanted);
        found.find_map(|(index, _)| self.get(index).filter(|pair| pair.key == key)?.value)
    }

    fn fingerprints(&self) -> &[u8] {
        let begin = self.pairs_end as usize + self.len() * PLACE_BYTES;
        self.bytes.get(begin..).unwrap_or_default()
    }

    /// The first pair at or behind `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        self.partition_point(|it| it < key)
    }

    /// The first pair behind `key`.
    pub(crate) fn upper_bound(&self, key: &[u8]) -> usize {
        self.partition_point(|it| it <= key)
    }

    fn partition_point(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut begin, mut end) = (0, self.len());
        while begin < end {
            let middle = begin.midpoint(end);
            if self.key(middle).is_some_and(&is_before) {
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        begin
    }

    /// Returns the offset of a pair; for the index behind the last one, the end of the pairs.
    fn place(&self, index: usize) -> Option<usize> {
        if index == self.len() {
            return Some(self.pairs_end as usize);
        }
        let at = self.pairs_end as usize + index * PLACE_BYTES;
        let place = self.bytes.get(at..)?.first_chunk()?;
        (index < self.len()).then_some(u32::from_le_bytes(*place) as usize)
    }

    fn get(&self, index: usize) -> Option<Pair<'_>> {
        let bytes = self.bytes.get(self.place(index)?..)?;
        (index < self.len())
            .then(|| Pair::take(&mut Reader::new(bytes)).ok())?
            .map(|(_, pair)| pair)
    }

    /// The key of a pair.
    pub(crate) fn key(&self, index: usize) -> Option<&[u8]> {
        Some(self.get(index)?.key)
    }

    /// The value of a pair.
    pub(crate) fn value(&self, index: usize) -> Option<&[u8]> {
        self.get(index)?.value
    }

    /// A pair, decoded once.
    pub(crate) fn key_and_value(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let pair = self.get(index)?;
        Some((pair.key, pair.value?))
    }

    /// Returns a pair in its encoding in the space.
    pub(crate) fn pair(&self, index: usize) -> Option<&[u8]> {
        self.bytes.get(self.place(index)?..self.place(index + 1)?)
    }

    /// Returns all pairs that live, in their encoding in the space.
    pub(crate) fn pairs(&self) -> &[u8] {
        self.bytes.get(..self.pair_bytes()).unwrap_or_default()
    }

    /// Bytes of all pairs, in their encoding in the space.
    pub(crate) fn pair_bytes(&self) -> usize {
        self.pairs_end as usize
    }
}

/// The key of the pair at `at`.
fn key_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    Some(Pair::take(&mut Reader::new(bytes.get(at..)?)).ok()?.1.key)
}

/// Returns the last pair of each key, unless it is a tombstone, by key; and their places.
fn newest_of_each(bytes: &[u8], mut places: Vec<u32>) -> (Vec<u8>, Vec<u32>) {
    let key = |place: &u32| key_at(bytes, *place as usize);
    // Stable, so that of one key the pair that came last stays last.
    places.sort_by(|left, right| key(left).cmp(&key(right)));
    let (mut kept, mut kept_places) = (Vec::with_capacity(bytes.len()), Vec::new());
    for run in places.chunk_by(|left, right| key(left) == key(right)) {
        let newest = run.last().and_then(|place| bytes.get(*place as usize..));
        let Some(Ok((head, pair))) = newest.map(|rest| Pair::take(&mut Reader::new(rest))) else {
            continue;
        };
        if pair.value.is_some() {
            kept_places.push(kept.len() as u32);
            kept.extend_from_slice(
                newest.and_then(|rest| rest.get(..head.pair_len())).unwrap_or_default(),
            );
        }
    }
    (kept, kept_places)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
