//! Errors of a database, grouped by the caller's possible reaction.
//!
//! An engine's own error is the enum [`Engine`] within [`Error::Engine`].
//!
//! ```
//! use thermocline::{Error, error};
//! fn is_full(failure: &Error) -> bool {
//!     matches!(
//!         failure,
//!         Error::Engine(error::Engine::OutOfMemory { .. } | error::Engine::NoSpace { .. })
//!     )
//! }
//! assert!(is_full(&Error::Engine(error::Engine::OutOfMemory { limit: 1 })));
//! ```

mod from;
mod kind;

use std::sync::Arc;

pub use device::{Error as Device, FailedOperation};
pub use engine::{Error as Engine, InOrder};
pub use journal::Error as Journal;
pub use kind::ErrorKind;
pub use workers::TaskPanic;

use codec::{Corruption, NewerVersion, SeqNo};
use engine::WriteConflict;

use crate::copy_side::CopySide;
use crate::drivers::EngineKind;
use crate::keyspace::Keyspace;
use crate::merge::MergeName;

/// The database's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed failure. Cheap to clone.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory holds no database and none was to be made.
    #[error("{path} holds no database: it has no file THERMOCLINE{}", found.as_deref()
        .map(|name| format!(", but {name}; without that file the others cannot be read, and a new database \
            is made only in an empty directory"))
        .unwrap_or_default())]
    NotADatabase {
        /// The directory.
        path: String,
        /// Something else that was found in it.
        found: Option<String>,
    },
    /// The path of the database is not a directory.
    #[error("{path} is not a directory; a database is one")]
    NotADirectory {
        /// The path.
        path: String,
    },
    /// Another process, or another handle in this one, has the database open: to write, or to read
    /// while this one would write. From [`crate::Db::backup`], [`crate::Backups::keep`] and
    /// [`crate::Backups::remove`]: another call makes or removes backups in that directory.
    #[error(
        "{path} is open elsewhere: it can be open once to write, or any number of times to read"
    )]
    InUse {
        /// The directory.
        path: String,
    },
    /// A newer release wrote a file of the database or of a backup. Nothing is damaged, and nothing
    /// was changed: that release opens it.
    #[error(transparent)]
    NewerVersion(NewerVersion),
    /// [`crate::Options::memory_bytes`] is too little for any database, or for the data that this
    /// one must hold in memory.
    #[error("{limit} bytes of memory are too few: about {needed} are needed to open the database")]
    MemoryTooSmall {
        /// The setting.
        limit: u64,
        /// Bytes that would be enough.
        needed: u64,
    },
    /// The device has no room for the writes of an opening. Nothing is lost, and the database can
    /// be opened for reading ([`crate::Db::open_read_only`]).
    #[error(
        "the database cannot be opened for lack of room: {needed_bytes} bytes free on the device are enough, and often \
         far fewer are: {cause}"
    )]
    NoRoomToOpen {
        /// Free bytes with which an opening succeeds. Fewer may be enough.
        needed_bytes: u64,
        /// The failure for lack of room.
        cause: Arc<Error>,
    },
    /// No memory is left for a keyspace that is to be made.
    #[error(
        "{left} bytes of memory are left, a keyspace of engine {engine} wants {needed}: open the \
             database again, which shares memory out again, with more of it if need be"
    )]
    NoMemoryLeft {
        /// The engine that was to store it.
        engine: EngineKind,
        /// Bytes that are left of the setting.
        left: u64,
        /// The least that it is made with.
        needed: u64,
    },
    /// The database could not be opened again with the new keyspace: it would hold more files open
    /// than the process may.
    #[error(
        "with one more keyspace of engine {engine}, next to {keyspaces} others, the database needs \
             {needed} open files, and this process may have {limit}: raise its limit (ulimit -n), \
             or take an engine that holds none open ({})",
        EngineKind::names_of(|driver| driver.descriptors == 0)
    )]
    TooManyDescriptors {
        /// The engine of the new keyspace.
        engine: EngineKind,
        /// Keyspaces that there are.
        keyspaces: u64,
        /// Descriptors that opening the database would need.
        needed: u64,
        /// Descriptors that the process may have.
        limit: u64,
    },
    /// No engine of that name.
    #[error("there is no engine {name:?}; this version has: {}", EngineKind::names())]
    UnknownEngine {
        /// The name.
        name: String,
    },
    /// A keyspace by a name that is not allowed.
    #[error(
        "{name:?} is no name for a keyspace: 1 to 64 of a-z, A-Z, 0-9, '_', '-' and '.', \
             not beginning with '.' or '-'"
    )]
    BadKeyspaceName {
        /// The name.
        name: String,
    },
    /// There is no such keyspace.
    #[error("there is no keyspace {name:?}")]
    NoKeyspace {
        /// The name.
        name: String,
    },
    /// The keyspace's files were found damaged when the database was opened, or some are missing.
    /// All other keyspaces are open. This one can be dropped ([`crate::Db::drop_keyspace`]), or its
    /// sound pairs can be brought to a new database ([`crate::salvage()`]).
    #[error(
        "keyspace {keyspace:?} is damaged and was not opened, the others were: {damage}; it can be dropped, or \
             salvaged into a new database"
    )]
    DamagedKeyspace {
        /// Its name.
        keyspace: String,
        /// The first damage that was found, and its file.
        damage: Corruption,
    },
    /// The file `THERMOCLINE` is older than the database's other files: they have keyspaces that it
    /// does not know. No file was removed. Put the newer file back, or bring everything to a new
    /// database ([`crate::salvage()`]).
    #[error(
        "{damage}; nothing was removed: put the newer file {} back, or salvage into a new database",
        damage.file
    )]
    OlderCatalog {
        /// The file, and the evidence that it is older.
        damage: Corruption,
    },
    /// The keyspace exists with other options.
    #[error(
        "keyspace {name:?} exists with engine {engine}, journaled: {journaled}, values that expire: \
             {expiring}; it cannot be opened with other options"
    )]
    KeyspaceExists {
        /// The name.
        name: String,
        /// The engine that stores it.
        engine: EngineKind,
        /// Whether it is journaled.
        journaled: bool,
        /// Whether its values may expire.
        expiring: bool,
    },
    /// Settings of another engine than the keyspace's ([`crate::KeyspaceOptions::settings`]).
    #[error(
        "settings of engine {of} ({given}) are not for a keyspace of engine {engine}, which takes {}",
        engine.keyspace_settings()
    )]
    OtherEngine {
        /// The engine that stores the keyspace.
        engine: EngineKind,
        /// The name of the engine that the settings belong to.
        of: &'static str,
        /// The settings, as `name=value` with spaces between them; `no value` if there are none.
        given: String,
    },
    /// The caller asked to change an option that is fixed when a keyspace is made
    /// ([`crate::KeyspaceOptions::settings`]).
    #[error(
        "{option} of keyspace {keyspace:?} was fixed when it was made; a new keyspace may have another one"
    )]
    FixedOption {
        /// The keyspace.
        keyspace: String,
        /// The option's name.
        option: &'static str,
    },
    /// A merge operator by a name that is not allowed.
    #[error("{name:?} is no name for a merge operator: 1 to 32 of a-z, A-Z, 0-9, '_', '-' and '.'")]
    BadMergeName {
        /// The name.
        name: String,
    },
    /// A merge in a keyspace that has no operator for it ([`crate::KeyspaceOptions::merge`]).
    #[error("keyspace {keyspace:?} has no merge operator; it gets one when it is named with one")]
    NoMergeOperator {
        /// Its name.
        keyspace: String,
    },
    /// No operator of that name was registered when the database was opened
    /// ([`crate::Options::merge_operators`]).
    #[error("no merge operator {name} was registered when the database was opened")]
    UnknownMergeOperator {
        /// The operator's name.
        name: MergeName,
    },
    /// The keyspace is merged by another operator, which stays.
    #[error("keyspace {keyspace:?} is merged by operator {stored}, and not by {asked}: that stays")]
    OtherMergeOperator {
        /// Its name.
        keyspace: String,
        /// The operator that merges it.
        stored: MergeName,
        /// The operator that the caller named.
        asked: MergeName,
    },
    /// The operator refused a merge; nothing of the write that had the merge was made.
    #[error(
        "operator {operator} refuses to merge key \"{}\" of keyspace {keyspace:?}: {why}; nothing was written",
        key.escape_ascii()
    )]
    MergeRefused {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// The operator's name.
        operator: MergeName,
        /// The operator's reason.
        why: String,
    },
    /// The keyspace was made without values that expire ([`crate::KeyspaceOptions::expiring`]): its
    /// pairs would have to be copied to another keyspace.
    #[error(
        "keyspace {keyspace:?} was made without values that expire, and that stays: only one that is made with them \
             takes an end"
    )]
    NotExpiring {
        /// Its name.
        keyspace: String,
    },
    /// A handle that takes values in their stored form ([`crate::ExpiringKeyspace::raw`]) got bytes
    /// that are no such value.
    #[error("these bytes are no stored form of an expiring value (see `Expiring`): {}", .0.what)]
    NotStored(Corruption),
    /// The keyspace was cleared while pairs were being ingested.
    #[error("keyspace {name:?} was cleared while pairs were ingested: none of them is there")]
    Cleared {
        /// The name.
        name: String,
    },
    /// A write larger than the journal takes as one record.
    #[error("a write of {bytes} bytes is too large: at most {limit} are allowed in one")]
    WriteTooLarge {
        /// Its size.
        bytes: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A key was read or written inside [`crate::Db::atomically`] without being declared.
    #[error("the key was not among those declared to `atomically`")]
    UndeclaredKey,
    /// A value was read inside [`crate::Db::atomically`] or [`crate::Db::try_atomically`] for which
    /// the device has to be read. The body returns it in turn.
    #[error("the device has to be read for the value, and this call does not wait")]
    WouldWait,
    /// Another writer has written a key that the transaction read; none of its writes was made.
    #[error(
        "key \"{}\" of keyspace {keyspace:?} was written by another writer after the \
             transaction had read it; nothing was written, begin it again", key.escape_ascii()
    )]
    Conflict {
        /// The key's keyspace.
        keyspace: String,
        /// The key; of a range that was read, the one that was written in it. If the whole keyspace
        /// was cleared, some key or the first one of a range that was read.
        key: Vec<u8>,
    },
    /// The database cannot check the transaction's reads any more, because too many writes were
    /// made while it was open; none of its own writes was made.
    #[error(
        "the transaction was open too long: the database has forgotten some writes since it began, so \
             its reads in keyspace {keyspace:?} cannot be verified; nothing was written, begin it again"
    )]
    TransactionTooOld {
        /// The keyspace that the transaction had read.
        keyspace: String,
    },
    /// The transaction's reads and writes would take more memory than is left. The transaction is
    /// unchanged: it can still be committed or rolled back.
    #[error(
        "the transaction would hold {bytes} bytes, more than is left of the memory budget of {limit} bytes: commit \
             in smaller parts, or raise it"
    )]
    TransactionTooLarge {
        /// Bytes that it would hold.
        bytes: u64,
        /// The setting.
        limit: u64,
    },
    /// Returned by the body of a transaction that is not to be committed; nothing else returns it.
    #[error("the transaction was rolled back by its own body")]
    RolledBack,
    /// The directory that a copy or a new database is to be made in is not empty.
    #[error("{path} is not empty; a new or empty directory is wanted")]
    NotEmpty {
        /// The directory.
        path: String,
    },
    /// A directory that was to hold backups holds something else.
    #[error("{path} holds {found:?}, which is no backup; backups want a directory of their own")]
    NotBackups {
        /// The directory.
        path: String,
        /// The name of the entry that was found in it.
        found: String,
    },
    /// A database was to be made in a directory of backups, which would then be no such directory
    /// any more.
    #[error("{path} lies in {backups}, a directory of backups; a database wants another place")]
    AmongBackups {
        /// The path of the database that was to be made.
        path: String,
        /// The directory of backups.
        backups: String,
    },
    /// There is no such backup, or none at all.
    #[error("{path} holds no {}{}", number.map_or("whole backup".to_owned(), |n| format!("backup {n}")),
        cut_off.as_deref()
            .map(|name| format!("; {name} is there, but was cut off before it was whole"))
            .unwrap_or_default())]
    NoBackup {
        /// The directory.
        path: String,
        /// The number that the caller asked for; `None` for the newest.
        number: Option<u64>,
        /// One that was begun and never became whole.
        cut_off: Option<String>,
    },
    /// A copy failed: a backup, a checkpoint, a database that is restored or salvaged.
    #[error("{side} of the copy, {place}: {cause}")]
    Copy {
        /// The side that failed.
        side: CopySide,
        /// The directory on that side.
        place: String,
        /// The failure.
        cause: Arc<Error>,
    },
    /// The directory's backups are of another database.
    #[error("the backups in {path} are another database's; each wants a directory of its own")]
    OtherDatabase {
        /// The directory.
        path: String,
    },
    /// The write is applied and every reader sees it, but the journal has no room to make it as
    /// durable as the caller asked for. [`crate::Db::wait`] with its number waits again. A
    /// repetition of the call is a second write.
    #[error("the write is applied, but not yet durable: {cause}")]
    NotYetDurable {
        /// The number of the write.
        seqno: SeqNo,
        /// The failure for lack of room or of file descriptors.
        cause: device::Error,
    },
    /// The journal could not be opened, written or synced. A write that failed with
    /// [`Journal::NoRoom`] was not applied.
    #[error("journal: {0}")]
    Journal(#[from] journal::Error),
    /// A background task panicked, which is a defect of this library. The task's changes are
    /// undone.
    #[error(transparent)]
    Background(workers::TaskPanic),
    /// The database stopped taking writes after a failure; open it again to continue.
    #[error("the database is read-only since a write failed: {cause}")]
    ReadOnly {
        /// That failure.
        cause: Arc<Error>,
    },
    /// The database was opened by [`crate::Db::open_read_only`].
    #[error("{path} was opened to be read; nothing can be written by this handle")]
    OpenedReadOnly {
        /// The directory.
        path: String,
    },
    /// Another process has opened the database, and this one is a child that a fork has made of it.
    /// The child cannot use the handle: threads, locks and files belong to the parent. It may drop
    /// the handle, and open the database itself once the parent has closed it.
    #[error(
        "process {called_by} cannot use a database that process {opened_by} opened before a fork: drop the handle \
             and open the database in this process"
    )]
    Forked {
        /// Id of the process that opened the database.
        opened_by: u32,
        /// Id of the process that made the call.
        called_by: u32,
    },
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// The operating system refused a thread.
    #[error("cannot start a thread: {0}")]
    Thread(String),
    /// An engine's own error: match its variants as `Error::Engine(error::Engine::NoSpace { .. })`.
    #[error(transparent)]
    Engine(engine::Error),
}

