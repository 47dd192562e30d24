//! Records that a walk has collected of a chain or of some chunks, in bounded, counted memory.
//!
//! Keys are kept, since they tell pairs apart and put them in order. Values are kept as long as
//! there is room for them.

use crate::store::Shared;

use memory_budget::Account;
/// Bytes that keys and values of a walk may take if a share of the budget would be less.
const ROOM_MIN: u64 = 64 << 10;
/// Bytes that a pair takes in addition to its key and value.
const PAIR_BYTES: usize = 72;

/// Chains of the hot index in a stretch of the walk, at least and at most: enough that their reads
/// overlap.
pub(super) const CHAINS_MIN: usize = 64;
const CHAINS_MAX: usize = 1024;

/// The newest record of a key that was met.
pub(super) enum Version {
    Tombstone,
    Value(Vec<u8>),
    /// There was no room for the value.
    LeftOut,
}

/// The newest record of each key, tombstones included.
pub(super) struct Versions {
    pairs: Vec<(Vec<u8>, Version)>,
    bytes: u64,
    room: u64,
    /// Whether a value was left out.
    has_left_out: bool,
    charge: Account,
}

impl Version {
    fn bytes(&self) -> usize {
        match self {
            Self::Value(value) => value.len(),
            Self::Tombstone | Self::LeftOut => 0,
        }
    }
}

impl Shared {
    /// Room for the records that a walk collects.
    pub(super) fn no_versions(&self) -> Versions {
        let charge = Account::new(&self.host.memory);
        let room = self.compactions.work.flight.max(ROOM_MIN);
        Versions { pairs: Vec::new(), bytes: 0, room, has_left_out: false, charge }
    }
}

impl Versions {
    /// Keeps a value, or leaves it out. Its bytes count from now on.
    pub(super) fn keep(&mut self, value: &[u8]) -> Version {
        if self.bytes + value.len() as u64 > self.room {
            self.has_left_out = true;
            return Version::LeftOut;
        }
        self.count(value.len());
        Version::Value(value.to_vec())
    }

    /// Counts a key.
    pub(super) fn count_key(&mut self, key: &[u8]) {
        self.count(key.len() + PAIR_BYTES);
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.charge.set(self.bytes);
    }

    /// Adds a record of the chain whose pairs begin with number `first`, older than those of it
    /// before.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>, first: usize) {
        if self.is_known(key, first) {
            return;
        }
        self.count_key(key);
        let version = value.map_or(Version::Tombstone, |value| self.keep(value));
        self.pairs.push((key.to_vec(), version));
    }

    /// Adds one that was counted before, unless its key is known.
    pub(super) fn add_counted(&mut self, key: Vec<u8>, version: Version) {
        if self.is_known(&key, 0) {
            self.bytes -= (key.len() + PAIR_BYTES + version.bytes()) as u64;
            self.charge.set(self.bytes);
        } else {
            self.pairs.push((key, version));
        }
    }

    /// Whether a key is among those from number `first` on.
    fn is_known(&self, key: &[u8], first: usize) -> bool {
        self.pairs[first..].iter().any(|(known, _)| *known == key)
    }

    /// Returns the number of chains of the next stretch if this one had `chains`: fewer if values
    /// of this one had no room, more if half of the room was left.
    pub(super) fn next_chains(&self, chains: usize) -> usize {
        match () {
            () if self.has_no_room() => (chains / 2).max(1),
            () if self.has_room_for_twice() => (chains * 2).min(CHAINS_MAX),
            () => chains,
        }
    }

    /// Pairs, tombstones included.
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether a value was left out, or the keys alone take more than the room.
    pub(super) fn has_no_room(&self) -> bool {
        self.has_left_out || self.is_overfull()
    }

    /// Returns whether the room is enough for twice the bytes that were collected.
    pub(super) fn has_room_for_twice(&self) -> bool {
        !self.has_left_out && self.bytes < self.room / 2
    }

    /// Returns whether the collected records take more than there is room for, without values that
    /// were left out.
    pub(super) fn is_overfull(&self) -> bool {
        self.bytes > self.room
    }

    /// Forgets the pairs whose keys `keep` does not want.
    pub(super) fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        self.pairs.retain(|(key, _)| keep(key));
    }

    /// The pairs. They count until this is dropped.
    pub(super) fn take(&mut self) -> Vec<(Vec<u8>, Version)> {
        std::mem::take(&mut self.pairs)
    }

    /// Counts `bytes` in addition to the collected records.
    pub(super) fn charge_also(&self, bytes: usize) {
        self.charge.set(self.bytes + bytes as u64);
    }
}
