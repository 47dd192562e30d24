//! The pending writes of a transaction.
//!
//! For each keyspace these are the ranges that it deletes, and then the newest write of each key,
//! or the operands that are merged into the key's value when the transaction commits.
//!
//! A merge of a key that the transaction has written is made immediately. A merge of another key is
//! no read: it waits for the commit, which makes it from the value that is there then. If the
//! transaction reads the key, that is a read of others' value like any other, and shows the
//! operator's result.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use engine::{Change, Direction, KeyRange, Op, check_value};

use super::entry_bytes;
use crate::error::Result;
use crate::expiry::ClockReading;
use crate::key_locks::Hold;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;
use crate::old_values::OldValues;
use crate::rooms::{Rooms, USUAL_VALUE, in_groups};

/// A transaction's write of a key.
#[derive(Clone, Debug)]
pub(super) enum Own {
    /// The key's new value, in its stored or its shown form; `None` if the key is removed.
    Value(Option<Vec<u8>>),
    /// The operands that are merged, in this order, into the value that others have given it.
    Merges(Vec<Vec<u8>>),
}

/// Results of merges, for each keyspace: a key and its value from then on, or `None` if the key is
/// removed.
pub(super) type Made<'a> = Vec<Vec<(&'a [u8], Option<Vec<u8>>)>>;

/// A key, and the transaction's write of it.
pub(super) type OwnWrite = (Vec<u8>, Own);

/// The newest write of each key, by the entries' lock ids.
#[derive(Default)]
pub(super) struct Writes {
    spaces: BTreeMap<u32, SpaceWrites>,
    bytes: u64,
}

struct SpaceWrites {
    keyspace: Keyspace,
    deleted: DeletedRanges,
    /// Does not have the writes that were made before a range around them was deleted.
    values: BTreeMap<Vec<u8>, Own>,
}