impl Error {
    /// Returns the failure of the consumer of a record, whatever its type. A failure of a foreign
    /// type is returned as the error.
    fn of_replay(source: journal::ReplayError) -> std::result::Result<Self, journal::ReplayError> {
        let source = match source.downcast::<Self>() {
            Ok(own) => return Ok(*own),
            Err(other) => other,
        };
        let source = match source.downcast::<engine::Error>() {
            Ok(error) => return Ok((*error).into()),
            Err(other) => other,
        };
        let source = match source.downcast::<device::Error>() {
            Ok(error) => return Ok((*error).into()),
            Err(other) => other,
        };
        source.downcast::<journal::Error>().map(|error| Self::Journal(*error))
    }

    /// Returns the damage and its place, if stored bytes were found damaged.
    pub fn corruption(&self) -> Option<&Corruption> {
        match self {
            Self::Engine(error) => match error.root_cause() {
                engine::Error::Corruption(corruption) => Some(corruption),
                _ => None,
            },
            Self::DamagedKeyspace { damage, .. } | Self::OlderCatalog { damage } => Some(damage),
            Self::ReadOnly { cause } | Self::Copy { cause, .. } => cause.corruption(),
            _ => None,
        }
    }

    /// Returns the same failure of files in `dir`, a directory of the database.
    #[must_use]
    pub(crate) fn in_dir(self, dir: &str) -> Self {
        match self {
            Self::Engine(error) => Self::Engine(error.in_dir(dir)),
            Self::NewerVersion(newer) => Self::NewerVersion(newer.in_dir(dir)),
            other => other,
        }
    }

