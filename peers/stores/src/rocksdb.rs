//! RocksDB, with and without BlobDB. The tuning is argued in `peers/README.md`.

use bench::stores::{DeviceCounts, Durability, Io, OpenOptions, Pairs, Session, Store, StoreError};
use rocksdb_c::{Batch, Blobs, Db, Settings, Wal};

use crate::stripes::Stripes;

/// Values of this size and above go to blob files.
const BLOB_BYTES_MIN: u64 = 128;
/// Its own for direct I/O, and the least that is worth a read.
const READAHEAD_BYTES_MAX: u64 = 2 << 20;
const READAHEAD_BYTES_MIN: u64 = 64 << 10;
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;

pub(crate) struct RocksDb {
    db: Db,
    stripes: Stripes,
}

impl RocksDb {
    pub(crate) fn open(options: &OpenOptions, blobs: bool) -> Result<Self, StoreError> {
        let memory = options.memory_bytes;
        let memtable = (memory / 8).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
        let direct = options.io == Some(Io::Direct);
        let left = memory.saturating_sub(2 * memtable);
        // Past the page cache nothing else caches; through it, the guide leaves most memory to it.
        // What compactions read and write, and what the allocator keeps, is in no limit of RocksDB's own.
        let cache = if direct { left / 2 } else { left.min(memory / 2) };
        let settings = Settings {
            cache_bytes: cache.max(1 << 20) as usize,
            memtable_bytes: memtable as usize,
            background_jobs: 4,
            filter_bits: 10.0,
            // Gets find their keys in all that is measured here, but for what a trace may ask.
            filters_for_hits: true,
            direct_reads: direct,
            direct_writes: direct,
            // For each table of each compaction, and in no limit of RocksDB's own.
            readahead_bytes: (memory / 1024).clamp(READAHEAD_BYTES_MIN, READAHEAD_BYTES_MAX)
                as usize,
            // Wholly in the cache, an index and filter of a table would take a hundred blocks' place.
            partitions: memory < options.keys * options.pair_bytes as u64,
            wal: match options.durability {
                Durability::None => Wal::Off,
                Durability::Buffered => Wal::Buffered,
                Durability::Synced => Wal::Synced,
            },
            blobs: blobs.then_some(Blobs { min_bytes: BLOB_BYTES_MIN }),
        };
        Ok(Self { db: Db::open(&options.dir, &settings)?, stripes: Stripes::default() })
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
