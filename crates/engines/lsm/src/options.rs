//! The options of a store.

use std::sync::Arc;

use crate::memory_split::MemorySplit;
use lsm_tree::range_deletes::Sweep;
use lsm_tree::shape::Shape;
use lsm_tree::table::{Compression, FilterKind, TableOptions};

/// Which memtable a write goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// The memtable of the Drange of its key.
    Dranges,
    /// One of the same number of memtables, by the number of the write. All of them are flushed
    /// together.
    Random,
    /// The only one.
    One,
}

/// Options of the engine `lsm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a memtable above which it is sealed. It is less if the memtables' share of the
    /// memory, three eighths, is not enough for two in each slot of the Dranges. Default: 16 MiB.
    pub memtable_bytes_max: u64,
    /// Memtables that are written to at the same time, at most: slots of the Dranges. There are
    /// fewer if each would have less than 2 MiB. Default: 64.
    pub slots_max: usize,
    /// Which memtable a write goes to. For comparisons. Default: [`Routing::Dranges`].
    pub routing: Routing,
    /// Whether a Drange of a hot key may have several slots. For comparisons. Default: yes.
    pub duplicates: bool,
    /// Bytes that the index of which memtable or table has a key may take, at most: 25 for a key.
    /// With less memory than 64 times this it is a part of that. None at 0. Default: 64 MiB.
    pub lookup_index_bytes_max: u64,
    /// Whether gets and scans look only at memtables and tables of Level 0 that overlap with a part
    /// of the keys. For comparisons. Default: yes.
    pub range_index: bool,
    /// Whether single pairs that gets found in tables are cached, in addition to blocks. For
    /// comparisons. Default: yes.
    pub pairs: bool,
    /// Whether memtables of which little is kept, since the same keys were written again and again,
    /// are merged instead of flushed. For comparisons. Default: yes.
    pub merging: bool,
    /// Bytes of data after which a table that a compaction writes ends, at the next key. With less
    /// memory than sixteen times this it is a sixteenth of the memory, but not less than 2 MiB for
    /// that. Default: 16 MiB.
    pub table_bytes: u64,
    /// Bytes of entries after which a data block ends; one is read for a get. Default: 4096.
    pub block_bytes: usize,
    /// How blocks are compressed in Level 0, in Level 1 and so on; the last one holds for all
    /// levels below, too. Each opening may use another one: blocks written from then on are
    /// compressed with it. A table that only moves to another level stays unchanged. Default:
    /// [`Compression::Lz4`] in all.
    pub compression: Vec<Compression>,
    /// The kind of a table's filter. Default: [`FilterKind::Bloom`].
    pub filter: FilterKind,
    /// Bits that a table's filter has for each key: 10 let one search in a hundred through in vain.
    /// A ribbon filter has fewer, and lets no more through. Default: 10.
    pub filter_bits_per_key: u32,
    /// Tables of Level 0 that overlap with each other, from which on the store considers their
    /// compaction. It compacts them if they are as large as the tables of Level 1 that they
    /// overlap, or if readers have searched them in vain for that number of bytes. It always
    /// compacts four times this number of tables, or half of `level0_tables_slow` if that is less.
    /// It compacts all of Level 0 if that has 64 times this number of tables. It also does so if
    /// the bytes of Level 0 reach this number of thirds of the memtables' share and a second limit.
    /// The second limit is the smaller of the bytes that Level 1 should hold, and half of the bytes
    /// at which writers are slowed down. If this is more than `level0_tables_slow`, that number is
    /// used. Default: 8.
    pub level0_tables: usize,
    /// Tables in Level 0 from which on writers are slowed down, the more tables the more; at twice
    /// this number writers wait. Default: 36.
    pub level0_tables_slow: usize,
    /// Bytes in Level 1 above which it is compacted. At 0, which is the default, it is twice the
    /// memtables' share of the memory, but not less than 8 MiB.
    pub level1_bytes: u64,
    /// How many times larger a level is than the one above it, at most. The store has as few levels
    /// as this permits, and all ratios are the same. Default: 10.
    pub level_ratio: u64,
    /// Whether Level 0 is compacted while there are no writes, though the compaction is not worth
    /// its writes yet. It writes at most two bytes for each byte that entered Level 0. Default:
    /// yes.
    pub compacts_when_idle: bool,
    /// Range deletes that are kept before tables are rewritten for their sake alone. Each costs
    /// every read about one comparison for 256 of them. Tables are always rewritten from 8192 range
    /// deletes on, or if they take a 32nd of the memory; 16384, or a sixteenth, are the most.
    /// Default: 1024.
    pub range_deletes_max: usize,
    /// Bytes of the manifest after which it is rewritten, if that makes it shorter by half.
    /// Default: 1 MiB.
    pub manifest_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memtable_bytes_max: 16 << 20,
            slots_max: 64,
            routing: Routing::Dranges,
            duplicates: true,
            lookup_index_bytes_max: 64 << 20,
            range_index: true,
            pairs: true,
            merging: true,
            table_bytes: 16 << 20,
            block_bytes: 4096,
            compression: vec![Compression::default()],
            filter: FilterKind::default(),
            filter_bits_per_key: 10,
            level0_tables: 8,
            level0_tables_slow: 36,
            level1_bytes: 0,
            level_ratio: 10,
            compacts_when_idle: true,
            range_deletes_max: 1024,
            manifest_bytes: 1 << 20,
        }
    }
}

impl Options {
    /// Memory that a store should have at least: memtables of an eighth of it are worth a table.
    pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
    /// Levels that a store has.
    pub const LEVELS: usize = lsm_tree::version::LEVELS;

    /// Returns the sizes that levels are kept to.
    pub(crate) fn shape(&self, split: &MemorySplit) -> Shape {
        Shape {
            level0_tables: self.level0_tables,
            level0_tables_slow: self.level0_tables_slow,
            level1_bytes: split.level1_bytes,
            level_ratio: self.level_ratio,
            block_bytes: self.block_bytes,
        }
    }

    /// Returns how tables of a level are built.
    pub(crate) fn tables(&self, split: &MemorySplit, level: usize) -> TableOptions {
        let compression = self.compression.get(level).or(self.compression.last());
        TableOptions {
            block_bytes: self.block_bytes,
            compression: compression.copied().unwrap_or_default(),
            tally: Arc::default(),
            filter: self.filter,
            filter_bits_per_key: self.filter_bits_per_key,
            table_bytes: split.table_bytes,
            buffer_bytes: (split.job_bytes / 4) as usize,
            sweep: Sweep::default(),
        }
    }
}
