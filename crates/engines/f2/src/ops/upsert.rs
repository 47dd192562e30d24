//! Blind writes: a value or a tombstone, whatever the key had before.

use engine::{Reservation, Result};

use crate::address::LogAddress;
use crate::hash_index::Slot;
use crate::hybrid_log::PageFull;
use crate::key_hash::KeyHash;
use crate::ops::Found;
use crate::record::{InPlace, Shape};
use crate::store::Shared;

impl Shared {
    /// Sets the value of `key`: in place if its record is in the mutable region and the value takes
    /// the same number of words; otherwise by a new record at the tail. Reads nothing from disk.
    pub(crate) fn upsert(&self, key: &[u8], value: &[u8], room: &Reservation<'_>) -> Result<()> {
        let hash = self.hash(key);
        self.with_room(room, || {
            let slot = self.hot.index.find_or_create(hash);
            self.replace(slot, hash, key, Some(value))
        })
    }

    /// Removes `key`. The cold log, or a record elsewhere on its chain, may hold it, so there is a
    /// tombstone, unless there is no chain and no cold log.
    pub(crate) fn delete(&self, key: &[u8], room: &Reservation<'_>) -> Result<()> {
        let hash = self.hash(key);
        if self.cold.is_some() {
            return self.with_room(room, || {
                let slot = self.hot.index.find_or_create(hash);
                self.replace(slot, hash, key, None)
            });
        }
        self.with_room(room, || match self.hot.index.find(hash) {
            Some(slot) if slot.address() != LogAddress::NONE => self.replace(slot, hash, key, None),
            _ => Ok(()),
        })
    }

    fn replace<'a>(
        &'a self,
        mut slot: Slot<'a>,
        hash: KeyHash,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> std::result::Result<(), PageFull> {
        // Only a mutable record can be changed in place [H2 of the log].
        let mutable = self.hot.log.mutable_from();
        if let Found::Here(record, _) = self.walk(slot.address(), mutable, key)
            && record.put_in_place(value) == InPlace::Done
        {
            if value.is_none() {
                self.compactions.dead.note_replaced(0);
            }
            return Ok(());
        }
        let shape = Shape { key_bytes: key.len(), value_bytes: value.map_or(0, <[u8]>::len) };
        self.hot.log.note_append(self.cache.log_head(slot.address()), mutable);
        loop {
            let at = self.hot.log.try_allocate(shape.bytes() as u64)?;
            self.hot.log.live(at).write(self.cache.log_head(slot.address()), key, value);
            if self.link(slot, hash, at, |_| true).is_ok() {
                self.compactions.dead.note_replaced(shape.bytes() as u64);
                return Ok(());
            }
            self.hot.log.live(at).invalidate();
            slot = self.hot.index.find_or_create(hash);
        }
    }

    /// Links the record at `at` as the newest of its chain. Whenever another record comes first,
    /// `may` is called with the chain's new head. Returns `Err` if it may not, or if its head has a
    /// higher address than ours [H7 of the log]. Heads are those in the log: a cached record in
    /// front leaves the chain by the same step [R1 of the read cache].
    pub(crate) fn link<'a>(
        &'a self,
        mut slot: Slot<'a>,
        hash: KeyHash,
        at: LogAddress,
        may: impl Fn(LogAddress) -> bool,
    ) -> std::result::Result<(), ()> {
        while slot.compare_exchange(at).is_err() {
            slot = self.hot.index.find_or_create(hash);
            let previous = self.cache.log_head(slot.address());
            if previous > at || !may(previous) {
                return Err(());
            }
            self.hot.log.live(at).relink(previous);
        }
        Ok(())
    }
}
