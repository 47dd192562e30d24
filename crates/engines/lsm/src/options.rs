//! What may be chosen about a store.

use std::sync::Arc;

use crate::memory_split::MemorySplit;
use crate::range_deletes::Sweep;
use crate::table::{Compression, FilterKind, TableOptions};

/// Which memtable a write goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// That of the Drange of its key.
    Dranges,
    /// Any of as many, by its number. All of them are flushed together.
    Random,
    /// The only one.
    One,
}

/// Options of a [`crate::Store`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a memtable above which it is sealed. It is less where the memtables' share of the
    /// memory, three eighths, is not enough for two in each slot of the Dranges. Default: 16 MiB.
    pub memtable_bytes_max: u64,
    /// Memtables that are written to at once, at most: slots of the Dranges. Fewer where each would
    /// have less than 2 MiB. Default: 64.
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
    /// Whether single pairs are cached that gets found in tables, beside blocks. For comparisons.
    /// Default: yes.
    pub pairs: bool,
    /// Whether memtables of which little is kept, since the same keys were written again and again, are
    /// merged instead of flushed. For comparisons. Default: yes.
    pub merging: bool,
    /// Bytes of data after which a table that a compaction writes ends, at the next key. With less
    /// memory than sixteen times this it is a sixteenth of the memory, but not less than 2 MiB for
    /// that. Default: 16 MiB.
    pub table_bytes: u64,
    /// Bytes of entries after which a data block ends; one is read for a get. Default: 4096.
    pub block_bytes: usize,
    /// How blocks are compressed in Level 0, in Level 1 and so on; the last one holds for all
    /// levels below, too. It may be another one at each opening: what is written from then on is
    /// compressed so. A table that only moves to another level stays as it is. Default:
    /// [`Compression::Lz4`] in all.
    pub compression: Vec<Compression>,
    /// The kind of a table's filter. Default: [`FilterKind::Bloom`].
    pub filter: FilterKind,
    /// Bits that a table's filter has for each key: 10 let one search in a hundred through in vain.
    /// A ribbon filter has fewer, and lets no more through. Default: 10.
    pub filter_bits_per_key: u32,
    /// Tables of Level 0 that overlap with each other from which on it is weighed whether to compact
    /// them: they are where they are as large as what they overlap with in Level 1, or readers have
    /// looked into them in vain for as many bytes. With four times as many they are in any case, and
    /// so is all of Level 0 where it has as many thirds of the memtables' share in bytes and as much
    /// as Level 1 should hold. With more than `level0_tables_slow` it is that. Default: 4.
    pub level0_tables: usize,
    /// Tables in Level 0 from which on writers are slowed down, the more the more there are; at
    /// twice as many they wait. Default: 36.
    pub level0_tables_slow: usize,
    /// Bytes in Level 1 above which it is compacted. Default: 64 MiB.
    pub level1_bytes: u64,
    /// How many times larger a level is than the one above it. Default: 10.
    pub level_ratio: u64,
    /// Whether Level 0 is compacted while nobody writes, though it is not worth what it writes yet. That is
    /// at most two bytes for each that came to Level 0. Default: yes.
    pub tidies_when_idle: bool,
    /// Range deletes that are kept before tables are written anew for their sake alone. Each costs
    /// every read a comparison or so for 256 of them. It is done from 8192 of them on in any case,
    /// or where they take a 32nd of the memory; 16384, or a sixteenth, are the most. Default: 1024.
    pub range_deletes_max: usize,
    /// Bytes of the manifest after which it is written anew, if that makes it shorter by half.
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
            level0_tables: 4,
            level0_tables_slow: 36,
            level1_bytes: 64 << 20,
            level_ratio: 10,
            tidies_when_idle: true,
            range_deletes_max: 1024,
            manifest_bytes: 1 << 20,
        }
    }
}

impl Options {
    /// Memory that a store should have at least: memtables of an eighth of it are worth a table.
    pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
    /// Levels that a store has.
    pub const LEVELS: usize = crate::version::LEVELS;

    /// How tables of a level are built.
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
