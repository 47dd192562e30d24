//! The operating system's error numbers, as the device's errors.

use rustix::io::Errno;

use crate::error::{Error, Operation};

/// The name of the device's own directory in errors. In calls its name is empty.
const DIRECTORY: &str = "the directory";

/// Returns the error that `errno` is for the file `name`.
pub(super) fn explain(operation: Operation, name: &str, errno: Errno) -> Error {
    let name = if name.is_empty() { DIRECTORY } else { name }.to_owned();
    match errno {
        Errno::LOOP => Error::SymbolicLink { name },
        Errno::NOENT => Error::NotFound { name },
        Errno::EXIST => Error::AlreadyExists { name },
        Errno::NOSPC | Errno::DQUOT if operation != Operation::Sync => Error::NoSpace { name },
        // No sync has begun: its directory could not be opened.
        Errno::MFILE | Errno::NFILE if operation == Operation::Sync => {
            Error::Io { operation: Operation::Open, name, code: errno.raw_os_error() }
        }
        other => Error::Io { operation, name, code: other.raw_os_error() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process at its limit, and a system at its own.
    #[test]
    fn a_want_of_descriptors_may_pass_whatever_needed_one() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            for operation in
                [Operation::Open, Operation::Metadata, Operation::Queue, Operation::Sync]
            {
                let error = explain(operation, "file", errno);
                assert!(error.is_out_of_files() && error.is_retryable(), "{operation:?}: {error}");
            }
            let written = explain(Operation::Write, "file", errno);
            assert!(!written.is_retryable(), "a write of an open file needs none: {written}");
        }
    }
}
