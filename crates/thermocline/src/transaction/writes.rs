//! What a transaction is going to write: of each keyspace the ranges that it deletes, and then the newest
//! write of each key.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use engine::{Direction, KeyRange, Op};

use crate::error::Result;
use crate::key_locks::Hold;
use crate::keyspace::Keyspace;
use crate::slot::Generation;

/// A key, and its new value, as it is stored or as it is shown, unless it is removed.
pub(super) type OwnWrite = (Vec<u8>, Option<Vec<u8>>);

/// The newest write of each key, by the slots' lock ids.
#[derive(Default)]
pub(super) struct Writes {
    spaces: BTreeMap<u32, SpaceWrites>,
}

struct SpaceWrites {
    keyspace: Keyspace,
    deleted: DeletedRanges,
    /// What was written before a range around it was deleted is not here any more.
    values: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// Ranges that do not overlap, by where they begin; each goes to before its end, if it has one.
#[derive(Clone, Debug, Default)]
pub(super) struct DeletedRanges(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl DeletedRanges {
    /// Adds one that is not empty, as one with those that it meets.
    fn add(&mut self, mut start: Vec<u8>, mut end: Option<Vec<u8>>) {
        if let Some((before, its_end)) = self.around(&start) {
            (start, end) = (before.clone(), later(end, its_end.cloned()));
        }
        while let Some((next, _)) = self.0.range(start.clone()..).next() {
            if end.as_ref().is_some_and(|end| next > end) {
                break;
            }
            let next = next.clone();
            end = later(end, self.0.remove(&next).flatten());
        }
        self.0.insert(start, end);
    }

    /// The one that has `key`, or ends right before it.
    fn around(&self, key: &[u8]) -> Option<(&Vec<u8>, Option<&Vec<u8>>)> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (start, end) = self.0.range::<[u8], _>(upto).next_back()?;
        let meets = end.as_ref().is_none_or(|end| key <= end.as_slice());
        meets.then_some((start, end.as_ref()))
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.around(key).is_some_and(|(_, end)| end.is_none_or(|end| key < end.as_slice()))
    }
}

/// The end that is behind the other one; none is behind all.
fn later(one: Option<Vec<u8>>, other: Option<Vec<u8>>) -> Option<Vec<u8>> {
    Some(one?.max(other?))
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Whether ranges are deleted.
    pub(super) fn has_ranges(&self) -> bool {
        self.spaces.values().any(|space| !space.deleted.0.is_empty())
    }

    fn of(&mut self, keyspace: &Keyspace) -> &mut SpaceWrites {
        self.spaces.entry(keyspace.slot.lock_id).or_insert_with(|| SpaceWrites {
            keyspace: keyspace.clone(),
            deleted: DeletedRanges::default(),
            values: BTreeMap::new(),
        })
    }

    pub(super) fn set(&mut self, keyspace: &Keyspace, key: &[u8], value: Option<&[u8]>) {
        self.of(keyspace).values.insert(key.to_vec(), value.map(<[u8]>::to_vec));
    }

    /// Deletes what lies from `start` on, before `end` if there is one.
    pub(super) fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        start: Vec<u8>,
        end: Option<Vec<u8>>,
    ) {
        let space = self.of(keyspace);
        let bound = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let inside = (Bound::Included(start.as_slice()), bound);
        let over: Vec<_> =
            space.values.range::<[u8], _>(inside).map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| _ = space.values.remove(key));
        space.deleted.add(start, end);
    }

    /// What the transaction has made of the key, if it has, as it is stored.
    pub(super) fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Option<Option<&[u8]>> {
        let space = self.spaces.get(&keyspace.slot.lock_id)?;
        match space.values.get(key) {
            Some(value) => Some(value.as_deref()),
            None => space.deleted.has(key).then_some(None),
        }
    }

    /// A copy of the ranges of the keyspace that are deleted.
    pub(super) fn deleted(&self, keyspace: &Keyspace) -> DeletedRanges {
        let space = self.spaces.get(&keyspace.slot.lock_id);
        space.map(|space| space.deleted.clone()).unwrap_or_default()
    }

    /// Copies of the writes to `range`, as `keyspace` shows them, in the order of `direction`.
    pub(super) fn in_range(
        &self,
        keyspace: &Keyspace,
        range: &KeyRange,
        direction: Direction,
    ) -> VecDeque<OwnWrite> {
        let Some(space) = self.spaces.get(&keyspace.slot.lock_id) else { return VecDeque::new() };
        if range.is_empty() {
            return VecDeque::new();
        }
        let inside = space.values.range::<[u8], _>((as_slice(&range.start), as_slice(&range.end)));
        let shown = |stored: &Vec<u8>| keyspace.shown(stored).to_vec();
        let copies = inside.map(|(key, stored)| (key.clone(), stored.as_ref().map(shown)));
        match direction {
            Direction::Forward => copies.collect(),
            Direction::Backward => copies.rev().collect(),
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = (u32, &[u8], Hold)> {
        self.spaces.iter().flat_map(|(lock_id, space)| {
            space.values.keys().map(move |key| (*lock_id, key.as_slice(), Hold::Alone))
        })
    }

    /// Asks the engines whether they will take the writes, and waits where they want to slow writers
    /// down.
    pub(super) fn admit(&self) -> Result<()> {
        for space in self.spaces.values() {
            let ops: Vec<Op<'_>> = space.ops().collect();
            space.keyspace.slot.generation()?.engine.admit(&ops)?;
        }
        Ok(())
    }

    /// The engines that take the writes now, one for each keyspace, in [`Writes::steps`]'s order.
    pub(super) fn generations(&self) -> Result<Vec<Arc<Generation>>> {
        self.spaces.values().map(|space| space.keyspace.slot.generation()).collect()
    }

    pub(super) fn steps<'a>(
        &'a self,
        generations: &'a [Arc<Generation>],
    ) -> Vec<(&'a Generation, Op<'a>)> {
        let spaces = self.spaces.values().zip(generations);
        spaces.flat_map(|(space, one)| space.ops().map(move |op| (&**one, op))).collect()
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl SpaceWrites {
    fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        let ranges = self.deleted.0.iter();
        let ranges = ranges.map(|(start, end)| Op::DeleteRange { start, end: end.as_deref() });
        ranges.chain(self.values.iter().map(|(key, value)| match value {
            Some(value) => Op::Put { key, value },
            None => Op::Delete { key },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a set of bytes: each is a key, and so are a begin and an end.
    #[test]
    fn ranges_that_meet_become_one() {
        let mut state = 3_u64;
        for _ in 0..500 {
            let (mut ranges, mut gone) = (DeletedRanges::default(), [false; 64]);
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let start = (state >> 40) as usize % 60;
                let end = start + 1 + (state >> 50) as usize % 12;
                let is_bound = end < gone.len();
                ranges.add(vec![start as u8], is_bound.then(|| vec![end as u8]));
                gone[start..end.min(64)].fill(true);
                for (key, is_gone) in gone.iter().enumerate() {
                    assert_eq!(ranges.has(&[key as u8]), *is_gone, "{key} of {ranges:?}");
                }
                let runs = gone.chunk_by(|one, other| one == other).filter(|run| run[0]).count();
                assert_eq!(ranges.0.len(), runs, "{ranges:?}");
            }
        }
    }
}
