//! How much memory the rest of the journal would bring, so that a refusal names what would do.
//!
//! The rest is read and summed up, not applied: what each key of a keyspace in memory takes at the end,
//! less what it takes now. A key that is written again counts once, as far as there is room to remember
//! keys; beyond that the answer may be too large. So may it be for range deletes, which are passed over.

use std::collections::HashMap;
use std::ops::ControlFlow;

use codec::SeqNo;
use device::Device;
use engine::Op;

use crate::error::{Error, Result};
use crate::open::JOURNAL_DIR;
use crate::record;

/// What a remembered key takes, at most.
const REMEMBERED_BYTES: u64 = 64;

fn keys_within(bytes: u64) -> usize {
    usize::try_from(bytes / REMEMBERED_BYTES).unwrap_or(usize::MAX)
}

fn hash(keyspace: u32, key: &[u8]) -> u64 {
    codec::hash64(u64::from(keyspace), key)
}

/// Of which keyspaces records count, and what a key takes that is there already.
pub(crate) trait Present {
    /// Whether write `seqno` goes to a keyspace in memory that has not got it yet.
    fn wants(&self, keyspace: u32, seqno: SeqNo) -> bool;
    /// What a key takes now; zero if it is not there.
    fn bytes(&self, keyspace: u32, key: &[u8]) -> u64;
}

/// The most that the keyspaces grow by while the journal is replayed from `from` on, using an eighth of
/// `limit` at most to find out. Reads the journal to its end, or to where it is damaged.
pub(crate) fn growth(device: &dyn Device, from: SeqNo, limit: u64, present: &dyn Present) -> u64 {
    let keys_max = keys_within(limit / 8);
    let mut sum = Sum { present, keys_max, keys: HashMap::new(), bytes: 0, most: 0 };
    let read = journal::read(device, JOURNAL_DIR, from, &mut |seqno, payload| {
        for (keyspace, op) in record::decode(payload).map_err(Error::from)? {
            if present.wants(keyspace, seqno) {
                sum.add(keyspace, &op);
            }
        }
        Ok(())
    });
    // What is damaged is told when it is replayed; the sum is about what was read.
    drop(read);
    sum.most.unsigned_abs()
}

struct Sum<'a> {
    present: &'a dyn Present,
    keys_max: usize,
    /// What they take after the writes so far, by their hashes.
    keys: HashMap<u64, u64>,
    bytes: i64,
    most: i64,
}

impl Sum<'_> {
    fn add(&mut self, keyspace: u32, op: &Op<'_>) {
        let (key, bytes) = match op {
            Op::Put { key, value } => (*key, memory::pair_footprint(key.len(), value.len())),
            Op::Delete { key } => (*key, 0),
            Op::DeleteRange { .. } => return,
        };
        let hash = hash(keyspace, key);
        let known = self.keys.get(&hash).copied();
        let before = known.unwrap_or_else(|| self.present.bytes(keyspace, key));
        if known.is_some() || self.keys.len() < self.keys_max {
            self.keys.insert(hash, bytes);
        }
        self.bytes = self.bytes.saturating_add_unsigned(bytes).saturating_sub_unsigned(before);
        self.most = self.most.max(self.bytes);
    }
}

/// The snapshots of keyspaces that are not open yet: up to where they have everything, and what their keys
/// take, as far as there is room for these.
pub(crate) struct Snapshots {
    persisted: HashMap<u32, SeqNo>,
    keys: HashMap<u64, u64>,
    keys_max: usize,
}

impl Snapshots {
    /// None yet; they may take `limit` bytes of memory, as long as nothing else does.
    pub(crate) fn new(limit: u64) -> Self {
        let (persisted, keys) = Default::default();
        Self { persisted, keys, keys_max: keys_within(limit) }
    }

    /// Reads the snapshot of a keyspace, damaged or not.
    pub(crate) fn add(&mut self, keyspace: u32, files: &dyn Device) -> Result<()> {
        self.persisted.insert(keyspace, memory::footprint(files)?.persisted);
        memory::salvage(files, &mut |op| {
            if let Op::Put { key, value } = op {
                let bytes = memory::pair_footprint(key.len(), value.len());
                self.keys.insert(hash(keyspace, key), bytes);
            }
            match self.keys.len() < self.keys_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(())
    }

    /// Every write up to here is in all of them.
    pub(crate) fn persisted_by_all(&self) -> SeqNo {
        self.persisted.values().min().copied().unwrap_or(SeqNo::ZERO)
    }
}

impl Present for Snapshots {
    fn wants(&self, keyspace: u32, seqno: SeqNo) -> bool {
        self.persisted.get(&keyspace).is_some_and(|persisted| seqno > *persisted)
    }

    fn bytes(&self, keyspace: u32, key: &[u8]) -> u64 {
        self.keys.get(&hash(keyspace, key)).copied().unwrap_or(0)
    }
}