/// Ranges that do not overlap, by their beginnings; each excludes its end, if it has one.
#[derive(Clone, Debug, Default)]
pub(super) struct DeletedRanges(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl DeletedRanges {
    /// Adds a range that is not empty, and joins it with the ranges that it meets.
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

    /// Returns the range that has `key`, or ends right before it.
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

/// Returns the end that is behind the other one; `None` is behind all.
fn later(one: Option<Vec<u8>>, other: Option<Vec<u8>>) -> Option<Vec<u8>> {
    Some(one?.max(other?))
}

impl Writes {
    /// Returns the bytes of memory that they take. Ranges that were joined count as if they had not
    /// been.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Replaces the write of a key.
    fn replace(&mut self, keyspace: &Keyspace, key: &[u8], own: Own) {
        self.bytes += own.bytes(key);
        if let Some(old) = self.of(keyspace).values.insert(key.to_vec(), own) {
            self.bytes -= old.bytes(key);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Returns whether ranges are deleted.
    pub(super) fn has_ranges(&self) -> bool {
        self.spaces.values().any(|space| !space.deleted.0.is_empty())
    }

    fn of(&mut self, keyspace: &Keyspace) -> &mut SpaceWrites {
        self.spaces.entry(keyspace.entry.lock_id).or_insert_with(|| SpaceWrites {
            keyspace: keyspace.clone(),
            deleted: DeletedRanges::default(),
            values: BTreeMap::new(),
        })
    }

    pub(super) fn set(&mut self, keyspace: &Keyspace, key: &[u8], value: Option<&[u8]>) {
        self.replace(keyspace, key, Own::Value(value.map(<[u8]>::to_vec)));
    }

    /// Merges `operand` into the transaction's own value of the key, with the clock at `moment`, or
    /// leaves the merge to the commit.
    ///
    /// # Errors
    /// As [`Keyspace::merge`]; then nothing has changed.
    pub(super) fn merge(
        &mut self,
        keyspace: &Keyspace,
        moment: ClockReading,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        let merging = keyspace.merging()?;
        let space = self.of(keyspace);
        let stored = match space.values.get_mut(key) {
            Some(Own::Merges(operands)) => {
                operands.push(operand.to_vec());
                self.bytes += entry_bytes(operand.len());
                return Ok(());
            }
            Some(Own::Value(stored)) => stored.as_deref(),
            None if space.deleted.has(key) => None,
            None => {
                self.replace(keyspace, key, Own::Merges(vec![operand.to_vec()]));
                return Ok(());
            }
        };
        let made = match merging.of_stored(moment, key, stored, operand)? {
            Change::Keep => return Ok(()),
            Change::Delete => None,
            Change::Put(stored) => {
                check_value(&stored)?;
                Some(stored)
            }
        };
        self.replace(keyspace, key, Own::Value(made));
        Ok(())
    }

    /// Returns the results of the merges that wait for the commit, made from the keys' present
    /// values. All these keys are locked; `instances` are those of [`Writes::instances`].
    ///
    /// # Errors
    /// As [`Keyspace::merge`]; the engines', of reads.
    pub(super) fn resolve(
        &self,
        instances: &[Arc<KeyspaceInstance>],
        moment: ClockReading,
        old: &mut OldValues,
    ) -> Result<Made<'_>> {
        let mut all = Vec::new();
        for (space, instance) in self.spaces.values().zip(instances) {
            let mut made = Vec::new();
            for (key, own) in &space.values {
                let Own::Merges(operands) = own else { continue };
                let lock_id = space.keyspace.entry.lock_id;
                let mut stored = Vec::new();
                let Some(is_there) = old.get(instance, (lock_id, key), &mut stored)? else {
                    // All missing values are read together.
                    continue;
                };
                let value = is_there.then_some(stored);
                if let Some(now) = merged(&space.keyspace, moment, key, value, operands)? {
                    made.push((key.as_slice(), now));
                }
            }
            all.push(made);
        }
        Ok(all)
    }

    /// Counts the merges, and the bytes that they made.
    pub(super) fn note_made(&self, instances: &[Arc<KeyspaceInstance>], made: &Made<'_>) {
        for ((space, instance), made) in self.spaces.values().zip(instances).zip(made) {
            for (key, own) in &space.values {
                let Own::Merges(operands) = own else { continue };
                operands.iter().for_each(|operand| instance.updates.note_merge(key, operand));
            }
            for (key, now) in made {
                now.iter().for_each(|value| instance.updates.note_put(key, value.len()));
            }
        }
    }

    /// Returns whether anything waits for the commit to be merged.
    pub(super) fn has_merges(&self) -> bool {
        let mut all = self.spaces.values().flat_map(|space| space.values.values());
        all.any(|own| matches!(own, Own::Merges(_)))
    }

    /// Deletes the keys from `start` on, before `end` if there is one.
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
        let removed = over.iter().filter_map(|key| Some(space.values.remove(key)?.bytes(key)));
        let removed: u64 = removed.sum();
        let added = entry_bytes(start.len() + end.as_ref().map_or(0, Vec::len));
        space.deleted.add(start, end);
        self.bytes = self.bytes + added - removed;
    }

    /// Returns the transaction's write of the key, if there is one, in its stored form.
    pub(super) fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Option<&Own> {
        const GONE: &Own = &Own::Value(None);
        let space = self.spaces.get(&keyspace.entry.lock_id)?;
        space.values.get(key).or_else(|| space.deleted.has(key).then_some(GONE))
    }

    /// Returns a copy of the ranges of the keyspace that are deleted.
    pub(super) fn deleted(&self, keyspace: &Keyspace) -> DeletedRanges {
        let space = self.spaces.get(&keyspace.entry.lock_id);
        space.map(|space| space.deleted.clone()).unwrap_or_default()
    }

    /// Returns copies of the writes to `range`, as `keyspace` shows them, in the order of
    /// `direction`.
    pub(super) fn in_range(
        &self,
        keyspace: &Keyspace,
        range: &KeyRange,
        direction: Direction,
    ) -> Vec<OwnWrite> {
        let Some(space) = self.spaces.get(&keyspace.entry.lock_id) else { return Vec::new() };
        if range.is_empty() {
            return Vec::new();
        }
        let inside = space.values.range::<[u8], _>((as_slice(&range.start), as_slice(&range.end)));
        let copies = inside.map(|(key, own)| (key.clone(), own.shown(keyspace)));
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

    /// Reserves room for the writes. Waits for it. The results of merges are not known yet: each
    /// gets room for a value of a usual length. If such values are refused, only the other writes
    /// have room: the caller gets the error once the results are known.
    pub(super) fn reserve<'g>(&self, instances: &'g [Arc<KeyspaceInstance>]) -> Result<Rooms<'g>> {
        let steps = |with_merges: bool| -> Vec<(&'g KeyspaceInstance, Op<'_>)> {
            let spaces = self.spaces.values().zip(instances);
            let steps = spaces.flat_map(|(space, instance)| {
                let merges = space.values.iter().filter_map(move |(key, own)| match own {
                    Own::Merges(_) if with_merges => Some(op_of(key, Some(&USUAL_VALUE))),
                    Own::Merges(_) | Own::Value(_) => None,
                });
                space.ops().chain(merges).map(move |op| (&**instance, op))
            });
            steps.collect()
        };
        match in_groups(steps(true), Rooms::reserve) {
            Err(_) if self.has_merges() => in_groups(steps(false), Rooms::reserve),
            reserved => reserved,
        }
    }

    /// Returns whether these engines still fill the keyspaces, whose keys are locked.
    pub(super) fn are_filled_by(&self, instances: &[Arc<KeyspaceInstance>]) -> Result<bool> {
        for (space, instance) in self.spaces.values().zip(instances) {
            if !space.keyspace.entry.is_filled_by(instance)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the engines that take the writes now, one for each keyspace, in [`Writes::steps`]'s
    /// order.
    pub(super) fn instances(&self) -> Result<Vec<Arc<KeyspaceInstance>>> {
        self.spaces.values().map(|space| space.keyspace.entry.instance()).collect()
    }

    /// Returns all writes, each step with its engine; `made` is the result of [`Writes::resolve`].
    pub(super) fn steps<'a>(
        &'a self,
        instances: &'a [Arc<KeyspaceInstance>],
        made: &'a Made<'_>,
    ) -> Vec<(&'a KeyspaceInstance, Op<'a>)> {
        let spaces = self.spaces.values().zip(instances).zip(made);
        let steps = spaces.flat_map(|((space, one), made)| {
            let made = made.iter().map(|(key, now)| op_of(key, now.as_deref()));
            space.ops().chain(made).map(move |op| (&**one, op))
        });
        steps.collect()
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl SpaceWrites {
    fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        self.deleted.ops().chain(ops(&self.values))
    }
}

impl DeletedRanges {
    fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        self.0.iter().map(|(start, end)| Op::DeleteRange { start, end: end.as_deref() })
    }
}

/// Returns the writes that are already known.
fn ops(values: &BTreeMap<Vec<u8>, Own>) -> impl Iterator<Item = Op<'_>> {
    values.iter().filter_map(|(key, own)| match own {
        Own::Value(value) => Some(op_of(key, value.as_deref())),
        Own::Merges(_) => None,
    })
}

fn op_of<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> Op<'a> {
    match value {
        Some(value) => Op::Put { key, value },
        None => Op::Delete { key },
    }
}

