//! Insertions and removals, requested from a file system by setting an extended attribute.
//!
//! `fallocate` has modes for both, but the kernel passes neither on to a file system in user space
//! (`fuse_file_fallocate` refuses them). It passes on the setting of an attribute, of an open file
//! and of a name, with up to 64 KiB:
//!
//! | attribute | value | does |
//! |---|---|---|
//! | `user.flexspace.insert` | `OFFSET LENGTH` | inserts zeros; bytes from the offset on move back
//! |
//! | `user.flexspace.insert@OFFSET` | bytes | inserts these bytes at the offset |
//! | `user.flexspace.collapse` | `OFFSET LENGTH` | removes bytes; all bytes behind them move up |
//!
//! Numbers are decimal. None of these is there when attributes are read or listed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

/// The attribute that inserts.
pub(crate) const INSERT: &str = "user.flexspace.insert";
/// The attribute that removes.
pub(crate) const COLLAPSE: &str = "user.flexspace.collapse";

/// A change that a caller requests of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift<'a> {
    Insert { offset: u64, bytes: &'a [u8] },
    InsertZeros { offset: u64, length: u64 },
    Collapse { offset: u64, length: u64 },
}

impl<'a> Shift<'a> {
    /// Returns the change that an attribute and its value request.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for another attribute, `EINVAL` for numbers that are none.
    pub(crate) fn parse(name: &OsStr, value: &'a [u8]) -> Result<Self, Errno> {
        let name = name.as_bytes();
        if name == COLLAPSE.as_bytes() {
            let (offset, length) = range(value)?;
            return Ok(Self::Collapse { offset, length });
        }
        match name.strip_prefix(INSERT.as_bytes()) {
            Some(b"") => {
                let (offset, length) = range(value)?;
                Ok(Self::InsertZeros { offset, length })
            }
            Some([b'@', digits @ ..]) => Ok(Self::Insert { offset: number(digits)?, bytes: value }),
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

/// Two numbers with white space between them; a shell may have added a new line.
fn range(value: &[u8]) -> Result<(u64, u64), Errno> {
    let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut next = || number(words.next().ok_or(Errno::INVAL)?);
    let (offset, length) = (next()?, next()?);
    if words.next().is_some() || length == 0 { Err(Errno::INVAL) } else { Ok((offset, length)) }
}

fn number(digits: &[u8]) -> Result<u64, Errno> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number);
    text.and_then(|text| text.parse().ok()).ok_or(Errno::INVAL)
}
