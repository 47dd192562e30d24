//! Builds a table from entries in order.

use std::sync::Arc;

use codec::SeqNo;
use engine::Result;
use memory_budget::{Account, MemoryBudget};

use super::block::{self, BlockBuilder, RESTART_INTERVAL};
use super::compression::{Compression, Compressor, Tally};
use super::filter::{self, FilterKind};
use super::metadata::{self, BlockHandle};
use super::source::{TableSink, TableStore};
use super::summary::{Properties, Summary, TableId};
use crate::entry::{Entry, Target};
use crate::range_deletes::Sweep;

/// Longest memory of a block that is used again, in usual block lengths. The memory of a block with
/// a large value is freed.
const KEPT_BLOCKS: usize = 4;

/// How tables are built.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Bytes of entries after which a block ends.
    pub block_bytes: usize,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Counts the bytes that compression saves.
    pub tally: Arc<Tally>,
    /// The kind of filter.
    pub filter: FilterKind,
    /// Bits of the filter for each key.
    pub filter_bits_per_key: u32,
    /// Bytes of data that a table has about when it is whole; a fragment is a part of it.
    pub table_bytes: u64,
    /// Bytes that are gathered before the device is given any.
    pub buffer_bytes: usize,
    /// The range deletes that were applied to the entries that are added.
    pub sweep: Sweep,
}

/// A table being built.
pub struct TableBuilder {
    sink: Box<dyn TableSink>,
    id: TableId,
    options: TableOptions,
    fragments_max: u32,
    block: BlockBuilder,
    compressor: Compressor,
    index: BlockBuilder,
    hashes: Vec<u64>,
    /// The block that ended last, until the next entry says where its successor begins.
    ended: Option<BlockHandle>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
    properties: Properties,
    data_bytes: u64,
    charge: Account,
}

impl TableBuilder {
    /// Begins the table `id`, made from memtables of these ids.
    pub fn create(
        store: &dyn TableStore,
        id: TableId,
        memtables: (u64, u64),
        options: &TableOptions,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Self> {
        let (first_memtable, last_memtable) = memtables;
        let charge = Account::new(budget);
        let sink = store.create(id, options.buffer_bytes)?;
        charge.set(sink.memory() as u64);
        Ok(Self {
            sink,
            id,
            options: options.clone(),
            fragments_max: store.fragments_max(),
            block: BlockBuilder::new(RESTART_INTERVAL),
            compressor: Compressor::new(options.compression, &options.tally),
            index: BlockBuilder::new(1),
            hashes: Vec::new(),
            ended: None,
            last_key: Vec::new(),
            last_seqno: SeqNo::ZERO,
            properties: Properties {
                first_memtable,
                last_memtable,
                oldest: SeqNo::MAX,
                swept: options.sweep.upto,
                fragments: vec![0],
                ..Properties::default()
            },
            data_bytes: 0,
            charge,
        })
    }

    /// Adds an entry behind all that were added.
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        let is_first = self.properties.entries == 0;
        let is_new_key = is_first || self.last_key != entry.key;
        debug_assert!(is_first || self.last_target() < entry.target(), "entries come in order");
        self.index_ended(Some(entry.target()));
        let properties = &mut self.properties;
        if is_first {
            properties.smallest = entry.key.to_vec();
        }
        properties.entries += 1;
        properties.tombstones += u64::from(entry.value.is_none());
        properties.raw_bytes += entry.bytes() as u64;
        properties.oldest = properties.oldest.min(entry.seqno);
        properties.newest = properties.newest.max(entry.seqno);
        if let Some(hider) = self.options.sweep.hider(entry.key, entry.seqno) {
            // A snapshot may show it.
            properties.swept = properties.swept.min(SeqNo::new(hider.get() - 1));
        }
        if is_new_key {
            self.hashes.push(filter::hash(entry.key));
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.last_seqno = entry.seqno;
        self.block.push(entry);
        if self.block.len() >= self.options.block_bytes { self.end_block() } else { Ok(()) }
    }

    /// Returns the bytes of data so far.
    pub fn bytes(&self) -> u64 {
        self.data_bytes + self.block.len() as u64
    }

    /// Returns the key that was added last.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Ends the table: durable on return, its name not yet.
    ///
    /// # Panics
    /// If nothing was added: there are no empty tables.
    pub fn finish(mut self) -> Result<Summary> {
        assert!(self.properties.entries > 0, "a table has entries");
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.index_ended(None);
        self.properties.largest = std::mem::take(&mut self.last_key);
        let (kind, bits) = (self.options.filter, self.options.filter_bits_per_key);
        self.charge_with(filter::building_bytes(kind, self.hashes.len(), bits));
        let filter = filter::build(kind, &self.hashes, bits);
        let index = self.index.finish();
        let metadata = metadata::encode(&index, &filter, &self.properties, self.id);
        let stored_bytes = self.sink.finish(&metadata)?;
        Ok(Summary { id: self.id, stored_bytes, ingested: None, properties: self.properties })
    }

    fn last_target(&self) -> Target<'_> {
        Target { key: &self.last_key, seqno: self.last_seqno }
    }

