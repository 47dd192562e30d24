//! Errors of a space, by the caller's reaction to them.

use std::sync::Arc;

use codec::{Corruption, NewerVersion};

/// A typed failure. Cheap to clone, since every later write returns the failure that stopped a
/// space.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A range ends behind the last byte. Nothing was changed.
    #[error("a range to offset {end} in a space of {len} bytes")]
    BehindTheEnd {
        /// The end of the range.
        end: u64,
        /// How many bytes there are.
        len: u64,
    },
    /// More bytes would live than the capacity allows, or than the device has room for: remove
    /// some, or add room. Nothing was changed. Without room on the device the limit is the number
    /// of live bytes.
    #[error("{live_bytes} bytes live, of {limit_bytes} that may: no room for {more_bytes} more")]
    NoSpace {
        /// Bytes that live.
        live_bytes: u64,
        /// Bytes that may.
        limit_bytes: u64,
        /// Bytes that were to be added.
        more_bytes: u64,
    },
    /// There is room, but not in free segments: run the collector as long as it empties some, then
    /// try again. Nothing was changed, and nothing written. No collector frees segments that
    /// snapshots hold. Close to the limit it wins single segments, so a change that needs many of
    /// them must be written in parts.
    #[error("too few segments are free: the collector has to run first")]
    Uncollected,
    /// More zeros than one call may add, or a space that would be too long. Nothing was changed.
    #[error("{more_bytes} zeros more are too many for a space of {len} bytes")]
    TooLong {
        /// How many bytes there are.
        len: u64,
        /// How many were to be added.
        more_bytes: u64,
    },
    /// Options that no space, or not this one, can have.
    #[error("{0}")]
    Options(String),
    /// Stored bytes are not the bytes that were written.
    #[error("damaged data: {0}")]
    Corruption(Corruption),
    /// A newer release wrote a file. Nothing was changed.
    #[error(transparent)]
    NewerVersion(#[from] NewerVersion),
    /// The storage failed.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// An earlier failure stopped all writes; open the space again to continue.
    #[error("the space is read-only since a write failed: {cause}")]
    ReadOnly {
        /// That failure.
        cause: Arc<Error>,
    },
    /// The space was closed.
    #[error("the space is closed")]
    Closed,
}

impl Error {
    /// Returns whether one change was refused for its content, before it had any effect; the next
    /// may be accepted.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            Self::BehindTheEnd { .. }
                | Self::NoSpace { .. }
                | Self::Uncollected
                | Self::TooLong { .. }
        )
    }

    /// Returns whether the device has no room.
    pub(super) fn is_full_device(&self) -> bool {
        matches!(self, Self::Device(device::Error::NoSpace { .. }))
    }

    /// Returns whether nothing was done and the log can continue.
    pub(super) fn leaves_log(&self) -> bool {
        self.is_refused() || self.is_retryable()
    }

    /// Returns whether the device's failure is temporary ([`device::Error::is_retryable`]), so that
    /// nothing was done.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Device(error) if error.is_retryable())
    }
}

impl From<Corruption> for Error {
    fn from(corruption: Corruption) -> Self {
        corruption.judge().map_or_else(Self::NewerVersion, Self::Corruption)
    }
}

impl From<engine::Error> for Error {
    /// Converts an error of a superblock.
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Corruption(damage) => Self::Corruption(damage),
            engine::Error::NewerVersion(newer) => Self::NewerVersion(newer),
            engine::Error::Device(error) => Self::Device(error),
            other => Self::Corruption(Corruption::new(other.to_string(), 0)),
        }
    }
}

impl From<crate::Error> for Error {
    /// Converts an error of a tree that an earlier check has not refused.
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::BehindTheEnd { end, len } => Self::BehindTheEnd { end, len },
            other => Self::Corruption(Corruption::new(other.to_string(), 0)),
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match &error {
            Error::BehindTheEnd { .. } => ErrorKind::UnexpectedEof,
            Error::NoSpace { .. } | Error::Uncollected => ErrorKind::StorageFull,
            Error::TooLong { .. } => ErrorKind::FileTooLarge,
            Error::Corruption(_) | Error::NewerVersion(_) => ErrorKind::InvalidData,
            Error::ReadOnly { .. } => ErrorKind::ReadOnlyFilesystem,
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