    /// Returns whether the device was full. It returns false for [`Engine::NoSpace`], the bound
    /// `disk_bytes_max` of a keyspace of `hashkv`; [`ErrorKind::NoSpace`] covers both.
    pub fn is_no_space(&self) -> bool {
        matches!(self.device_cause(), Some(device::Error::NoSpace { .. }))
    }

    /// Returns the failure of the storage that is behind this one, if there is one.
    pub(crate) fn device_cause(&self) -> Option<&device::Error> {
        match self {
            Self::Engine(error) => match error.root_cause() {
                engine::Error::Device(error) | engine::Error::NoRoomForJournal { cause: error } => {
                    Some(error)
                }
                _ => None,
            },
            Self::Journal(journal::Error::Stopped { cause } | journal::Error::NoRoom { cause }) => {
                Some(cause)
            }
            Self::NotYetDurable { cause, .. } => Some(cause),
            Self::ReadOnly { cause }
            | Self::Copy { cause, .. }
            | Self::NoRoomToOpen { cause, .. } => cause.device_cause(),
            _ => None,
        }
    }

    /// Returns whether the file system is mounted read-only, or the files' permissions let this
    /// user only read them.
    pub fn is_write_protected(&self) -> bool {
        matches!(self, Self::Engine(engine::Error::Device(error)) if error.is_write_protected())
    }

