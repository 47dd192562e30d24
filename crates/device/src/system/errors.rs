//! The operating system's error numbers, as the device's errors.

use rustix::io::Errno;

use crate::error::{Error, Operation};

/// What `errno` means for the file `name`.
pub(super) fn explain(operation: Operation, name: &str, errno: Errno) -> Error {
    let name = name.to_owned();
    match errno {
        Errno::NOENT => Error::NotFound { name },
        Errno::EXIST => Error::AlreadyExists { name },
        Errno::NOSPC | Errno::DQUOT if operation != Operation::Sync => Error::NoSpace { name },
        other => Error::Io { operation, name, code: other.raw_os_error() },
    }
}
