//! Random operations from a seed.

use std::collections::BTreeMap;
use std::ops::Bound;

use engine::{Direction, KEY_BYTES_MAX, KeyRange};

use super::{Operation, Step, Tweak};
use crate::draw::Draw;

/// Slots for views and cursors.
const SLOTS: usize = 3;

/// The kind of run that is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Whether the engine keeps order.
    pub ordered: bool,
    /// Whether it removes ranges of keys.
    pub deletes_ranges: bool,
    /// Whether it ingests pairs.
    pub ingests: bool,
    /// Keys in addition to the few that operations share.
    pub keys_more: usize,
    /// The longest key, drawn occasionally.
    pub key_bytes_max: usize,
    /// Values up to this many bytes, most of them much shorter.
    pub value_bytes_max: usize,
    /// Whether a journal can be lost, and the engine closed and opened.
    pub reopens: bool,
}

impl Profile {
    /// Everything, for an engine of this kind.
    pub fn all(ordered: bool) -> Self {
        Self {
            ordered,
            deletes_ranges: ordered,
            ingests: false,
            keys_more: 0,
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: 6000,
            reopens: true,
        }
    }
}

/// An endless run of random operations.
#[derive(Debug)]
pub struct Generator {
    draw: Draw,
    profile: Profile,
    keys: Vec<Vec<u8>>,
    serial: u64,
}

impl Generator {
    /// Returns the run of `seed`.
    pub fn new(seed: u64, profile: Profile) -> Self {
        let mut draw = Draw::new(seed, "operations");
        let mut keys = keys(&mut draw, profile.key_bytes_max);
        keys.extend((0..profile.keys_more).map(|index| format!("n{index:04}").into_bytes()));
        Self { draw, profile, keys, serial: 0 }
    }

