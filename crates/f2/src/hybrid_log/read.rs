//! One record from disk: one read if it fits what was guessed, the exact remainder otherwise.

use std::sync::atomic::Ordering::Relaxed;

use device::Buffer;
use engine::Result;

use super::{BLOCK_BYTES, HybridLog};
use crate::address::LogAddress;
use crate::record::{HEAD_BYTES, Stored};

impl HybridLog {
    /// Reads and verifies the record at `address` and hands it to `with`. `None`: the log was
    /// truncated beyond it. One read of the device, mostly; blocks, so the caller is not
    /// protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(crate) fn read_stored<T>(
        &self,
        address: LogAddress,
        with: impl FnOnce(&Stored<'_>) -> T,
    ) -> Result<Option<T>> {
        let Some(segment) = self.segments.get(self.geometry.segment(address)) else {
            return Ok(None);
        };
        let page_end = self.geometry.page_begin(self.geometry.page(address) + 1);
        let room = page_end.min(segment.end()).get().saturating_sub(address.get());
        let guess = (self.record_bytes_guess.load(Relaxed) as u64).max(HEAD_BYTES as u64);
        let mut bytes = guess.min(room).max(HEAD_BYTES as u64);
        loop {
            let first = address.get() / BLOCK_BYTES * BLOCK_BYTES;
            let end = (address.get() + bytes).next_multiple_of(BLOCK_BYTES);
            let mut buffer = Buffer::zeroed((end - first) as usize);
            segment.read(LogAddress::new(first), &mut buffer)?;
            let (_, record) = buffer.split_at((address.get() - first) as usize);
            let damaged = |damage| segment.damage(address, damage);
            let claimed = Stored::claimed_bytes(record, room as usize).map_err(damaged)?;
            if claimed > record.len() {
                bytes = claimed as u64;
                continue;
            }
            let stored = Stored::decode(record, segment.salt(), address).map_err(damaged)?;
            if stored.header.is_filler() || stored.header.is_invalid() {
                let damage = crate::record::Damage("a chain leads to what is no record");
                return Err(segment.damage(address, damage).into());
            }
            return Ok(Some(with(&stored)));
        }
    }
}