    /// Returns whether the same call may succeed later, because it failed for lack of room or of
    /// file descriptors. The call is refused and has no other effect.
    pub(crate) fn is_temporary_refusal(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_retryable(),
            Self::Journal(error) => matches!(error, journal::Error::NoRoom { .. }),
            Self::NotYetDurable { .. } => true,
            _ => false,
        }
    }

    /// Returns this failure of a wait for the journal as the error of a write that was applied.
    #[must_use]
    pub(crate) fn of_applied(self, seqno: SeqNo) -> Self {
        match self {
            Self::Journal(journal::Error::NoRoom { cause }) | Self::NotYetDurable { cause, .. } => {
                Self::NotYetDurable { seqno, cause }
            }
            other => other,
        }
    }

    /// Returns whether the transaction met another writer's write, so that it may succeed if it is
    /// begun again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::TransactionTooOld { .. })
    }

    /// Returns the error of a transaction that met `overtaken` in `keyspace`.
    pub(crate) fn overtaken(keyspace: &Keyspace, overtaken: WriteConflict) -> Self {
        let keyspace = keyspace.name().to_owned();
        match overtaken {
            WriteConflict::Written { key } => Self::Conflict { keyspace, key },
            WriteConflict::Forgotten => Self::TransactionTooOld { keyspace },
        }
    }

    /// Returns the error that later writes get once this one stopped the database.
    #[must_use]
    pub(crate) fn poisoning(&self) -> Self {
        match self {
            Self::ReadOnly { .. } => self.clone(),
            other => Self::ReadOnly { cause: Arc::new(other.clone()) },
        }
    }
}
