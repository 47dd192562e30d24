//! The reads of a transaction from others' writes, and the check that they are still current.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use codec::SeqNo;
use engine::{Direction, KeyRange, RecentWrites, WriteConflict};

use super::entry_bytes;
use crate::error::{Error, Result};
use crate::key_locks::Hold;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;

/// The keys and ranges that were read, by the entries' lock ids.
#[derive(Default)]
pub(super) struct Reads {
    spaces: BTreeMap<u32, SpaceReads>,
    bytes: u64,
}

struct SpaceReads {
    keyspace: Keyspace,
    instance: Arc<KeyspaceInstance>,
    keys: HashSet<Vec<u8>>,
    /// `None` for a scan from which no pair was requested.
    ranges: Vec<Option<KeyRange>>,
}

/// The place of a range among the ranges that were read.
#[derive(Clone, Copy)]
pub(super) struct RangePlace {
    lock_id: u32,
    index: usize,
}

impl Reads {
    /// Returns the bytes of memory that they take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn of(&mut self, keyspace: &Keyspace, instance: &Arc<KeyspaceInstance>) -> &mut SpaceReads {
        self.spaces.entry(keyspace.entry.lock_id).or_insert_with(|| SpaceReads {
            keyspace: keyspace.clone(),
            instance: Arc::clone(instance),
            keys: HashSet::new(),
            ranges: Vec::new(),
        })
    }

    pub(super) fn add_key(
        &mut self,
        keyspace: &Keyspace,
        instance: &Arc<KeyspaceInstance>,
        key: &[u8],
    ) {
        let keys = &mut self.of(keyspace, instance).keys;
        if !keys.contains(key) {
            keys.insert(key.to_vec());
            self.bytes += entry_bytes(key.len());
        }
    }

    /// Adds a range that is about to be read; all of it counts until [`Reads::end_range`].
    pub(super) fn add_range(
        &mut self,
        keyspace: &Keyspace,
        instance: &Arc<KeyspaceInstance>,
        range: KeyRange,
    ) -> RangePlace {
        self.bytes += entry_bytes(bound_len(&range.start) + bound_len(&range.end));
        let ranges = &mut self.of(keyspace, instance).ranges;
        ranges.push(Some(range));
        RangePlace { lock_id: keyspace.entry.lock_id, index: ranges.len() - 1 }
    }

    /// Shortens the range at `place` to the part up to the key `last`, itself included. If there is
    /// no `last`, nothing was read.
    pub(super) fn end_range(
        &mut self,
        place: RangePlace,
        direction: Direction,
        last: Option<Vec<u8>>,
    ) {
        let space = self.spaces.get_mut(&place.lock_id);
        let Some(range) = space.and_then(|space| space.ranges.get_mut(place.index)) else { return };
        let Some(last) = last else {
            *range = None;
            return;
        };
        if let Some(range) = range {
            match direction {
                Direction::Forward => range.end = Bound::Included(last),
                Direction::Backward => range.start = Bound::Included(last),
            }
        }
    }

    pub(super) fn has_ranges(&self) -> bool {
        self.spaces.values().any(|space| space.ranges.iter().flatten().next().is_some())
    }

    /// Returns the keys, and how each is locked: if writers share a key's lock, only
    /// [`Hold::Alone`] keeps them out.
    pub(super) fn keys(&self) -> impl Iterator<Item = (u32, &[u8], Hold)> {
        self.spaces.iter().flat_map(|(lock_id, space)| {
            let hold = match space.keyspace.entry.orders_writes {
                true => Hold::Alone,
                false => Hold::Shared,
            };
            space.keys.iter().map(move |key| (*lock_id, key.as_slice(), hold))
        })
    }

    /// Checks that all that was read has not changed since `moment`.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::TransactionTooOld`]; [`Error::NoKeyspace`] if one was dropped.
    pub(super) fn check(&self, recent: &RecentWrites, moment: SeqNo) -> Result<()> {
        for space in self.spaces.values() {
            let overtaken = |overtaken| Error::overtaken(&space.keyspace, overtaken);
            if !Arc::ptr_eq(&*space.keyspace.entry.current()?, &space.instance) {
                // It was cleared, and so were the pairs that were read.
                return Err(overtaken(WriteConflict::Written { key: space.some_key() }));
            }
            let id = space.instance.id;
            for key in &space.keys {
                recent.check_key(id, key, moment).map_err(overtaken)?;
            }
            for range in space.ranges.iter().flatten() {
                recent.check_range(id, range, moment).map_err(overtaken)?;
            }
        }
        Ok(())
    }
}

fn bound_len(bound: &Bound<Vec<u8>>) -> usize {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.len(),
        Bound::Unbounded => 0,
    }
}

impl SpaceReads {
    /// Returns a key that was read, or the first of a range: to name one.
    fn some_key(&self) -> Vec<u8> {
        let first = |range: &KeyRange| match &range.start {
            Bound::Included(key) | Bound::Excluded(key) => key.clone(),
            Bound::Unbounded => Vec::new(),
        };
        let range = self.ranges.iter().flatten().next().map(first);
        self.keys.iter().next().cloned().or(range).unwrap_or_default()
    }
}