    /// Every key that the run may write.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    fn key(&mut self) -> Vec<u8> {
        self.draw.pick(&self.keys).clone()
    }

    /// Returns a value unlike all others of this run, so that any mix-up shows.
    fn value(&mut self) -> Vec<u8> {
        self.serial += 1;
        let len = match self.draw.weighted(&[2, 12, 4, 1]) {
            0 => return Vec::new(),
            1 => self.draw.below(24),
            2 => self.draw.below(self.profile.value_bytes_max.min(400)),
            _ => self.draw.below(self.profile.value_bytes_max),
        };
        let mut value = format!("v{}", self.serial).into_bytes();
        value.resize(value.len().max(len), b'.');
        value
    }

    fn step(&mut self) -> Step {
        if self.profile.deletes_ranges && self.draw.once_in(30) {
            return self.delete_range();
        }
        let key = self.key();
        if self.draw.below(10) < 3 {
            Step::Delete { key }
        } else {
            Step::Put { key, value: self.value() }
        }
    }

    /// Mostly a few keys, so that runs keep some; occasionally all keys behind one.
    fn delete_range(&mut self) -> Step {
        let (start, end) = match self.draw.below(6) {
            0 => (self.key(), None),
            1 => {
                let key = self.key();
                let prefix = self.draw.below(key.len().min(8) + 1);
                return match KeyRange::prefix(&key[..prefix]).half_open() {
                    Some((start, end)) => Step::DeleteRange { start, end },
                    None => Step::Delete { key },
                };
            }
            _ => {
                let (one, other) = (self.key(), self.key());
                (one.clone().min(other.clone()), Some(one.max(other)))
            }
        };
        Step::DeleteRange { start, end }
    }

    /// Draws one write: mostly one step, often several, occasionally the same key twice.
    pub fn write(&mut self) -> Vec<Step> {
        let steps = *self.draw.pick(&[1, 1, 1, 2, 3, 5, 9]);
        let mut batch: Vec<Step> = (0..steps).map(|_| self.step()).collect();
        if steps > 1 && self.draw.once_in(3) {
            let key = batch[0].op().key().to_vec();
            let twin = match self.draw.once_in(3) {
                true => Step::Delete { key },
                false => Step::Put { key, value: self.value() },
            };
            batch.push(twin);
        }
        batch
    }

    /// Pairs of some of the keys, each once.
    fn ingest(&mut self) -> Operation {
        let count = 1 + self.draw.below(12);
        let pairs: BTreeMap<_, _> = (0..count).map(|_| (self.key(), self.value())).collect();
        Operation::Ingest { pairs: pairs.into_iter().collect() }
    }

    fn tweak(&mut self) -> Tweak {
        match self.draw.weighted(&[5, 3, 1, 1]) {
            0 => Tweak::Append(self.value()),
            1 => Tweak::Invert,
            2 => Tweak::Remove,
            _ => Tweak::Keep,
        }
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        let mut key = self.key();
        if self.draw.once_in(4) && key.len() < 40 {
            key.push(*self.draw.pick(&[0, b'5', 0xff]));
        }
        match self.draw.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    /// Returns a range: by bounds (sometimes the wrong way round), by prefix, or everything.
    fn range(&mut self) -> KeyRange {
        match self.draw.below(6) {
            0 => KeyRange::all(),
            1 => {
                let key = self.key();
                let end = self.draw.below(key.len().min(8) + 1);
                KeyRange::prefix(&key[..end])
            }
            _ => KeyRange { start: self.bound(), end: self.bound() },
        }
    }

    fn direction(&mut self) -> Direction {
        if self.draw.once_in(2) { Direction::Forward } else { Direction::Backward }
    }

    fn slot(&mut self) -> usize {
        self.draw.below(SLOTS)
    }

    fn read(&mut self) -> Operation {
        let slot = self.slot();
        if !self.profile.ordered {
            return match self.draw.below(3) {
                0 => Operation::MultiGet { keys: self.some_keys() },
                _ => Operation::Get { key: self.key() },
            };
        }
        match self.draw.weighted(&[8, 3, 4, 3, 1, 4, 4, 3, 5]) {
            0 => Operation::Get { key: self.key() },
            1 => Operation::MultiGet { keys: self.some_keys() },
            2 => Operation::Scan { range: self.range(), direction: self.direction() },
            3 => Operation::Pin { slot },
            4 => Operation::Unpin { slot },
            5 => Operation::ViewGet { slot, key: self.key() },
            6 => Operation::ViewScan { slot, range: self.range(), direction: self.direction() },
            7 => Operation::Cursor { slot, range: self.range(), direction: self.direction() },
            _ => Operation::Advance { slot, pairs: 1 + self.draw.below(5) },
        }
    }

    fn some_keys(&mut self) -> Vec<Vec<u8>> {
        let count = self.draw.below(8);
        (0..count).map(|_| self.key()).collect()
    }
}

impl Iterator for Generator {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.profile.ingests && self.draw.once_in(15) {
            return Some(self.ingest());
        }
        let upkeep = if self.profile.reopens { 8 } else { 2 };
        Some(match self.draw.weighted(&[45, 12, 50, upkeep]) {
            0 => Operation::Write(self.write()),
            1 => Operation::Rmw { key: self.key(), tweak: self.tweak() },
            2 => self.read(),
            _ if !self.profile.reopens => Operation::Flush,
            _ => match self.draw.weighted(&[4, 6, 1, 4, 4, 1]) {
                0 => Operation::Sync,
                1 => Operation::Flush,
                2 => Operation::Checkpoint,
                3 => Operation::Reopen,
                4 => Operation::LoseTail,
                _ => Operation::Refusals,
            },
        })
    }
}

/// Returns a run's keys: few, so that operations meet; always the empty one and neighbours in byte
/// order; sometimes very long ones.
fn keys(draw: &mut Draw, key_bytes_max: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [&b""[..], b"\0", b"\0\0", b"a", b"a\0", b"a\xff", b"ab", b"b"]
        .into_iter()
        .chain([&b"\xff"[..], b"\xff\xff"])
        .map(<[u8]>::to_vec)
        .collect();
    let more = *draw.pick(&[2, 6, 30]);
    keys.extend((0..more).map(|index| format!("k{index:02}").into_bytes()));
    if draw.once_in(2) {
        let stem = vec![b'm'; 200 + draw.below(300)];
        keys.push(stem.clone());
        keys.push([&stem[..], b"n"].concat());
    }
    if draw.once_in(10) {
        keys.push(vec![b'z'; key_bytes_max]);
    }
    keys
}
