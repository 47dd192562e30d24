//! What a transaction is going to write.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use engine::{Direction, KeyRange, Op};

use crate::error::Result;
use crate::key_locks::Hold;
use crate::keyspace::Keyspace;
use crate::slot::Generation;

/// A key, and its new value unless it is removed.
pub(super) type OwnWrite = (Vec<u8>, Option<Vec<u8>>);

/// The newest write of each key, by the slots' lock ids.
#[derive(Default)]
pub(super) struct Writes {
    spaces: BTreeMap<u32, SpaceWrites>,
}

struct SpaceWrites {
    keyspace: Keyspace,
    values: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    pub(super) fn set(&mut self, keyspace: &Keyspace, key: &[u8], value: Option<&[u8]>) {
        let space = self
            .spaces
            .entry(keyspace.slot.lock_id)
            .or_insert_with(|| SpaceWrites { keyspace: keyspace.clone(), values: BTreeMap::new() });
        space.values.insert(key.to_vec(), value.map(<[u8]>::to_vec));
    }

    /// What the transaction has made of the key, if it has.
    pub(super) fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Option<Option<&[u8]>> {
        let value = self.spaces.get(&keyspace.slot.lock_id)?.values.get(key)?;
        Some(value.as_deref())
    }

    /// Copies of the writes to `range`, in the order of `direction`.
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
        let copies = inside.map(|(key, value)| (key.clone(), value.clone()));
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
        self.values.iter().map(|(key, value)| match value {
            Some(value) => Op::Put { key, value },
            None => Op::Delete { key },
        })
    }
}
