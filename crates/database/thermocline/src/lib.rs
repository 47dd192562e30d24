//! Thermocline: a key-value store for data that is larger than memory and skewed.
//!
//! A [`Db`] is a directory. It holds [`Keyspace`]s, each with its own keys and the engine that its
//! data wants. A [`Batch`] over several of them is one atomic write, also across a crash. A
//! [`Snapshot`] shows all ordered ones at one moment.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! use thermocline::{Db, KeyRange, Options};
//!
//! let db = Db::open(path, Options::default())?;
//! let users = db.keyspace("users", Default::default())?;
//! users.put(b"ada", b"analyst")?;
//! assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"analyst"[..]));
//! for pair in users.scan(KeyRange::prefix(b"a"))? {
//!     let (key, value) = pair?;
//!     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Engines
//! [`EngineKind`] says which engines there are, and which data each is for. Some keep all of their
//! data in memory, others only the part that fits. An ordered engine ([`EngineKind::is_ordered`])
//! has scans and snapshots. Keyspaces of the others take puts, gets, deletes, read-modify-writes
//! and their part in batches and checkpoints, and are walked over ([`Keyspace::walk`]). Scans and
//! snapshots of them are refused.
//!
//! # Reading and then writing
//! [`Keyspace::compare_and_swap`] and [`Keyspace::rmw`] change one key by its value,
//! [`Db::atomically`] several that are known beforehand. [`Keyspace::merge`], [`Batch::merge`] and
//! [`Transaction::merge`] change keys by an operator that the keyspace has by name
//! ([`KeyspaceOptions::merge`]). A transaction ([`Db::transaction`], [`Db::begin`]) reads and scans
//! any keys of any keyspaces, and commits if no other writer has changed them. Transactions are
//! serializable with each other and with every other write. An example of [`Db::transaction`] takes
//! the first pair of a queue.
//!
//! # Values that expire
//! In a keyspace that is made for it ([`KeyspaceOptions::expiring`]) a value may have an expiry
//! ([`ExpiringKeyspace::put`], [`ExpiringKeyspace::put_with_ttl`]), from which on no read shows it.
//!
//! # Many keys in one operation
//! [`Keyspace::ingest`] puts sorted pairs into a keyspace of `lsm` as one write,
//! [`Keyspace::delete_range`] deletes a range of keys of `lsm` or `memory`.
//!
//! # Copies, checks, damage
//! [`Db::backup`] adds a backup of a running database to [`Backups`], [`Db::checkpoint`] makes a
//! database of its own. [`fn@check`] verifies every byte, [`Db::open_read_only`] changes none, and
//! [`fn@salvage`] makes a new database from the sound parts of a damaged one.
//!
//! # Memory
//! [`Options::memory_bytes`] limits the memory of a database. It moves between keyspaces, to the
//! one that saves most I/O with it ([`Options::balance_memory`]).
//!
//! # Many operations at the same time
//! A get of a value on disk waits for the device, and so does a read-modify-write.
//! [`Keyspace::multi_get`] overlaps the gets of its call. [`Keyspace::session`] is a thread's
//! session on which gets and read-modify-writes are pending; it reports each one when it completes.
//!
//! [`Keyspace::futures`] has gets and writes as futures for any executor, and [`Db::write_async`]
//! writes a [`Batch`]. No poll waits for the device, for the journal, or for work that slows
//! writers down. [`AsyncKeyspace::put`] documents the order in which they take place, and the
//! meaning of a drop.
//!
//! # Durability
//! Every write waits for a [`Durability`]: `Buffered` (in the process), `Flushed` (in the kernel:
//! survives a killed process) or `Synced` (on the device: survives a power cut). A handle carries
//! the one that its writes wait for. With each of them, after a crash the database holds exactly
//! the first N writes, N at least the last one that was acknowledged at `Synced`.
//!
//! # Errors
//! [`ErrorKind`] groups errors by the caller's reaction ([`Error::kind`]). An engine's own error is
//! [`Error::Engine`] with a variant of [`error::Engine`].
//!
//! # To follow the code
//! A put starts at [`Keyspace::put`] and goes through `write.rs`; recovery starts at
//! [`Db::open`] in `open.rs`. The engines are behind the trait `Engine` of the crate
//! `thermocline-engine`.

/// The examples of the page for users of RocksDB, run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/from-rocksdb.md")]
struct FromRocksDb;

