//! redb. The tuning is argued in `peers/README.md`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::stores::{DeviceCounts, Durability, OpenOptions, Pairs, Session, Store, StoreError};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");
/// Commits that are not durable hold back the pages they free until one is; one is made this often.
const DURABLE_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Redb {
    db: Database,
    durability: Durability,
    cache_bytes: u64,
    opened: Instant,
    /// Milliseconds from `opened` to the last durable commit.
    durable_ms: AtomicU64,
}

impl Redb {
    pub(crate) fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        let cache_bytes = options.cache_bytes.unwrap_or(options.memory_bytes / 10 * 8);
        let file = options.dir.join("data.redb");
        let db = Database::builder().set_cache_size(cache_bytes as usize).create(file)?;
        let durable_ms = AtomicU64::new(0);
        let (durability, opened) = (options.durability, Instant::now());
        let this = Self { db, durability, cache_bytes, opened, durable_ms };
        // Readers want the table to exist.
        this.write(|_| Ok(()))?;
        Ok(this)
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut txn = self.db.begin_write()?;
        self.set_durability(&mut txn)?;
        let done = work(&mut txn.open_table(PAIRS)?)?;
        txn.commit()?;
        Ok(done)
    }

    fn set_durability(&self, txn: &mut WriteTransaction) -> Result<(), StoreError> {
        let now = self.opened.elapsed().as_millis() as u64;
        let due = self.durable_ms.load(Ordering::Relaxed) + DURABLE_EVERY.as_millis() as u64;
        if self.durability == Durability::Synced || now >= due {
            self.durable_ms.store(now, Ordering::Relaxed);
            txn.set_durability(redb::Durability::Immediate)?;
        } else {
            txn.set_durability(redb::Durability::None)?;
        }
        Ok(())
    }
}

impl Store for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(self))
    }

    fn flush(&self) -> Result<(), StoreError> {
        // A durable commit makes all commits before it durable.
        Ok(self.db.begin_write()?.commit()?)
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

impl Session for &Redb {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        let table = self.db.begin_read()?.open_table(PAIRS)?;
        let found = table.get(key)?;
        value.clear();
        value.extend_from_slice(found.as_ref().map_or(&[][..], |found| found.value()));
        Ok(found.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.write(|table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.write(|table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.write(|table| {
            old.clear();
            let found = table.get(key)?.map(|found| old.extend_from_slice(found.value())).is_some();
            table.insert(key, new)?;
            Ok(found)
        })
    }

    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError> {
        let table = self.db.begin_read()?.open_table(PAIRS)?;
        for pair in table.range(from..)?.take(limit) {
            let (key, value) = pair?;
            pairs.push(key.value(), value.value());
        }
        Ok(())
    }

    fn load(&mut self, pairs: &Pairs) -> Result<(), StoreError> {
        self.write(|table| {
            for (key, value) in pairs.iter() {
                table.insert(key, value)?;
            }
            Ok(())
        })
    }
}