impl Own {
    /// Returns the bytes of memory that it takes, with its key.
    fn bytes(&self, key: &[u8]) -> u64 {
        entry_bytes(key.len())
            + match self {
                Self::Value(stored) => stored.as_ref().map_or(0, Vec::len) as u64,
                Self::Merges(all) => all.iter().map(|operand| entry_bytes(operand.len())).sum(),
            }
    }

    /// The same with its value as `keyspace` shows it.
    fn shown(&self, keyspace: &Keyspace) -> Self {
        match self {
            Self::Value(Some(stored)) => Self::Value(Some(keyspace.shown(stored).to_vec())),
            other => other.clone(),
        }
    }

    /// Returns the value that the transaction shows for a key with this write, by a handle that
    /// shows `others` for the value that others have given it.
    ///
    /// # Errors
    /// As [`Keyspace::merge`].
    pub(super) fn over(
        self,
        keyspace: &Keyspace,
        moment: ClockReading,
        key: &[u8],
        others: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let operands = match self {
            Self::Value(shown) => return Ok(shown),
            Self::Merges(operands) => operands,
        };
        let merging = keyspace.merging()?;
        let mut shown = others;
        for operand in operands {
            let change = match keyspace.hides_expiry() {
                true => merging.of_value(key, shown.as_deref(), &operand)?,
                false => merging.of_stored(moment, key, shown.as_deref(), &operand)?,
            };
            match change {
                Change::Keep => {}
                Change::Delete => shown = None,
                Change::Put(value) => shown = Some(value),
            }
        }
        Ok(shown)
    }
}

/// Returns the value to store for a key instead of its present one; `None` if it stays unchanged.
fn merged(
    keyspace: &Keyspace,
    moment: ClockReading,
    key: &[u8],
    old: Option<Vec<u8>>,
    operands: &[Vec<u8>],
) -> Result<Option<Option<Vec<u8>>>> {
    let merging = keyspace.merging()?;
    let is_there = old.is_some();
    let (mut now, mut has_changed) = (old, false);
    for operand in operands {
        match merging.of_stored(moment, key, now.as_deref(), operand)? {
            Change::Keep => {}
            Change::Delete => (now, has_changed) = (None, true),
            Change::Put(stored) => {
                check_value(&stored)?;
                (now, has_changed) = (Some(stored), true);
            }
        }
    }
    Ok((has_changed && (is_there || now.is_some())).then_some(now))
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
