//! LMDB, through heed. The tuning is argued in `peers/README.md`.
#![expect(unsafe_code, reason = "heed marks opening a memory map, and its flags, as unsafe")]

use std::ops::Bound;

use bench::stores::{DeviceCounts, Durability, OpenOptions, Pairs, Session, Store, StoreError};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};

/// Address space for the map, as a multiple: only written pages become a file's blocks.
const MAP_FACTOR: f64 = 8.0;
const MAP_BYTES_MIN: usize = 1 << 30;
const READERS_MAX: u32 = 1100;

pub(crate) struct Lmdb {
    env: Env,
    pairs: Database<'static, Bytes, Bytes>,
}

impl Lmdb {
    pub(crate) fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        let data_bytes = options.keys as f64 * options.pair_bytes;
        let page = 1 << 16;
        let map = ((data_bytes * MAP_FACTOR) as usize).max(MAP_BYTES_MIN).next_multiple_of(page);
        let mut flags = EnvFlags::NO_MEM_INIT;
        if (options.memory_bytes as f64) < data_bytes {
            // Reading ahead only evicts wanted pages when the data do not fit.
            flags |= EnvFlags::NO_READ_AHEAD;
        }
        flags |= match options.durability {
            Durability::None => EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::MAP_ASYNC,
            Durability::Buffered => EnvFlags::NO_SYNC,
            Durability::Synced => EnvFlags::empty(),
        };
        let mut open = EnvOpenOptions::new();
        open.map_size(map).max_readers(READERS_MAX);
        // SAFETY: the flags that omit crash safety are the ones of the durability; the map is of a
        // directory of its own that no other process opens.
        unsafe { open.flags(flags) };
        // SAFETY: as above: nothing else changes the file under the map.
        let env = unsafe { open.open(&options.dir) }?;
        let created = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        let pairs = created?.unwrap_commit();
        Ok(Self { env, pairs })
    }
}

impl Store for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(self))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(self.env.force_sync()?)
    }

    fn device(&self) -> Option<DeviceCounts> {
        None
    }

    fn close(&self) -> Result<(), StoreError> {
        // Closed on drop.
        Ok(())
    }
}

impl Session for &Lmdb {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        let txn = self.env.read_txn()?;
        let found = self.pairs.get(&txn, key)?;
        value.clear();
        value.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn()?;
        self.pairs.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn()?;
        self.pairs.delete(&mut txn, key)?;
        Ok(txn.commit()?)
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut txn = self.env.write_txn()?;
        let found = self.pairs.get(&txn, key)?;
        old.clear();
        old.extend_from_slice(found.unwrap_or_default());
        let found = found.is_some();
        self.pairs.put(&mut txn, key, new)?;
        txn.commit()?;
        Ok(found)
    }

    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError> {
        let txn = self.env.read_txn()?;
        for pair in self.pairs.range(&txn, &(Bound::Included(from), Bound::Unbounded))?.take(limit)
        {
            let (key, value) = pair?;
            pairs.push(key, value);
        }
        Ok(())
    }

    fn load(&mut self, pairs: &Pairs) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn()?;
        for (key, value) in pairs.iter() {
            self.pairs.put(&mut txn, key, value)?;
        }
        Ok(txn.commit()?)
    }
}
