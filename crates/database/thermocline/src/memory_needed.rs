//! The memory that the rest of the journal would need, so that a refusal names a sufficient number.
//!
//! The rest is read and summed up, not applied: the bytes that each key of a keyspace in memory
//! takes at the end, less the bytes that it takes now. A key that is written again counts once, as
//! far as there is room to remember keys; beyond that the result may be too large. It may also be
//! too large for range deletes, which are passed over.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use engine::{Driver, MemoryUse, Op, PairFootprint};

use crate::error::{Error, Result};
use crate::open::JOURNAL_DIR;
use crate::record;

/// Bytes that a remembered key takes, at most.
const REMEMBERED_BYTES: u64 = 64;

fn keys_within(bytes: u64) -> usize {
    usize::try_from(bytes / REMEMBERED_BYTES).unwrap_or(usize::MAX)
}

fn hash(keyspace: u32, key: &[u8]) -> u64 {
    codec::hash64(u64::from(keyspace), key)
}

/// Selects the keyspaces whose records count, and gives the bytes of keys that are already present.
pub(crate) trait Present {
    /// Returns the footprint of pairs, if write `seqno` goes to a keyspace in memory that does not
    /// have it yet.
    fn wants(&self, keyspace: u32, seqno: SeqNo) -> Option<PairFootprint>;
    /// Returns the bytes that a key takes now; zero if it is not there.
    fn bytes(&self, keyspace: u32, key: &[u8]) -> u64;
}

/// Returns the most bytes by which the keyspaces grow while the journal is replayed from `from` on.
/// Uses an eighth of `limit` at most to find out. Reads the journal to its end, or to its first
/// damage.
pub(crate) fn growth(device: &dyn Device, from: SeqNo, limit: u64, present: &dyn Present) -> u64 {
    let keys_max = keys_within(limit / 8);
    let mut sum = Sum { present, keys_max, keys: HashMap::new(), bytes: 0, most: 0 };
    let read = journal::read(device, JOURNAL_DIR, from, &mut |seqno, payload| {
        for (keyspace, op) in record::decode(payload).map_err(Error::from)? {
            if let Some(footprint) = present.wants(keyspace, seqno) {
                sum.add(keyspace, &op, footprint);
            }
        }
        Ok(())
    });
    // The replay reports the damage; the sum is about the records that were read.
    drop(read);
    sum.most.unsigned_abs()
}

struct Sum<'a> {
    present: &'a dyn Present,
    keys_max: usize,
    /// Bytes that the keys take after the writes so far, by their hashes.
    keys: HashMap<u64, u64>,
    bytes: i64,
    most: i64,
}

impl Sum<'_> {
    fn add(&mut self, keyspace: u32, op: &Op<'_>, footprint: PairFootprint) {
        let (key, bytes) = match op {
            Op::Put { key, value } => (*key, footprint(key.len(), value.len())),
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

/// The snapshots of keyspaces that are not open yet.
pub(crate) struct Snapshots {
    /// The number up to which each has everything, and the footprint of its pairs.
    persisted: HashMap<u32, (SeqNo, PairFootprint)>,
    /// The bytes that keys take, by the keys' hashes, as far as there is room to remember them.
    keys: HashMap<u64, u64>,
    keys_max: usize,
}

impl Snapshots {
    /// Makes an empty set, which may take `limit` bytes of memory, as long as nothing else does.
    pub(crate) fn new(limit: u64) -> Self {
        let (persisted, keys) = Default::default();
        Self { persisted, keys, keys_max: keys_within(limit) }
    }

    /// Reads the snapshot of a keyspace whose data are in memory, damaged or not. Does nothing with
    /// another keyspace.
    pub(crate) fn add(
        &mut self,
        keyspace: u32,
        driver: &Driver,
        files: &Arc<dyn Device>,
    ) -> Result<()> {
        let MemoryUse::Data { footprint, pair_footprint } = driver.memory else { return Ok(()) };
        self.persisted.insert(keyspace, (footprint(&**files)?.persisted, pair_footprint));
        (driver.salvage)(files, &mut |op| {
            if let Op::Put { key, value } = op {
                let bytes = pair_footprint(key.len(), value.len());
                self.keys.insert(hash(keyspace, key), bytes);
            }
            match self.keys.len() < self.keys_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(())
    }

    /// Returns the number up to which every write is in all of them.
    pub(crate) fn persisted_by_all(&self) -> SeqNo {
        let persisted = self.persisted.values().map(|(persisted, _)| *persisted);
        persisted.min().unwrap_or(SeqNo::ZERO)
    }
}

impl Present for Snapshots {
    fn wants(&self, keyspace: u32, seqno: SeqNo) -> Option<PairFootprint> {
        let (persisted, footprint) = self.persisted.get(&keyspace)?;
        (seqno > *persisted).then_some(*footprint)
    }

    fn bytes(&self, keyspace: u32, key: &[u8]) -> u64 {
        self.keys.get(&hash(keyspace, key)).copied().unwrap_or(0)
    }
}
