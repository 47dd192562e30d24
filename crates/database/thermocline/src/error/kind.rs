//! The kinds of errors, by the action of the caller.

use super::{Device, Engine, Error, Journal};

/// The kind of an [`Error`], by the action of its caller. Match kinds; the texts of errors are for
/// people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call is wrong: a name, a size, an option, an order of calls. The same call fails again.
    /// Among others [`Error::WriteTooLarge`], [`Engine::WriteTooLarge`], [`Error::MergeRefused`],
    /// [`Error::NoMergeOperator`], [`Error::RolledBack`], [`Error::OtherDatabase`],
    /// [`Error::Forked`] and [`Engine::BadOption`].
    InvalidInput,
    /// The database, keyspace, backup, file or merge operator does not exist.
    NotFound,
    /// A file, a directory or a keyspace exists already, or exists with other options.
    Exists,
    /// Another process or handle has the database open, or another call makes or removes backups in
    /// the same directory.
    InUse,
    /// The engine or this version cannot do it.
    Unsupported,
    /// Another writer was first. Nothing was written; run the transaction again. Also
    /// [`Error::Cleared`], of an ingestion.
    Conflict,
    /// The device has no room, or a keyspace of `hashkv` has reached its `disk_bytes_max`
    /// ([`Engine::NoSpace`]). The call succeeds once there is room. Also [`Engine::SpaceUsedUp`],
    /// if background work lacks room.
    NoSpace,
    /// The write is applied, and the journal has no room to make it as durable as the caller asked
    /// for ([`Error::NotYetDurable`]). Do not repeat the call; [`crate::Db::wait`] waits again.
    NotYetDurable,
    /// The memory budget is used up. Raise it, write less in one call, or delete data. A keyspace
    /// of `memory` evicts nothing, and still accepts deletes. Also [`Error::TransactionTooLarge`].
    OutOfMemory,
    /// A resource of the system is missing for now, such as a file descriptor or a thread. Also
    /// [`Error::WouldWait`], of a call that must not wait for the device.
    Unavailable,
    /// Stored bytes are not the bytes that were written ([`Error::corruption`]).
    Corruption,
    /// The database takes no writes: an earlier write failed, or the handle only reads.
    ReadOnly,
    /// The operating system reported a failure of the storage. After a write that failed so, later
    /// writes get [`ReadOnly`](ErrorKind::ReadOnly).
    Io,
    /// The database, the store or the journal is closed.
    Closed,
    /// A defect of this program: a background task panicked, or records came in a wrong order.
    Internal,
}

impl Error {
    /// Returns the kind, of the failure of a copy or an opening the kind of its cause.
    pub fn kind(&self) -> ErrorKind {
        use ErrorKind as Kind;
        match self {
            Self::NotADatabase { .. }
            | Self::NoKeyspace { .. }
            | Self::UnknownMergeOperator { .. }
            | Self::NoBackup { .. } => Kind::NotFound,
            Self::KeyspaceExists { .. }
            | Self::OtherMergeOperator { .. }
            | Self::NotEmpty { .. } => Kind::Exists,
            Self::InUse { .. } => Kind::InUse,
            Self::NewerVersion(_) | Self::NotExpiring { .. } => Kind::Unsupported,
            Self::Conflict { .. } | Self::TransactionTooOld { .. } | Self::Cleared { .. } => {
                Kind::Conflict
            }
            Self::NoRoomToOpen { .. } => Kind::NoSpace,
            Self::MemoryTooSmall { .. }
            | Self::NoMemoryLeft { .. }
            | Self::TransactionTooLarge { .. } => Kind::OutOfMemory,
            Self::Thread(_) | Self::WouldWait => Kind::Unavailable,
            Self::DamagedKeyspace { .. } | Self::OlderCatalog { .. } => Kind::Corruption,
            Self::ReadOnly { .. } | Self::OpenedReadOnly { .. } => Kind::ReadOnly,
            Self::Closed => Kind::Closed,
            Self::Background(_) => Kind::Internal,
            Self::NotADirectory { .. }
            | Self::TooManyDescriptors { .. }
            | Self::UnknownEngine { .. }
            | Self::BadKeyspaceName { .. }
            | Self::OtherEngine { .. }
            | Self::FixedOption { .. }
            | Self::BadMergeName { .. }
            | Self::NoMergeOperator { .. }
            | Self::MergeRefused { .. }
            | Self::NotStored(_)
            | Self::WriteTooLarge { .. }
            | Self::UndeclaredKey
            | Self::RolledBack
            | Self::NotBackups { .. }
            | Self::AmongBackups { .. }
            | Self::OtherDatabase { .. }
            | Self::Forked { .. } => Kind::InvalidInput,
            Self::Copy { cause, .. } => cause.kind(),
            Self::NotYetDurable { .. } => Kind::NotYetDurable,
            Self::Journal(error) => of_journal(error),
            Self::Engine(error) => of_engine(error),
        }
    }

