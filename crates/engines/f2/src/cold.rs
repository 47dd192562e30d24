//! The cold half of a store: the cold log, and the index that names its live records.
//!
//! A record of the cold log lives if a chunk names it, and is dead otherwise. An address below the
//! log's beginning means that the chunk which named it is no longer the present one: the key is
//! looked up again. So absence is never concluded from a truncation (`docs/design/f2.md`).

mod live_bytes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use codec::Corruption;
use engine::{Reservation, Result};
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold_index::ColdIndex;
use crate::hybrid_log::{HybridLog, PageFull, Wanted};
use crate::position::Position;
use crate::record::{Shape, Stored};

pub(crate) use live_bytes::{Covered, LiveBytes};

/// The cold log and its index.
pub(crate) struct Cold {
    pub(crate) log: Arc<HybridLog>,
    pub(crate) index: ColdIndex,
    /// The log in which the index keeps its chunks.
    pub(crate) chunk_log: Arc<HybridLog>,
    /// From here on there may be records that live, although no chunk names them yet.
    pub(crate) unnamed_from: Unnamed,
    /// How much of the log lives.
    pub(crate) live: LiveBytes,
}

/// The beginning of the records that hot-to-cold compaction has appended and the index does not
/// name yet.
pub(crate) struct Unnamed(AtomicU64);

impl Default for Unnamed {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Unnamed {
    /// Before the first of them is appended; the log's tail is still at `tail`.
    pub(crate) fn begin(&self, tail: LogAddress) {
        self.0.store(tail.get(), SeqCst);
    }

    /// All are named, or discarded.
    pub(crate) fn end(&self) {
        self.0.store(u64::MAX, SeqCst);
    }

    /// Returns the end of the part below `until`, which was on disk before this is called, without
    /// records whose liveness the index does not know yet.
    pub(crate) fn clip(&self, until: LogAddress) -> LogAddress {
        until.min(LogAddress::new(self.0.load(SeqCst)))
    }
}

/// Greatest number of lookups of a key in one operation that each find its record removed: between
/// two of them a whole compaction has run. With more than that, the index names records that do not
/// exist.
const GONE_MAX: u32 = 1000;

/// Number of records found removed, in one operation.
#[derive(Default)]
pub(crate) struct Gone(u32);

impl Gone {
    /// Notes that one more record was found removed.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if that cannot be.
    pub(crate) fn again(&mut self) -> Result<()> {
        self.0 += 1;
        if self.0 < GONE_MAX {
            return Ok(());
        }
        let what = "the cold index names records below the cold log's beginning";
        Err(Corruption::new(what, 0).at("cold", 0).into())
    }
}

/// Called with each requested record: the payload passed with its address, the address, and the
/// record.
pub(crate) type WithRecord<'a, P> =
    dyn FnMut(P, LogAddress, Option<&Stored<'_>>) -> Result<()> + 'a;

impl Cold {
    /// Looks many positions up in the index, each chunk once. Calls `with` for each position, in
    /// any order, with its number and the addresses that the index names for it. `false`: it was
    /// stopped. Blocks; the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's; `with`'s.
    pub(crate) fn lookup(
        &self,
        positions: impl Iterator<Item = Position>,
        stop: &StopToken,
        with: &mut dyn FnMut(usize, &[LogAddress]) -> Result<()>,
    ) -> Result<bool> {
        let mut items: Vec<(Position, usize)> =
            positions.enumerate().map(|(number, position)| (position, number)).collect();
        self.index.visit(&mut items, stop, &mut |number, addresses| with(*number, addresses))
    }

    /// Reads the records at `addresses`, several at the same time, and calls `with` for each, in
    /// any order, with the payload passed with its address; `None`: the log was truncated beyond
    /// it. `false`: it was stopped. Blocks; the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's; `with`'s.
    pub(crate) fn each_record<P: Copy>(
        &self,
        addresses: impl Iterator<Item = (LogAddress, P)>,
        stop: &StopToken,
        with: &mut WithRecord<'_, P>,
    ) -> Result<bool> {
        let wanted = addresses.map(|(address, payload)| Wanted {
            address,
            bytes: None,
            payload: (payload, address),
        });
        self.log.read_records(wanted.collect(), stop, &mut |(payload, address), stored| {
            with(payload, address, stored)
        })
    }

    /// Returns the share of the cold log that is dead, about: the part that live records do not
    /// take, according to [`LiveBytes`].
    pub(crate) fn dead_share(&self) -> f64 {
        let bytes = self.log.bytes();
        if bytes == 0 { 0.0 } else { 1.0 - (self.live.sum() as f64 / bytes as f64).min(1.0) }
    }

    /// Notes that records are dead because newer ones are in front of them; some of the records are
    /// read. Blocks; the caller is not protected.
    pub(crate) fn note_covered(&self, covered: &Covered, stop: &StopToken) {
        let weight = covered.weight_permille();
        let some = covered.some().iter().map(|at| (*at, ()));
        // A record that cannot be read is left to the operations that need it.
        let _read: Result<bool> = self.each_record(some, stop, &mut |(), at, stored| {
            let bytes = stored.map_or(0, |stored| stored.bytes as u64);
            self.live.take(at, bytes.saturating_mul(weight) / 1000);
            Ok(())
        });
    }

    /// Drops the part below `begin`.
    pub(crate) fn shift_begin(&self, begin: LogAddress) {
        self.log.shift_begin(begin);
        self.live.forget_below(begin);
    }

    /// Appends a record, which lives once a chunk names it. Blocks while there is no room.
    ///
    /// # Errors
    /// The store is closed, or a flush failed.
    pub(crate) fn append(&self, key: &[u8], value: &[u8]) -> Result<LogAddress> {
        let shape = Shape { key_bytes: key.len(), value_bytes: value.len() };
        let bytes = shape.bytes() as u64;
        let at = self.log.with_room(
            &Reservation::uncounted(),
            || -> std::result::Result<LogAddress, PageFull> {
                let at = self.log.try_allocate(bytes)?;
                self.log.live(at).write(LogAddress::NONE, key, Some(value));
                Ok(at)
            },
        )?;
        self.live.add(at, bytes);
        Ok(at)
    }
}
