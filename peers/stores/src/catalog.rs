//! The peers by name.

use std::sync::Arc;

use bench::stores::{Catalog, OpenOptions, Store, StoreError};

use crate::fjall::Fjall;
use crate::leveldb::LevelDb;
use crate::lmdb::Lmdb;
use crate::redb::Redb;
use crate::rocksdb::RocksDb;

/// Opens peers.
pub(crate) struct Peers;

/// The names of the stores that can do everything.
#[cfg(test)]
pub(crate) const NAMES: [&str; 7] =
    ["rocksdb", "rocksdb-blob", "leveldb", "lmdb", "redb", "fjall", "fjall-blob"];

/// All their names. `faster` is refused if it is not built.
const ALL: [&str; 8] =
    ["rocksdb", "rocksdb-blob", "leveldb", "lmdb", "redb", "fjall", "fjall-blob", "faster"];

impl Catalog for Peers {
    fn names(&self) -> &'static [&'static str] {
        &ALL
    }

    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match name {
            "rocksdb" => Arc::new(RocksDb::open(options, false)?),
            "rocksdb-blob" => Arc::new(RocksDb::open(options, true)?),
            "leveldb" => Arc::new(LevelDb::open(options)?),
            "lmdb" => Arc::new(Lmdb::open(options)?),
            "redb" => Arc::new(Redb::open(options)?),
            "fjall" => Arc::new(Fjall::open(options, false)?),
            "fjall-blob" => Arc::new(Fjall::open(options, true)?),
            #[cfg(feature = "faster")]
            "faster" => Arc::new(crate::faster::Faster::open(options)?),
            #[cfg(not(feature = "faster"))]
            "faster" => return Err("faster is not built: see peers/README.md".into()),
            _ => return Err(format!("no peer is named {name}: {}", ALL.join(", ")).into()),
        })
    }

    /// LMDB has no cache but the page cache.
    fn sizes_cache(&self, name: &str) -> bool {
        name != "lmdb"
    }

    /// FASTER's log is of no use without a checkpoint, which is not measured.
    fn reopens(&self, name: &str) -> bool {
        name != "faster"
    }
}
