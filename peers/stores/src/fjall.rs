//! fjall, with and without key-value separation. The tuning is argued in `peers/README.md`.

use bench::stores::{DeviceCounts, Durability, OpenOptions, Pairs, Session, Store, StoreError};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use crate::stripes::Stripes;

/// Values of this size and above are kept apart.
const SEPARATED_BYTES_MIN: u32 = 128;
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;

pub(crate) struct Fjall {
    db: Database,
    pairs: Keyspace,
    durability: Durability,
    stripes: Stripes,
    cache_bytes: u64,
}

impl Fjall {
    pub(crate) fn open(options: &OpenOptions, separated: bool) -> Result<Self, StoreError> {
        let memory = options.memory_bytes;
        let data_bytes = options.keys as f64 * options.pair_bytes;
        // "20-25% of the available memory - or more if the data set fully fits into memory".
        let guide = if memory as f64 > 2.0 * data_bytes { memory / 2 } else { memory / 4 };
        let cache_bytes = options.cache_bytes.unwrap_or(guide);
        // By default each write is handed to the kernel; otherwise by hand.
        let by_hand = options.durability != Durability::Buffered;
        let db = Database::builder(&options.dir)
            .cache_size(cache_bytes)
            .manual_journal_persist(by_hand)
            .open()?;
        let keyspace = || {
            let separation = separated
                .then(|| KvSeparationOptions::default().separation_threshold(SEPARATED_BYTES_MIN));
            KeyspaceCreateOptions::default()
                .max_memtable_size((memory / 8).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX))
                .manual_journal_persist(by_hand)
                .with_kv_separation(separation)
        };
        let pairs = db.keyspace("pairs", keyspace)?;
        let stripes = Stripes::default();
        Ok(Self { db, pairs, durability: options.durability, stripes, cache_bytes })
    }

    fn acknowledge(&self) -> Result<(), StoreError> {
        if self.durability == Durability::Synced {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        let found = self.pairs.get(key)?;
        value.clear();
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }
}

impl Store for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(self))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(self.pairs.rotate_memtable_and_wait()?)
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

impl Session for &Fjall {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.read(key, value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.pairs.insert(key, value)?;
        self.acknowledge()
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.pairs.remove(key)?;
        self.acknowledge()
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        let _held = self.stripes.lock(key);
        let found = self.read(key, old)?;
        self.pairs.insert(key, new)?;
        self.acknowledge()?;
        Ok(found)
    }

    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError> {
        for pair in self.pairs.range(from..).take(limit) {
            let (key, value) = pair.into_inner()?;
            pairs.push(&key, &value);
        }
        Ok(())
    }

    fn load(&mut self, pairs: &Pairs) -> Result<(), StoreError> {
        let mut batch = self.db.batch();
        pairs.iter().for_each(|(key, value)| batch.insert(&self.pairs, key, value));
        batch.commit()?;
        self.acknowledge()
    }
}
