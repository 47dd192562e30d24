//! An interval's bytes in memory, and where its pairs are: what the cache holds.
//!
//! The bytes are the interval's as they lie in the space: sorted pairs, behind which there may be
//! updates that were appended without looking (a *tail*). Of several pairs of one key the last one
//! counts, and a tombstone hides those before it. So whoever loads an interval needs to know nothing
//! of how it came about.

use codec::{Corruption, Reader, hash64};

use crate::pair::Pair;
use crate::tally::{Charge, Tally};
use std::sync::Arc;

/// Pairs up to which a key is looked for by its fingerprint.
const FEW_PAIRS: usize = 64;

/// Bytes beside the pairs: what the allocator and the counts take.
const OVERHEAD_BYTES: usize = 160;

/// Where a pair lies.
#[derive(Clone, Copy, Debug)]
struct Slot {
    at: u32,
    len: u32,
    key_len: u16,
    head_len: u8,
}

/// The pairs of an interval that live, by key.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    slots: Box<[Slot]>,
    fingerprints: Box<[u16]>,
    is_plain: bool,
    charge: Charge,
}

/// What a key is compared by first (Flex 5.2).
fn fingerprint(key: &[u8]) -> u16 {
    hash64(0, key) as u16
}

impl Block {
    /// The pairs in an interval's bytes.
    pub(crate) fn decode(bytes: Vec<u8>, tally: &Arc<Tally>) -> Result<Self, Corruption> {
        let mut slots = Vec::new();
        let mut fields = Reader::new(&bytes);
        let mut is_plain = true;
        let mut last: Option<&[u8]> = None;
        while !fields.is_empty() {
            let at = fields.position() as u32;
            let (head, pair) = Pair::take(&mut fields)?;
            is_plain &= pair.value.is_some() && last.is_none_or(|last| last < pair.key);
            last = Some(pair.key);
            slots.push(Slot {
                at,
                len: head.pair_len() as u32,
                key_len: head.key_len as u16,
                head_len: head.head_len as u8,
            });
        }
        if !is_plain {
            slots = newest_of_each(&bytes, slots)?;
        }
        let keys = slots.iter().map(|slot| fingerprint(slot.key(&bytes)));
        let fingerprints = keys.collect::<Box<[u16]>>();
        let slots = slots.into_boxed_slice();
        let memory = bytes.capacity() + slots.len() * (size_of::<Slot>() + 2) + OVERHEAD_BYTES;
        let charge = tally.charge(memory as u64);
        Ok(Self { bytes, slots, fingerprints, is_plain, charge })
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// How many pairs live.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether its bytes are its pairs in their order, and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The value of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&[u8]> {
        if self.slots.len() > FEW_PAIRS {
            let index = self.lower_bound(key);
            return (self.key(index)? == key).then(|| self.value(index)).flatten();
        }
        let wanted = fingerprint(key);
        let mut found = self.fingerprints.iter().enumerate();
        loop {
            let (index, _) = found.find(|(_, fingerprint)| **fingerprint == wanted)?;
            if self.key(index) == Some(key) {
                return self.value(index);
            }
        }
    }

    /// The first pair at or behind `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        self.slots.partition_point(|slot| slot.key(&self.bytes) < key)
    }

    /// The first pair behind `key`.
    pub(crate) fn upper_bound(&self, key: &[u8]) -> usize {
        self.slots.partition_point(|slot| slot.key(&self.bytes) <= key)
    }

    /// The key of a pair.
    pub(crate) fn key(&self, index: usize) -> Option<&[u8]> {
        Some(self.slots.get(index)?.key(&self.bytes))
    }

    /// The value of a pair.
    pub(crate) fn value(&self, index: usize) -> Option<&[u8]> {
        let slot = self.slots.get(index)?;
        self.bytes.get(slot.at as usize..)?.get(slot.before_value()..slot.len as usize)
    }

    /// A pair as it lies in the space.
    pub(crate) fn pair(&self, index: usize) -> Option<&[u8]> {
        let slot = self.slots.get(index)?;
        self.bytes.get(slot.at as usize..)?.get(..slot.len as usize)
    }
}

impl Slot {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let begin = self.at as usize + usize::from(self.head_len);
        // Whatever made the slot has seen the key there.
        bytes.get(begin..begin + usize::from(self.key_len)).unwrap_or_default()
    }

    fn before_value(&self) -> usize {
        usize::from(self.head_len) + usize::from(self.key_len)
    }
}

/// Of each key the pair that came last, unless it is a tombstone, by key.
fn newest_of_each(bytes: &[u8], mut slots: Vec<Slot>) -> Result<Vec<Slot>, Corruption> {
    // Stable, so that of one key the pair that came last stays last.
    slots.sort_by(|left, right| left.key(bytes).cmp(right.key(bytes)));
    let mut kept = Vec::with_capacity(slots.len());
    for run in slots.chunk_by(|left, right| left.key(bytes) == right.key(bytes)) {
        let Some(newest) = run.last() else { continue };
        let mut fields = Reader::new(bytes.get(newest.at as usize..).unwrap_or_default());
        if Pair::take(&mut fields)?.1.value.is_some() {
            kept.push(*newest);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests;