/// The example of the page for users of fjall.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/from-fjall.md")]
struct FromFjall;

/// The examples of the first page, `README.md`; they are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

/// The example of the page about values that expire.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/expiry.md")]
struct ExpiryPage;

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as thermocline;

mod async_keyspace;
mod async_writes;
mod atomically;
mod background;
mod backup;
mod batch;
mod catalog;
mod check;
mod checkpoint;
mod close;
mod compare_and_swap;
mod copy_side;
mod damaged;
mod database;
mod descriptors;
mod directory;
mod discarded_journal;
mod drivers;
pub mod error;
mod expiry;
mod flush;

mod ingestion;
mod journal_barrier;
mod key_locks;
mod keyspace;
mod keyspace_entry;
mod keyspace_set;
mod keyspaces;
mod lifecycle;
mod memory_balance;
mod memory_limit;
mod memory_needed;
mod memory_shares;
mod merge;
mod metrics;
mod old_values;
mod open;
mod options;
mod owner;
mod read_only;
mod record;
mod refusals;
mod rmw;
mod room_to_open;
mod rooms;
mod salvage;
mod scan;
mod session;
mod shared_parts;
mod snapshot;
mod snapshot_ages;
#[cfg(test)]
mod stand_in;
mod stats;
#[cfg(test)]
mod tests;
mod transaction;
mod trim_holds;
mod try_write;
mod updates;
mod write;
mod write_order;

pub use async_keyspace::AsyncKeyspace;
pub use async_writes::{AsyncBatch, AsyncSwap, AsyncUpdate, AsyncWrite};
pub use atomically::{Section, TriedSection};
pub use backup::{Backup, Backups, Progress, Stage};
pub use batch::{Batch, BatchStep};
#[doc(hidden)]
pub use catalog::decode_catalog;
pub use check::{Checked, DAMAGE_MAX, Report, check, check_on};
pub use compare_and_swap::Swap;
pub use copy_side::CopySide;
pub use database::Db;
pub use drivers::EngineKind;
pub use drivers::exports::*;
pub use error::{Error, ErrorKind, Result};
pub use expiry::{
    Expiring, ExpiringChange, ExpiringKeyspace, ExpiryPause, ExpiryStats, PauseExpiry,
};
pub use ingestion::Ingestion;
pub use keyspace::Keyspace;
pub use memory_balance::{MemoryMoves, SharedMemory};
pub use merge::{MergeName, MergeOperators};
pub use metrics::DatabaseMetrics;
pub use options::{KeyspaceOptions, Options};
#[doc(hidden)]
pub use owner::decode_owner;
#[doc(hidden)]
pub use record::decode_write;
pub use rmw::Tried;
pub use salvage::{Salvage, SalvageOutcome, SalvagedKeyspace, salvage, salvage_on};
pub use scan::Scan;
pub use session::{
    AsyncGet, AsyncMultiGet, Completed, LookupForUpdate, OnDone, ReadForUpdate, Session,
    SessionGet, SessionRmw,
};
pub use shared_parts::SharedParts;
pub use snapshot::Snapshot;
pub use stats::{KeyspaceStats, Stats, WriterWaits};
pub use transaction::{Transaction, TransactionOptions, TransactionScan};
pub use updates::UpdateStats;

/// Storage for [`Db::open_on`] and the other functions that take a device: a directory, memory, or
/// an implementation of its traits.
pub use ::device;
pub use ::environment;
#[doc(hidden)]
pub use ::sync;
pub use ::telemetry;
#[doc(hidden)]
pub use codec::hash64;
pub use codec::{Corruption, Newer, NewerVersion, SeqNo};
pub use device::{Device, Doorbell, Io, IoCounts};
#[doc(hidden)]
pub use engine::Driver;
pub use engine::Stats as EngineStats;
pub use engine::{
    BackgroundError, Change, Direction, EngineSettings, KEY_BYTES_MAX, KeyRange, Lost, LostKeys,
    Op, Operator, Scope, Setting, SettingKind, Settings, TryNext, VALUE_BYTES_MAX, Visit,
};
pub use environment::{Environment, WaitCounts};
pub use journal::{Durability, Stats as JournalStats};
pub use telemetry::Registry;

/// Bytes of the keys and values of one write or batch to journaled keyspaces, at most.
pub const WRITE_BYTES_MAX: usize = journal::Options::RECORD_BYTES_MAX;