    fn end_block(&mut self) -> Result<()> {
        let fragment = self.fragment();
        let Some(fragment_bytes) = self.properties.fragments.last_mut() else { return Ok(()) };
        let place = self.id.place(fragment, *fragment_bytes);
        let stored = block::seal(self.block.finish(), &mut self.compressor, place);
        self.sink.append(fragment, &stored)?;
        let (offset, len) = (*fragment_bytes, stored.len() as u32);
        *fragment_bytes += stored.len() as u64;
        self.data_bytes += stored.len() as u64;
        self.ended = Some(BlockHandle { fragment, offset, len });
        self.charge_with(stored.capacity());
        if stored.capacity() <= KEPT_BLOCKS * self.options.block_bytes {
            self.block.reuse(stored);
        }
        Ok(())
    }

    /// Charges the memory that is kept until the table is whole, and `bytes` more for now.
    fn charge_with(&mut self, bytes: usize) {
        let hashes = self.hashes.capacity() * size_of::<u64>();
        let kept = self.sink.memory() + hashes + self.index.len() + self.compressor.memory();
        self.charge.set((kept + bytes) as u64);
    }

    /// Returns the fragment that the next block goes to.
    fn fragment(&mut self) -> u32 {
        let share = self.options.table_bytes / u64::from(self.fragments_max.max(1));
        let count = self.properties.fragments.len() as u32;
        let is_full = self.properties.fragments.last().is_some_and(|bytes| *bytes >= share);
        if is_full && count < self.fragments_max {
            self.properties.fragments.push(0);
            return count;
        }
        count - 1
    }

    /// Indexes the block that ended last: under a place that is not before its last entry, and
    /// before `next`, which begins the block after it.
    fn index_ended(&mut self, next: Option<Target<'_>>) {
        let Some(handle) = self.ended.take() else { return };
        let handle = handle.encode();
        let (key, seqno) = match next {
            Some(next) if next.key == self.last_key => (self.last_key.clone(), self.last_seqno),
            Some(next) => (separator(&self.last_key, next.key), SeqNo::ZERO),
            None => (self.last_key.clone(), SeqNo::ZERO),
        };
        self.index.push(&Entry { key: &key, seqno, value: Some(&handle) });
    }
}

/// Returns a short key at or above `low` and below `high`. `low` is below `high`.
fn separator(low: &[u8], high: &[u8]) -> Vec<u8> {
    let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    match (low.get(shared), high.get(shared)) {
        (Some(a), Some(b)) if a.checked_add(1).is_some_and(|next| next < *b) => {
            let mut key = low.get(..shared).unwrap_or_default().to_vec();
            key.push(a + 1);
            key
        }
        _ => low.to_vec(),
    }
}
