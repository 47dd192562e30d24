//! Errors of an engine, by the caller's reaction to them.

use std::fmt;
use std::sync::Arc;

use codec::{Corruption, NewerVersion};

use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The engines' result.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed failure. Cheap to clone, since the one that stopped a store is reported again by every
/// later write.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The key is longer than any engine takes.
    #[error("a key of {bytes} bytes is too long: at most {KEY_BYTES_MAX} are allowed")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The value is longer than any engine takes.
    #[error("a value of {bytes} bytes is too long: at most {VALUE_BYTES_MAX} are allowed")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Key and value together are longer than this store takes, given its memory.
    #[error(
        "engine {engine} takes records of at most {limit} bytes here, this one has {bytes}: give \
             the store more memory or larger pages, or use another engine for long values"
    )]
    RecordTooLong {
        /// The engine.
        engine: &'static str,
        /// Length of the record.
        bytes: usize,
        /// The longest record.
        limit: usize,
    },
    /// A setting of the engine that makes no sense; nothing was opened or made.
    #[error("engine {engine} has no use for this {option}: it has to be {allowed}")]
    BadOption {
        /// The engine.
        engine: &'static str,
        /// The option's name.
        option: &'static str,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A setting that the engine does not have; nothing was opened or made.
    #[error("engine {engine} has no setting {name}; it has: {known}")]
    NoSetting {
        /// The engine.
        engine: &'static str,
        /// The name.
        name: String,
        /// The names of its settings.
        known: String,
    },
    /// The engine keeps no order, so it cannot scan, remove a range, or show a snapshot.
    #[error("engine {engine} keeps no order of keys, so it {asked}")]
    Unordered {
        /// The engine that was asked.
        engine: &'static str,
        /// The operation that needs an order.
        asked: InOrder,
    },
    /// The engine keeps an order, and cannot remove a range nevertheless.
    #[error("engine {engine} cannot delete a range: delete its keys one by one")]
    NoRangeDeletes {
        /// The engine that was asked.
        engine: &'static str,
    },
    /// The engine takes pairs by writes alone.
    #[error("engine {engine} ingests nothing: put the pairs one by one, or in batches")]
    NoIngestion {
        /// The engine that was asked.
        engine: &'static str,
    },
    /// The engine neither compacts on demand nor measures ranges.
    #[error("engine {engine} does not compact on demand, and does not measure its files")]
    NoRanges {
        /// The engine that was asked.
        engine: &'static str,
    },
    /// A pair to be ingested came behind one whose key is not smaller.
    #[error(
        "key \"{}\" was to be ingested behind \"{}\": keys come in ascending order, each once",
        key.escape_ascii(), before.escape_ascii()
    )]
    NotAscending {
        /// The key.
        key: Vec<u8>,
        /// The one that came before it.
        before: Vec<u8>,
    },
    /// The memory budget is used up and the engine has nowhere else to put data.
    #[error(
        "the memory budget of {limit} bytes is used up: raise it, or delete something; with \
             engine memory, an engine that keeps its data on disk needs less"
    )]
    OutOfMemory {
        /// The budget.
        limit: u64,
    },
    /// The device has to be read, and the caller does not wait. Only within an engine:
    /// [`crate::Cursor::try_next`] returns [`crate::TryNext::WouldBlock`].
    #[error("the device has to be read first")]
    WouldWait,
    /// A write that is larger than the memory of its store, in which it must be collected.
    #[error(
        "a write of {bytes} bytes is larger than the {limit} bytes of memory that the keyspace \
             has: write less at a time, or raise the memory"
    )]
    WriteTooLarge {
        /// Bytes of the write's keys and values.
        bytes: u64,
        /// Bytes of memory of the store.
        limit: u64,
    },
    /// Work that should release space fails, and too much space is used. Undamaged data can be
    /// read; writes are accepted again once the work succeeds.
    #[error(
        "read-only: {what} takes {bytes} bytes, {limit} at most, and none can be given back: {cause}"
    )]
    SpaceUsedUp {
        /// The user of the space.
        what: &'static str,
        /// How much it takes.
        bytes: u64,
        /// How much it may take.
        limit: u64,
        /// Why it cannot give it back.
        cause: Arc<Error>,
    },
    /// The bound on space is reached, and no garbage can be collected. The write has changed
    /// nothing. Reads and deletes still work, and a later write may be accepted.
    #[error(
        "no space: {live_bytes} bytes of at most {limit_bytes} are live and snapshots hold \
             {held_bytes}, so {more_bytes} are missing: delete something, end snapshots, or raise \
             disk_bytes_max"
    )]
    NoSpace {
        /// Bytes of live records.
        live_bytes: u64,
        /// Bytes of older records that snapshots hold.
        held_bytes: u64,
        /// The bound.
        limit_bytes: u64,
        /// Bytes that are missing for the write.
        more_bytes: u64,
    },
    /// Stored bytes are not the bytes that were written.
    #[error("damaged data: {0}")]
    Corruption(Corruption),
    /// A newer release wrote a file. Nothing was changed.
    #[error(transparent)]
    NewerVersion(#[from] NewerVersion),
    /// The storage failed.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// An earlier failure stopped all writes; open the store again to continue.
    #[error("the store is read-only since a write failed: {cause}")]
    ReadOnly {
        /// That failure.
        cause: Arc<Error>,
    },
    /// A log's addresses are used up: 128 TiB were written to it in its life. Its data can be read;
    /// to write again, dump it and load the dump into another directory.
    #[error("the log is at the end of its addresses: dump the data, and load them again")]
    LogEnded,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The journal failed, so an engine must not make a file durable. Its own files are sound.
    #[error("the journal failed: {cause}")]
    Journal {
        /// That failure.
        #[source]
        cause: Arc<Error>,
    },
    /// The journal has no room on the device, or no file descriptor, for records that an engine's
    /// file would hold effects of. The engine's file is not made durable for now. A later attempt
    /// may succeed.
    #[error("the journal cannot be written for now: {cause}")]
    NoRoomForJournal {
        /// The failure of the device. The files that it names are the journal's.
        #[source]
        cause: device::Error,
    },
    /// A task in the background panicked: a mistake of ours. It does not run again; stored data can
    /// be read, and writes are refused until the store is opened again.
    #[error(transparent)]
    Panicked(#[from] workers::TaskPanic),
}

impl From<memory_budget::OutOfMemory> for Error {
    fn from(memory_budget::OutOfMemory { limit }: memory_budget::OutOfMemory) -> Self {
        Self::OutOfMemory { limit }
    }
}

impl From<Corruption> for Error {
    fn from(corruption: Corruption) -> Self {
        corruption.judge().map_or_else(Self::NewerVersion, Self::Corruption)
    }
}

/// An operation that needs an order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InOrder {
    /// A scan, or a range that a transaction reads.
    Scan,
    /// A view of one moment.
    Snapshot,
    /// A range delete.
    RangeDelete,
    /// The compaction of a range, or its size.
    PartOfKeys,
}

