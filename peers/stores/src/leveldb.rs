//! LevelDB. The tuning is argued in `peers/README.md`.

use bench::stores::{DeviceCounts, Durability, OpenOptions, Pairs, Session, Store, StoreError};
use leveldb_c::{Batch, Db, Settings};

use crate::stripes::Stripes;

const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;
/// Its own default; and a size above which more saves no more calls to sync.
const TABLE_BYTES_MIN: u64 = 2 << 20;
const TABLE_BYTES_MAX: u64 = 16 << 20;

pub(crate) struct LevelDb {
    db: Db,
    stripes: Stripes,
    cache_bytes: u64,
}

impl LevelDb {
    pub(crate) fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        let memory = options.memory_bytes;
        let memtable = (memory / 8).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
        let cache_bytes = options.cache_bytes.unwrap_or(memory / 4);
        let settings = Settings {
            cache_bytes: cache_bytes as usize,
            memtable_bytes: memtable as usize,
            table_bytes: memtable.clamp(TABLE_BYTES_MIN, TABLE_BYTES_MAX) as usize,
            filter_bits: 10,
            syncs: options.durability == Durability::Synced,
        };
        let db = Db::open(&options.dir, &settings)?;
        Ok(Self { db, stripes: Stripes::default(), cache_bytes })
    }
}

impl Store for LevelDb {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(self))
    }

    fn flush(&self) -> Result<(), StoreError> {
        // All writes in its memtable are in its log, at any durability.
        Ok(())
    }

    fn device(&self) -> Option<DeviceCounts> {
        None
    }

    fn cache_bytes(&self) -> Option<u64> {
        Some(self.cache_bytes)
    }

    fn close(&self) -> Result<(), StoreError> {
        // Closed on drop.
        Ok(())
    }
}

impl Session for &LevelDb {
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
