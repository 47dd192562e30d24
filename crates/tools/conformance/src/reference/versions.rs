//! All versions of all keys, in order.

use std::collections::BTreeMap;
use std::ops::Bound;

use engine::{Direction, KeyRange, Op};

/// Counted for each version on top of its key and value.
const VERSION_BYTES: u64 = 64;

#[derive(Debug)]
struct Version {
    seqno: u64,
    value: Option<Vec<u8>>,
}

/// A pair of a scan.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// The map.
#[derive(Debug, Default)]
pub(super) struct Versions {
    keys: BTreeMap<Vec<u8>, Vec<Version>>,
    /// The highest number applied.
    pub(super) top: u64,
}

/// Returns the bytes of memory of the version of `op`.
pub(super) fn version_bytes(op: &Op<'_>) -> u64 {
    if op.is_range() { 0 } else { version_cost(op.key(), op.value()) }
}

fn version_cost(key: &[u8], value: Option<&[u8]>) -> u64 {
    (key.len() + value.map_or(0, <[u8]>::len)) as u64 + VERSION_BYTES
}

impl Versions {
    /// Adds the versions of write `seqno`, unless the key has it or a newer one (replay), and drops
    /// those below `horizon` that no view can see. Returns the bytes added and dropped.
    pub(super) fn apply(
        &mut self,
        ops: &[Op<'_>],
        seqno: u64,
        horizon: u64,
        persisted: u64,
    ) -> (u64, u64) {
        let (mut added, mut dropped) = (0, 0);
        for (index, op) in ops.iter().enumerate() {
            let keys: Vec<Vec<u8>> = match op.is_range() {
                true => self.keys.keys().filter(|key| op.decides(key)).cloned().collect(),
                false => vec![op.key().to_vec()],
            };
            for key in keys {
                if ops[index + 1..].iter().any(|later| later.decides(&key)) {
                    continue;
                }
                let versions = self.keys.entry(key.clone()).or_default();
                if versions.last().is_some_and(|newest| newest.seqno >= seqno) {
                    continue;
                }
                versions.push(Version { seqno, value: op.value().map(<[u8]>::to_vec) });
                added += version_cost(&key, op.value());
                dropped += collect(&key, versions, horizon, persisted);
                if versions.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
        self.top = self.top.max(seqno);
        (added, dropped)
    }

    /// Drops everything that no view can see; returns the bytes.
    pub(super) fn collect(&mut self, horizon: u64, persisted: u64) -> u64 {
        let mut dropped = 0;
        self.keys.retain(|key, versions| {
            dropped += collect(key, versions, horizon, persisted);
            !versions.is_empty()
        });
        dropped
    }

    /// Returns the number of the key's newest version, which may be a tombstone; zero if it has
    /// none.
    pub(super) fn newest(&self, key: &[u8]) -> u64 {
        let newest = self.keys.get(key).and_then(|versions| versions.last());
        newest.map_or(0, |version| version.seqno)
    }

    pub(super) fn get(&self, key: &[u8], upto: u64) -> Option<&[u8]> {
        value_at(self.keys.get(key)?, upto)
    }

    /// Returns the next live pair of `range` at `upto`.
    pub(super) fn next(&self, range: &KeyRange, direction: Direction, upto: u64) -> Option<Pair> {
        if range.is_empty() {
            return None;
        }
        let bounds = (as_slice(&range.start), as_slice(&range.end));
        let mut pairs = self.keys.range::<[u8], _>(bounds);
        let live = |(key, versions): (&Vec<u8>, &Vec<Version>)| {
            value_at(versions, upto).map(|value| (key.clone(), value.to_vec()))
        };
        match direction {
            Direction::Forward => pairs.find_map(live),
            Direction::Backward => pairs.rev().find_map(live),
        }
    }

    /// Returns all live pairs at `upto`.
    pub(super) fn live(&self, upto: u64) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.keys
            .iter()
            .filter_map(move |(key, versions)| Some((key.as_slice(), value_at(versions, upto)?)))
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn value_at(versions: &[Version], upto: u64) -> Option<&[u8]> {
    versions.iter().rev().find(|version| version.seqno <= upto)?.value.as_deref()
}

fn collect(key: &[u8], versions: &mut Vec<Version>, horizon: u64, persisted: u64) -> u64 {
    let mut unseen = versions.iter().rposition(|version| version.seqno <= horizon).unwrap_or(0);
    let is_over =
        |version: &Version| version.value.is_none() && version.seqno <= horizon.min(persisted);
    if versions.get(unseen).is_some_and(is_over) {
        unseen += 1;
    }
    versions.drain(..unseen).map(|old| version_cost(key, old.value.as_deref())).sum()
}