    /// Returns whether the same call may succeed later, while the database stays open. If so, the
    /// call was refused and has changed nothing.
    ///
    /// It is true for the kinds [`Conflict`](ErrorKind::Conflict), [`InUse`](ErrorKind::InUse),
    /// [`NoSpace`](ErrorKind::NoSpace), [`OutOfMemory`](ErrorKind::OutOfMemory) and
    /// [`Unavailable`](ErrorKind::Unavailable), with these exceptions: [`Error::MemoryTooSmall`],
    /// [`Error::NoMemoryLeft`] and [`Error::Cleared`] need another opening or another ingestion.
    /// After a conflict the transaction has to be begun again, as [`crate::Db::transaction`] does.
    pub fn is_retryable(&self) -> bool {
        let needs_another_call = matches!(
            self,
            Self::MemoryTooSmall { .. } | Self::NoMemoryLeft { .. } | Self::Cleared { .. }
        );
        let is_retryable = matches!(
            self.kind(),
            ErrorKind::Conflict
                | ErrorKind::InUse
                | ErrorKind::NoSpace
                | ErrorKind::OutOfMemory
                | ErrorKind::Unavailable
        );
        is_retryable && !needs_another_call
    }
}

fn of_journal(error: &Journal) -> ErrorKind {
    match error {
        Journal::Stopped { .. } => ErrorKind::ReadOnly,
        Journal::NoRoom { cause } => of_device(cause),
        Journal::TooLarge { .. } => ErrorKind::InvalidInput,
        Journal::OutOfOrder { .. } => ErrorKind::Internal,
        Journal::Closed => ErrorKind::Closed,
    }
}

fn of_engine(error: &Engine) -> ErrorKind {
    match error {
        Engine::KeyTooLong { .. }
        | Engine::ValueTooLong { .. }
        | Engine::RecordTooLong { .. }
        | Engine::BadOption { .. }
        | Engine::NoSetting { .. }
        | Engine::NotAscending { .. }
        | Engine::WriteTooLarge { .. } => ErrorKind::InvalidInput,
        Engine::Unordered { .. }
        | Engine::NoRangeDeletes { .. }
        | Engine::NoIngestion { .. }
        | Engine::NoRanges { .. }
        | Engine::NewerVersion(_) => ErrorKind::Unsupported,
        Engine::OutOfMemory { .. } => ErrorKind::OutOfMemory,
        Engine::NoSpace { .. } => ErrorKind::NoSpace,
        Engine::WouldWait => ErrorKind::Unavailable,
        Engine::Corruption(_) => ErrorKind::Corruption,
        Engine::Device(error) | Engine::NoRoomForJournal { cause: error } => of_device(error),
        // Writes are refused until the cause is over, without an opening if it may pass.
        Engine::SpaceUsedUp { cause, .. } => match of_engine(cause) {
            passing @ (ErrorKind::NoSpace | ErrorKind::OutOfMemory | ErrorKind::Unavailable) => {
                passing
            }
            _ => ErrorKind::ReadOnly,
        },
        Engine::ReadOnly { .. } | Engine::LogEnded | Engine::Journal { .. } => ErrorKind::ReadOnly,
        Engine::Closed => ErrorKind::Closed,
        Engine::Panicked(_) => ErrorKind::Internal,
    }
}

fn of_device(error: &Device) -> ErrorKind {
    match error {
        Device::NotFound { .. } => ErrorKind::NotFound,
        Device::AlreadyExists { .. } => ErrorKind::Exists,
        Device::Locked { .. } => ErrorKind::InUse,
        Device::NoSpace { .. } => ErrorKind::NoSpace,
        Device::SymbolicLink { .. } | Device::DanglingLink { .. } | Device::BadName { .. } => {
            ErrorKind::InvalidInput
        }
        Device::Unaligned { .. } => ErrorKind::Internal,
        Device::Unavailable { .. } => ErrorKind::Unavailable,
        Device::Io { .. } if error.is_out_of_files() => ErrorKind::Unavailable,
        Device::UnexpectedEnd { .. } | Device::Io { .. } => ErrorKind::Io,
    }
}
