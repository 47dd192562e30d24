//! The oracle: every version of every key, in a map.

use std::collections::BTreeMap;

use engine::{Direction, KeyRange};

use crate::operation::Step;

/// A key's values by the number of the write that left them, ascending.
type Versions = Vec<(u64, Option<Vec<u8>>)>;

/// The content that a store must have, at every number up to the last write.
#[derive(Clone, Debug, Default)]
pub struct Model {
    versions: BTreeMap<Vec<u8>, Versions>,
    last: u64,
}

/// A pair that a scan must give.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Model {
    /// Applies write `seqno`, the one after the last.
    ///
    /// # Panics
    /// If it is not: the suite's own mistake.
    pub fn apply(&mut self, steps: &[Step], seqno: u64) {
        assert!(seqno > self.last, "the model takes writes in order");
        self.last = seqno;
        for step in steps {
            let op = step.op();
            let add = |versions: &mut Versions| {
                versions.retain(|(number, _)| *number < seqno);
                versions.push((seqno, op.value().map(<[u8]>::to_vec)));
            };
            if op.is_range() {
                let all = self.versions.iter_mut().filter(|(key, _)| op.decides(key));
                all.for_each(|(_, versions)| add(versions));
            } else {
                add(self.versions.entry(op.key().to_vec()).or_default());
            }
        }
    }

    /// Returns the last write's number; zero before the first.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Counts a number as used by a write that did nothing.
    pub fn skip(&mut self, seqno: u64) {
        self.last = self.last.max(seqno);
    }

    /// Forgets every write above `seqno`, as a crash does.
    pub fn truncate(&mut self, seqno: u64) {
        self.last = self.last.min(seqno);
        for versions in self.versions.values_mut() {
            versions.retain(|(number, _)| *number <= seqno);
        }
        self.versions.retain(|_, versions| !versions.is_empty());
    }

    /// Drops versions that no read at `horizon` or above can see, to keep long runs small.
    pub fn collect(&mut self, horizon: u64) {
        for versions in self.versions.values_mut() {
            let newest = versions.iter().rposition(|(number, _)| *number <= horizon);
            versions.drain(..newest.unwrap_or(0));
        }
    }

    /// Returns the key's value right after write `seqno`.
    pub fn get_at(&self, key: &[u8], seqno: u64) -> Option<&[u8]> {
        let versions = self.versions.get(key)?;
        value_at(versions, seqno)
    }

    /// Returns the key's value now.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.get_at(key, self.last)
    }

    /// Returns the pairs of `range` right after write `seqno`, in the order of a scan.
    pub fn scan_at(&self, range: &KeyRange, direction: Direction, seqno: u64) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = self
            .versions
            .iter()
            .filter(|(key, _)| range.contains(key))
            .filter_map(|(key, versions)| {
                value_at(versions, seqno).map(|value| (key.clone(), value.to_vec()))
            })
            .collect();
        if direction == Direction::Backward {
            pairs.reverse();
        }
        pairs
    }

    /// Every key that was ever written.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.versions.keys().map(Vec::as_slice)
    }
}

fn value_at(versions: &Versions, seqno: u64) -> Option<&[u8]> {
    let (_, value) = versions.iter().rev().find(|(number, _)| *number <= seqno)?;
    value.as_deref()
}