/// The operation that an engine without order refuses, and the caller's alternative.
impl fmt::Display for InOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scan => {
                "cannot scan: walk over all its pairs, in an order of its own (`Keyspace::walk`); an \
                 ordered engine can"
            }
            Self::Snapshot => {
                "shows no snapshots: get reads the present value; an ordered engine shows them"
            }
            Self::RangeDelete => {
                "cannot delete a range: delete its keys one by one"
            }
            Self::PartOfKeys => {
                "compacts and measures only the whole keyspace: give no range; an ordered engine takes one"
            }
        })
    }
}

impl Error {
    /// Returns whether it refuses one write before anything was changed; another one, or the same
    /// one later, may be accepted.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            Self::KeyTooLong { .. }
                | Self::ValueTooLong { .. }
                | Self::RecordTooLong { .. }
                | Self::Unordered { .. }
                | Self::NoRangeDeletes { .. }
                | Self::NoIngestion { .. }
                | Self::NoRanges { .. }
                | Self::NotAscending { .. }
                | Self::OutOfMemory { .. }
                | Self::WriteTooLarge { .. }
                | Self::SpaceUsedUp { .. }
                | Self::NoSpace { .. }
        )
    }

    /// Returns whether it may be temporary: room is missing on the device or in the memory's
    /// budget, the process has too many files open, or the place of some data cannot be reached.
    /// Background work that failed so has done nothing that counts, and it can be tried again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Device(error) => error.is_retryable(),
            Self::OutOfMemory { .. }
            | Self::SpaceUsedUp { .. }
            | Self::NoSpace { .. }
            | Self::NoRoomForJournal { .. } => true,
            _ => false,
        }
    }

    /// Returns whether this error of a write to a store's files stops later writes (law L5). A
    /// failure of the journal and a close say nothing about these files, and a retryable error may
    /// pass.
    pub fn stops_writes(&self) -> bool {
        !matches!(self, Self::Journal { .. } | Self::Closed) && !self.is_retryable()
    }

    /// Returns the same failure of a store in `dir`, a directory of the database: files are named
    /// by their paths there.
    #[must_use]
    pub fn in_dir(self, dir: &str) -> Self {
        let of = |cause: &Arc<Self>| Arc::new(Self::clone(cause).in_dir(dir));
        match self {
            Self::Corruption(damage) => Self::Corruption(damage.in_dir(dir)),
            Self::NewerVersion(newer) => Self::NewerVersion(newer.in_dir(dir)),
            Self::Device(error) => Self::Device(error.in_dir(dir)),
            Self::ReadOnly { cause } => Self::ReadOnly { cause: of(&cause) },
            Self::SpaceUsedUp { what, bytes, limit, cause } => {
                Self::SpaceUsedUp { what, bytes, limit, cause: of(&cause) }
            }
            // The journal is in no such directory.
            other => other,
        }
    }

    /// Returns the failure of a journal that `cause` stopped.
    #[must_use]
    pub fn of_journal(cause: impl Into<Self>) -> Self {
        Self::Journal { cause: Arc::new(cause.into()) }
    }

    /// Returns the failure that another one has carried, directly or through several: of a store
    /// that is read-only, of space that cannot be released, of the journal. Any other one is its
    /// own.
    pub fn root_cause(&self) -> &Self {
        match self {
            Self::ReadOnly { cause }
            | Self::SpaceUsedUp { cause, .. }
            | Self::Journal { cause } => cause.root_cause(),
            own => own,
        }
    }

    /// Returns the error that later writes get once this one stopped the store.
    #[must_use]
    pub fn poisoning(&self) -> Self {
        match self {
            Self::ReadOnly { .. } => self.clone(),
            other => Self::ReadOnly { cause: Arc::new(other.clone()) },
        }
    }
}
