//! The interface through which a benchmark measures every store.
//!
//! The same semantics for all: a `put` or `delete` that has returned is seen by every later read of
//! any session; `rmw` is atomic; a scan is ascending from a key that need not exist. A store that
//! cannot do one of these natively is made to by its adapter, which says so.

mod cluster;
#[cfg(feature = "cluster")]
mod nova;
mod thermocline;
mod variant;
#[cfg(not(feature = "cluster"))]
mod without_nova;

pub(crate) use cluster::check_cluster;
pub use cluster::{ClusterPlace, ClusterSettings};
pub use thermocline::Ours;
pub(crate) use variant::check;
pub use variant::is_ours;
#[cfg(not(feature = "cluster"))]
use without_nova as nova;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::report::WriterWait;
use crate::shape::Keys;
use crate::workload::Workload;

/// Why a store did not do what it was asked. It ends the run; no caller acts on its kind.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// The failures that an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing is promised before a flush: no journal.
    None,
    /// It has reached the kernel: it survives the process, not the machine.
    Buffered,
    /// It has reached the device.
    Synced,
}

/// How a store reads and writes its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Past the page cache, if the store can.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// A word that is none of an option's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?}: want {wanted}")]
pub struct WordError {
    given: String,
    wanted: &'static str,
}

impl WordError {
    /// `given` is not one of `wanted`.
    pub fn new(given: &str, wanted: &'static str) -> Self {
        Self { given: given.to_owned(), wanted }
    }
}

impl FromStr for Durability {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text {
            "none" => Ok(Self::None),
            // The facade's name for writes that have reached the kernel.
            "buffered" | "flushed" => Ok(Self::Buffered),
            "synced" => Ok(Self::Synced),
            _ => Err(WordError::new(text, "none, buffered or synced")),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Buffered => "buffered",
            Self::Synced => "synced",
        })
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
        })
    }
}

impl FromStr for Io {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text {
            "direct" => Ok(Self::Direct),
            "buffered" => Ok(Self::Buffered),
            _ => Err(WordError::new(text, "direct or buffered")),
        }
    }
}

/// How a store is to be opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// A directory of its own: empty, or with the files that the same store left there under the
    /// same options.
    pub dir: PathBuf,
    /// Its whole budget: index, buffers and caches, in bytes.
    pub memory_bytes: u64,
    /// The size of its cache in bytes, in the sense of [`Store::cache_bytes`]; `None` for the part
    /// of the budget that the store's own guide gives to it.
    pub cache_bytes: Option<u64>,
    /// The failures that acknowledged writes survive.
    pub durability: Durability,
    /// How it does I/O; `None` for the store's own default.
    pub io: Option<Io>,
    /// Threads that will use it.
    pub threads: usize,
    /// Keys that will be loaded.
    pub keys: u64,
    /// The keys by their numbers.
    pub key_space: Keys,
    /// Bytes of a key and its value, on average.
    pub pair_bytes: f64,
    /// The cluster that the store is on, if it is on one.
    pub cluster: Option<ClusterSettings>,
}

/// Bytes and operations at the device since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Read operations.
    pub read_ops: u64,
    /// Write operations.
    pub write_ops: u64,
}

/// A store under measurement.
pub trait Store: Send + Sync {
    /// A handle for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError>;

    /// Writes the memory's data to the files, as the store does it before a clean close.
    fn flush(&self) -> Result<(), StoreError>;

    /// Returns the store's own counts at its device; `None` if it cannot, and the operating
    /// system's counts of the process are used.
    fn device(&self) -> Option<DeviceCounts>;

