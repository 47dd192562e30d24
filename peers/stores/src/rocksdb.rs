//! RocksDB, with and without BlobDB. The tuning is argued in `peers/README.md`.

use bench::stores::{DeviceCounts, Durability, Io, OpenOptions, Pairs, Session, Store, StoreError};
use rocksdb_c::{Batch, Blobs, Db, Settings, Wal};

use crate::stripes::Stripes;

/// Values of this size and above go to blob files.
const BLOB_BYTES_MIN: u64 = 128;
/// Share of garbage in the oldest blob files from which on they are collected.
const BLOB_GARBAGE_MAX: f64 = 0.3;
/// Bytes of a table for each pair of a memtable if values are kept apart, and the smallest table.
const BLOB_TABLE_BYTES_PER_PAIR: f64 = 32.0;
const BLOB_TABLE_BYTES_MIN: u64 = 1 << 20;
/// Tables in the first level.
const LEVEL_BASE_TABLES: u64 = 4;
const BLOB_LEVEL_BASE_TABLES: u64 = 8;
/// The smallest table otherwise: keeps the number of files low.
const TABLE_BYTES_MIN: u64 = 8 << 20;
/// Its own for direct I/O, and the least that is worth a read.
const READAHEAD_BYTES_MAX: u64 = 2 << 20;
const READAHEAD_BYTES_MIN: u64 = 64 << 10;
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;

pub(crate) struct RocksDb {
    db: Db,
    cache_bytes: u64,
    stripes: Stripes,
}

impl RocksDb {
    pub(crate) fn open(options: &OpenOptions, blobs: bool) -> Result<Self, StoreError> {
        let memory = options.memory_bytes;
        let memtable = (memory / 8).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
        let direct = options.io == Some(Io::Direct);
        let left = memory.saturating_sub(2 * memtable);
        // Past the page cache nothing else caches; through it, the guide leaves most memory to it.
        // No limit of RocksDB's own includes the reads and writes of compactions, and the memory
        // that the allocator keeps.
        let blocks = if direct { left / 2 } else { left.min(memory / 2) };
        // Memtables are charged to the cache.
        let guide = blocks + 2 * memtable;
        let cache_bytes = options.cache_bytes.unwrap_or(guide).max(1 << 20);
        let (table_bytes, level_base_tables) = if blobs {
            let pairs = memtable as f64 / options.pair_bytes;
            let bytes = (pairs * BLOB_TABLE_BYTES_PER_PAIR) as u64;
            (bytes.max(BLOB_TABLE_BYTES_MIN), BLOB_LEVEL_BASE_TABLES)
        } else {
            (memtable.max(TABLE_BYTES_MIN), LEVEL_BASE_TABLES)
        };
        let settings = Settings {
            cache_bytes: cache_bytes as usize,
            memtable_bytes: memtable as usize,
            table_bytes,
            level_base_bytes: table_bytes * level_base_tables,
            background_jobs: 4,
            filter_bits: 10.0,
            // Gets find their keys in all measurements here, except perhaps in a trace.
            filters_for_hits: true,
            direct_reads: direct,
            direct_writes: direct,
            // For each table of each compaction, and in no limit of RocksDB's own.
            readahead_bytes: (memory / 1024).clamp(READAHEAD_BYTES_MIN, READAHEAD_BYTES_MAX)
                as usize,
            // Wholly in the cache, an index and filter of a table would take a hundred blocks'
            // place.
            partitions: memory < options.keys * options.pair_bytes as u64,
            wal: match options.durability {
                Durability::None => Wal::Off,
                Durability::Buffered => Wal::Buffered,
                Durability::Synced => Wal::Synced,
            },
            blobs: blobs.then_some(Blobs {
                min_bytes: BLOB_BYTES_MIN,
                file_bytes: memtable,
                force_threshold: BLOB_GARBAGE_MAX,
            }),
        };
        let db = Db::open(&options.dir, &settings)?;
        Ok(Self { db, cache_bytes, stripes: Stripes::default() })
    }
}

impl Store for RocksDb {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(self))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(self.db.flush()?)
    }

    fn device(&self) -> Option<DeviceCounts> {
        None
    }

    fn cache_bytes(&self) -> Option<u64> {
        Some(self.cache_bytes)
    }

    fn finish_background_work(&self) -> Result<(), StoreError> {
        Ok(self.db.wait_for_compactions()?)
    }

    fn close(&self) -> Result<(), StoreError> {
        // Closed on drop.
        Ok(())
    }
}

impl Session for &RocksDb {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        Ok(self.db.get(key, value)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.db.put(key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        Ok(self.db.delete(key)?)
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        let _held = self.stripes.lock(key);
        let found = self.db.get(key, old)?;
        self.db.put(key, new)?;
        Ok(found)
    }

    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError> {
        let mut cursor = self.db.seek(from);
        for _ in 0..limit {
            let Some((key, value)) = cursor.pair()? else {
                break;
            };
            pairs.push(key, value);
            cursor.advance();
        }
        Ok(())
    }

    fn load(&mut self, pairs: &Pairs) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.db.write(&batch)?)
    }
}
