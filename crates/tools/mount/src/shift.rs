//! Insertions and removals as a file system can be asked for them: by setting an extended attribute.
//!
//! `fallocate` has modes for both, but the kernel passes neither on to a file system in user space
//! (`fuse_file_fallocate` refuses them). Setting an attribute it passes on, of an open file and of a
//! name, with up to 64 KiB:
//!
//! | attribute | value | does |
//! |---|---|---|
//! | `user.flexspace.insert` | `OFFSET LENGTH` | so many zeros come at the offset; what was there and all behind it moves back |
//! | `user.flexspace.insert@OFFSET` | bytes | these come at the offset |
//! | `user.flexspace.collapse` | `OFFSET LENGTH` | so many bytes go at the offset; all behind them moves up |
//!
//! Numbers are decimal. None of these is there when attributes are read or listed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

/// The attribute that inserts.
pub(crate) const INSERT: &str = "user.flexspace.insert";
/// The attribute that removes.
pub(crate) const COLLAPSE: &str = "user.flexspace.collapse";

/// What is to be done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift<'a> {
    Insert { offset: u64, bytes: &'a [u8] },
    InsertZeros { offset: u64, length: u64 },
    Collapse { offset: u64, length: u64 },
}

impl<'a> Shift<'a> {
    /// What an attribute and its value ask for.
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