    /// Returns the store's own figures, by the names it has for them.
    fn figures(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Returns the long waits of its writers, the longest first, if it counts them.
    fn writer_waits(&self) -> Vec<WriterWait> {
        Vec::new()
    }

    /// Bytes that the setting was given which decides how much of the budget the store keeps
    /// resident: the size of a cache, or of a whole that the store splits by itself. `None` if it
    /// has no such setting.
    fn cache_bytes(&self) -> Option<u64> {
        None
    }

    /// Blocks until the background work that is due has ended, if the store has a call for that.
    fn finish_background_work(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reports the store's background work.
    fn background(&self) -> Background {
        Background::Unknown
    }

    /// Closes it. No session is alive.
    fn close(&self) -> Result<(), StoreError>;
}

/// The background work of a store, as far as the store itself reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Background {
    /// None is under way, and the store begins none before its next write.
    AtRest,
    /// Some is under way, described in a few words.
    UnderWay(String),
    /// The store does not know of any, and may begin some.
    Unknown,
}

/// How a get or a read-modify-write began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// It is done; the value that the key had is there.
    Found,
    /// It is done; the key had none.
    Absent,
    /// [`Session::complete`] will report it.
    Pending,
    /// Too many are under way; nothing was begun.
    Full,
}

/// A callback for a pending operation that is done: it gets the tag, and the value that the key
/// had, if it had one.
pub type OnRead<'a> = dyn FnMut(u64, Result<Option<&[u8]>, StoreError>) + 'a;

/// One thread's handle on a store.
pub trait Session {
    /// Replaces `value` with the value of `key`; `false` if there is none.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError>;

    /// From now on up to `depth` gets and read-modify-writes may be under way at the same time;
    /// `false` if the store has no means for it.
    fn overlap(&mut self, _depth: usize) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Begins a get, once [`Session::overlap`] said yes.
    fn begin_get(&mut self, _tag: u64, key: &[u8], value: &mut Vec<u8>) -> Result<Got, StoreError> {
        Ok(if self.get(key, value)? { Got::Found } else { Got::Absent })
    }

    /// Begins a [`Session::rmw`], once [`Session::overlap`] said yes. No other that is pending has
    /// the same tag.
    fn begin_rmw(
        &mut self,
        _tag: u64,
        key: &[u8],
        new: &[u8],
        old: &mut Vec<u8>,
    ) -> Result<Got, StoreError> {
        Ok(if self.rmw(key, new, old)? { Got::Found } else { Got::Absent })
    }

    /// Calls `on_done` for each pending operation that is done, and returns how many there were.
    /// With `waits` it waits until an operation is done, if any is pending.
    fn complete(&mut self, _waits: bool, _on_done: &mut OnRead<'_>) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Writes a pair.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key, which need not exist.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError>;

    /// Atomically reads the value of `key` into `old` and writes `new`; `false` if there was none.
    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError>;

    /// Appends up to `limit` pairs to `pairs`, ascending, from the first key not below `from`.
    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError>;

    /// Writes many pairs in one call, by the store's own means of bulk writing.
    fn load(&mut self, pairs: &Pairs) -> Result<(), StoreError> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }
}

/// The stores that a binary can open, by name.
pub trait Catalog: Send + Sync {
    /// Their names.
    fn names(&self) -> &'static [&'static str];

    /// Refuses runs that cannot be done, before anything is made for them: a name that is none, or
    /// has settings that do not exist, and a workload that the store has no means for.
    ///
    /// # Errors
    /// Why not, in words.
    fn check(&self, name: &str, _workload: &Workload) -> Result<(), StoreError> {
        match self.names() {
            names if names.contains(&name) => Ok(()),
            names => Err(format!("there is no store {name:?}: {}", names.join(", ")).into()),
        }
    }

    /// Opens one.
    ///
    /// # Errors
    /// There is none by this name, or it refuses the options.
    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError>;

    /// Whether the store opens again what it has closed, also from a copy of its files.
    fn reopens(&self, _name: &str) -> bool {
        true
    }

    /// Whether the store obeys [`OpenOptions::cache_bytes`].
    fn sizes_cache(&self, _name: &str) -> bool {
        false
    }
}

/// Pairs in one buffer.
#[derive(Debug, Default)]
pub struct Pairs {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Pairs {
    /// Adds a pair.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Drops all pairs and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the pairs in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        starts
            .zip(&self.ends)
            .map(|(start, &(key, end))| (&self.bytes[start..key], &self.bytes[key..end]))
    }
}
