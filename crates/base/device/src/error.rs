//! Errors of the storage, by how the caller handles them.

use std::io;

use rustix::io::Errno;

use crate::limit::open_files_limit;

/// The device's result.
pub type Result<T> = std::result::Result<T, Error>;

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operation {
    Open,
    Read,
    Write,
    Sync,
    Metadata,
    Queue,
}

/// A failure of the storage. Cheap to clone, so that a store can keep reporting the one that
/// stopped it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such file.
    #[error("{name} does not exist")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// There is such a file already.
    #[error("{name} exists already")]
    AlreadyExists {
        /// Its name.
        name: String,
    },
    /// A symbolic link in the place of a file or directory of the device. The device follows none
    /// below its own directory.
    #[error(
        "{name} is a symbolic link, and no links are followed inside the directory: move the \
             files back, or make the whole directory a link"
    )]
    SymbolicLink {
        /// Its name.
        name: String,
    },
    /// A symbolic link in the place of the device's directory, to a target that does not exist.
    #[error(
        "{name} is a symbolic link whose target does not exist: make the target, or remove the link"
    )]
    DanglingLink {
        /// The link.
        name: String,
    },
    /// Another handle or process holds the lock.
    #[error("{name} is locked by another process")]
    Locked {
        /// The lock file.
        name: String,
    },
    /// A name outside the strict pattern.
    #[error(
        "{name:?} is no name for a file here: parts of letters, digits, '.', '_' and '-', \
             not beginning with a dot, parted by '/'"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// The storage is full: the write or file was not made, and may be once there is room. A sync
    /// that finds no room is [`Error::Io`]: what it was to make durable may be lost.
    #[error("no space left while writing {name}")]
    NoSpace {
        /// The file that wanted room.
        name: String,
    },
    /// The place of the data cannot be reached now, such as a component of a cluster. The operation
    /// changed nothing, and may be done later. A sync whose place cannot be reached is
    /// [`Error::Io`]: the data that it was to make durable may be lost.
    #[error("the place of {name} cannot be reached now")]
    Unavailable {
        /// The file.
        name: String,
    },
    /// A read past the end.
    #[error("{name} ends before byte {end}")]
    UnexpectedEnd {
        /// The file.
        name: String,
        /// The end of the range that was to be read.
        end: u64,
    },
    /// A write to a direct file that does not begin and end on a multiple of its alignment.
    #[error(
        "{name}: a direct write of {len} bytes at {offset} is not in multiples of {alignment} bytes"
    )]
    Unaligned {
        /// The file.
        name: String,
        /// The offset at which the write was to begin.
        offset: u64,
        /// How many bytes it was to carry.
        len: usize,
        /// The file's `alignment`.
        alignment: usize,
    },
    /// Anything else that the operating system said.
    #[error("{operation:?} of {name} failed: {}{}", io::Error::from_raw_os_error(*code), limit_of_files(*code))]
    Io {
        /// The operation that failed.
        operation: Operation,
        /// The file.
        name: String,
        /// The operating system's error number.
        code: i32,
    },
}

impl Error {
    /// Returns whether the operation could not begin, since the process, or the whole system, has
    /// too many files open. A transfer or a sync of an open file needs no descriptor: one that
    /// fails with such a number has failed.
    pub fn is_out_of_files(&self) -> bool {
        use Operation::{Metadata, Open, Queue};
        match self {
            Self::Io { operation: Open | Metadata | Queue, code, .. } => is_out_of_files(*code),
            _ => false,
        }
    }

    /// Returns whether nothing may be written there: the file system is mounted to be read, or the
    /// process has no permission.
    pub fn is_write_protected(&self) -> bool {
        let numbers = [Errno::ROFS, Errno::ACCESS, Errno::PERM].map(Errno::raw_os_error);
        matches!(self, Self::Io { code, .. } if numbers.contains(code))
    }

    /// Returns whether the same operation may succeed later: it changed nothing, because there was
    /// no room or no descriptor for it, or its place could not be reached.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::Unavailable { .. }) || self.is_out_of_files()
    }

    /// Returns the same failure of a file in `dir`, a directory of the device.
    #[must_use]
    pub fn in_dir(mut self, dir: &str) -> Self {
        let (Self::NotFound { name }
        | Self::AlreadyExists { name }
        | Self::SymbolicLink { name }
        | Self::DanglingLink { name }
        | Self::Locked { name }
        | Self::BadName { name }
        | Self::NoSpace { name }
        | Self::Unavailable { name }
        | Self::UnexpectedEnd { name, .. }
        | Self::Unaligned { name, .. }
        | Self::Io { name, .. }) = &mut self;
        *name = crate::name::join(dir, name);
        self
    }

    /// Returns the same if a lack of room is a failure like any other, after which nothing is tried
    /// again.
    #[must_use]
    pub fn for_good(self) -> Self {
        match self {
            Self::NoSpace { name } => {
                let code = Errno::NOSPC.raw_os_error();
                Self::Io { operation: Operation::Write, name, code }
            }
            other => other,
        }
    }
}

/// Returns the text for a failure for lack of descriptors: the limit of this process, if that is
/// the cause.
fn limit_of_files(code: i32) -> String {
    let is_own = code == Errno::MFILE.raw_os_error();
    let limit = open_files_limit().filter(|_| is_own);
    limit.map_or_else(String::new, |limit| format!("; this process may have {limit} (`ulimit -n`)"))
}

/// Returns whether the operating system's error number says that there is no descriptor left.
pub(crate) fn is_out_of_files(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&code)
}
