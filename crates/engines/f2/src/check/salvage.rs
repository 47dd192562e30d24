//! All sound data of a store, damaged or not, as writes which build it again; nothing is changed.
//!
//! A store does not open with damage in its hot log: a lookup could not know which record is the
//! newest of its key. Here the writes are reported in an order in which the newest is last:
//!
//! 1. From the cold log each record that the cold index names, in the order of addresses. A copy
//!    may be behind a newer record of its key (its chunk has both, the newer one first): that copy
//!    is left out.
//! 2. From the hot log each record, tombstones too. Hot records are newer than cold ones, and the
//!    addresses of one key's records rise with time.
//!
//! # What is lost
//! A key whose newest record cannot be read has the one before it, or none. A part of the chunk log
//! that cannot be read may have had the newest version of any chunk, except chunks written behind
//! that part. For the other chunks it is unknown which records of the cold log are outdated. All of
//! these records are reported, so that no key is missed; a key that was deleted may come back, or
//! have an older value.

use std::collections::HashMap;
use std::sync::Arc;

use device::Device;
use engine::{Op, Result, SalvageSink};

use super::{Lost, Report, open};
use crate::address::LogAddress;
use crate::checkpoint::{Committed, Identity};
use crate::cold_index::{CHUNKS, NamedRecords, Overtake};
use crate::hybrid_log::{Met, inspect};
use crate::key_hash::KeyHash;
use crate::open::{COLD_LOG, HOT_LOG, StoredLog};
use crate::position::Position;
use crate::record::Stored;

/// The result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// The damage, and the number of the write up to which the store's files are complete; only
    /// data that was read is counted.
    pub report: Report,
    /// Whether part of the cold index could not be read, so that keys which were deleted may be
    /// back, or have an older value.
    pub has_lost_chunks: bool,
}

/// Reports all sound writes of the store on `device`. A caller that applies them in this order has
/// for each key the newest version that can be read. Reads the hot and the cold log once, the chunk
/// log twice. Memory: 16 bytes for each entry of the cold index, and some pages.
///
/// # Errors
/// The storage's. Damage is part of the report; with a superblock that cannot be read, no write is
/// reported.
pub fn salvage(device: &Arc<dyn Device>, take: &mut SalvageSink<'_>) -> Result<SalvageReport> {
    let mut salvaged = SalvageReport::default();
    let Some(committed) = salvaged.report.committed(device)? else { return Ok(salvaged) };
    salvaged.report.persisted = committed.persisted;
    let mut taker = Taker { take, is_over: false };
    if committed.identity.has_cold_log() {
        salvaged.cold(device, &committed, &mut taker)?;
    }
    let hot = open(device, HOT_LOG, committed.hot, committed.identity.hot, &mut salvaged.report)?.0;
    salvaged.report.walk(&hot, &mut |_, stored| taker.tell(stored))?;
    Ok(salvaged)
}

impl SalvageReport {
    fn cold(
        &mut self,
        device: &Arc<dyn Device>,
        committed: &Committed,
        taker: &mut Taker<'_, '_>,
    ) -> Result<()> {
        let Identity { cold, chunks, .. } = committed.identity;
        let (cold, _) = open(device, COLD_LOG, committed.cold, cold, &mut self.report)?;
        let (chunks, Lost(lost)) =
            open(device, CHUNKS, committed.chunks, chunks, &mut self.report)?;
        let StoredLog { segments, geometry, span } = &chunks;
        // The end of the last part that cannot be read.
        let mut lost_end = lost.iter().map(|(_, to)| *to).max().unwrap_or(LogAddress::NONE);
        let mut named =
            NamedRecords::read(segments, geometry, span.begin, span.end, &mut |end, damage| {
                lost_end = lost_end.max(end);
                self.report.note(damage);
            })?;
        self.has_lost_chunks = lost_end > LogAddress::NONE;
        let mut overtaken = SupersededRecords::of(named.overtakes());
        let identity = committed.identity;
        self.report.walk(&cold, &mut |address, stored| {
            let hash = KeyHash::of(stored.key, identity.hash_seed);
            let position = Position::of(hash, identity.index_bits);
            // Entries that lead elsewhere are the business of a check.
            let is_named = named.meet(address, position, &mut |_, _| {});
            let is_over = !is_named || overtaken.meet(address, stored.key);
            let is_known = lost_end == LogAddress::NONE || named.is_behind(position, lost_end);
            if stored.value.is_some() && !(is_known && is_over) {
                taker.tell(stored);
            }
        })
    }
}

impl Report {
    /// Visits the linked records of a log, and keeps the damage.
    fn walk(
        &mut self,
        log: &StoredLog,
        visit: &mut dyn FnMut(LogAddress, &Stored<'_>),
    ) -> Result<()> {
        let StoredLog { segments, geometry, span } = log;
        inspect(segments, geometry, span.begin, span.end, &mut |met| match met {
            Met::Lost(_, _, damage) => self.note(damage),
            Met::Record(_, address, stored) => {
                self.records += 1;
                self.bytes += stored.bytes as u64;
                if !stored.header.is_invalid() {
                    visit(address, stored);
                }
            }
        })
    }
}

/// The callback that takes the writes, until it breaks.
struct Taker<'a, 'b> {
    take: &'a mut SalvageSink<'b>,
    is_over: bool,
}

impl Taker<'_, '_> {
    fn tell(&mut self, stored: &Stored<'_>) {
        if self.is_over {
            return;
        }
        let op = match stored.value {
            Some(value) => Op::Put { key: stored.key, value },
            None => Op::Delete { key: stored.key },
        };
        self.is_over = (self.take)(op).is_break();
    }
}

/// Records that may be older than records that are met before them.
struct SupersededRecords {
    /// The keys of the newer ones, once these were met.
    newer: HashMap<LogAddress, Option<Vec<u8>>>,
    of: HashMap<LogAddress, Vec<LogAddress>>,
}

impl SupersededRecords {
    fn of(overtakes: &[Overtake]) -> Self {
        let newer = overtakes.iter().map(|overtake| (overtake.newer, None)).collect();
        let mut of: HashMap<_, Vec<_>> = HashMap::new();
        for Overtake { newer, older } in overtakes {
            of.entry(*older).or_default().push(*newer);
        }
        Self { newer, of }
    }

    /// Takes note of the next record, and returns whether a newer one of its key was met.
    fn meet(&mut self, address: LogAddress, key: &[u8]) -> bool {
        if let Some(known) = self.newer.get_mut(&address) {
            *known = Some(key.to_vec());
        }
        let newer = self.of.get(&address).into_iter().flatten();
        newer.filter_map(|newer| self.newer.get(newer)).any(|known| known.as_deref() == Some(key))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_older_record_behind_a_newer_one_of_its_key_is_left_out() {
        let [newer, other, older] = [16, 32, 48].map(LogAddress::new);
        let mut overtaken =
            SupersededRecords::of(&[Overtake { newer, older }, Overtake { newer: other, older }]);
        assert!(!overtaken.meet(newer, b"key"));
        assert!(!overtaken.meet(other, b"of the same bits"));
        assert!(overtaken.meet(older, b"key"));

        let mut overtaken = SupersededRecords::of(&[Overtake { newer: other, older }]);
        assert!(!overtaken.meet(newer, b"key"));
        assert!(!overtaken.meet(other, b"of the same bits"));
        assert!(!overtaken.meet(older, b"key"), "the newer one was of another key");
    }
}
