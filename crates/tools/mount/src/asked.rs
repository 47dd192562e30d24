//! Asking a file of a mount for insertions and removals, from any process (`shift.rs`).
//!
//! Other file systems would keep the attribute and move nothing. So the functions first check that
//! the file is one of a file system in user space. They replace the attribute and do not set it:
//! other such file systems have no attribute to replace, and refuse.

use std::io;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::shift::{COLLAPSE, INSERT};

/// Most bytes that one call inserts: the most that an attribute may have.
pub const INSERT_BYTES_MAX: usize = 64 << 10;

/// The number by which the kernel knows file systems in user space.
const FUSE: u32 = 0x6573_5546;

/// Puts up to [`INSERT_BYTES_MAX`] bytes at an offset of the mounted file at `path`; bytes from
/// there on move back.
///
/// # Errors
/// The system's: `EOPNOTSUPP` if it is no such file, `EINVAL` for an offset behind the end,
/// `ENOSPC`.
pub fn insert(path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
    ask(path, &format!("{INSERT}@{offset}"), bytes)
}

/// Takes bytes out of the mounted file at `path`; all behind them moves up.
///
/// # Errors
/// As [`insert`].
pub fn collapse(path: &Path, offset: u64, length: u64) -> io::Result<()> {
    ask(path, COLLAPSE, format!("{offset} {length}").as_bytes())
}

fn ask(path: &Path, attribute: &str, value: &[u8]) -> io::Result<()> {
    if fs::statfs(path)?.f_type as u32 != FUSE {
        return Err(Errno::OPNOTSUPP.into());
    }
    let asked = fs::setxattr(path, attribute, value, XattrFlags::REPLACE);
    Ok(asked.map_err(|errno| if errno == Errno::NODATA { Errno::OPNOTSUPP } else { errno })?)
}

/// Makes all changes of the file at `path` durable.
///
/// # Errors
/// The system's.
pub fn sync(path: &Path) -> io::Result<()> {
    let file = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(fs::fsync(file)?)
}
