//! Writes a snapshot file from front to back, a few blocks ahead of the device.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, File, Mode, OverlappedWrites, SyncKind};
use engine::Result;
use memory_budget::MemoryBudget;

use super::format::{self, Head, Identity, Summary, Totals};
use memory_budget::Account;

/// Blocks that are on their way to the device while the next one is filled.
const IN_FLIGHT: usize = 2;

/// A snapshot file being written.
pub(crate) struct SnapshotWriter {
    file: Arc<dyn File>,
    writes: OverlappedWrites,
    charge: Account,
    identity: Identity,
    block_bytes: usize,
    block: Vec<u8>,
    block_pairs: u32,
    offset: u64,
    totals: Totals,
}

impl SnapshotWriter {
    /// Begins the file `identity.number` of the writes up to `persisted`. Its memory counts in
    /// `budget`.
    pub(crate) fn create(
        device: &dyn Device,
        identity: Identity,
        persisted: SeqNo,
        block_bytes: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Self> {
        let file = device.open(&format::file_name(identity.number), Mode::CreateNew)?;
        let mut writer = Self {
            file,
            writes: OverlappedWrites::new(device, IN_FLIGHT, usize::MAX)?,
            charge: Account::new(budget),
            identity,
            block_bytes,
            block: vec![0; format::BLOCK_HEADER_BYTES],
            block_pairs: 0,
            offset: 0,
            totals: Totals::default(),
        };
        writer.write(&Head { identity, persisted }.encode())?;
        Ok(writer)
    }

    /// Adds a pair, above all that were added.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        format::put_pair(&mut self.block, key, value);
        self.block_pairs += 1;
        self.totals.pairs += 1;
        self.totals.pair_bytes += (key.len() + value.len()) as u64;
        if self.block.len() >= self.block_bytes { self.end_block() } else { Ok(()) }
    }

    /// Ends the file; it is durable on return, its name not yet.
    pub(crate) fn finish(mut self) -> Result<Summary> {
        if self.block_pairs > 0 {
            self.end_block()?;
        }
        let totals = format::totals_block(&self.totals, self.identity, self.offset);
        self.write(&totals)?;
        self.writes.finish(&mut |_| {})?;
        self.file.sync(SyncKind::All)?;
        Ok(Summary { identity: self.identity, bytes: self.offset, totals: self.totals })
    }

    fn end_block(&mut self) -> Result<()> {
        let mut block = std::mem::take(&mut self.block);
        format::seal_pairs(&mut block, self.block_pairs, self.identity, self.offset);
        self.totals.blocks += 1;
        self.write(&block)?;
        block.clear();
        block.resize(format::BLOCK_HEADER_BYTES, 0);
        self.block = block;
        self.block_pairs = 0;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut buffer = self.writes.buffer(bytes.len(), &mut |_| {})?;
        buffer.copy_from_slice(bytes);
        let block_bytes = self.block.capacity().max(bytes.len());
        self.charge.set((block_bytes + self.writes.buffer_bytes()) as u64);
        self.writes.begin(self.offset, (&self.file, self.offset), buffer, &mut |_| {})?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
