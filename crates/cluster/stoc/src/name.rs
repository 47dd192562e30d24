//! The names of files: their owner's, and the path below the directory of a StoC.

use std::fmt;

/// The directory of all files.
pub(crate) const FILES_DIR: &str = "files";
/// The end of the name of a file that is being made. An opening removes such files.
pub(crate) const PART_SUFFIX: &str = ".part";

/// The number of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeId(pub u32);

/// The fencing token of a range: it grows with each opening of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A fragment of a table.
    Data,
    /// The parity of fragments.
    Parity,
    /// The index and the filter of a table.
    Metadata,
    /// A segment of a write log.
    Log,
    /// A segment of a manifest log.
    Manifest,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Data, Self::Parity, Self::Metadata, Self::Log, Self::Manifest];

    /// Returns whether files of this kind are appended to.
    pub fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::Manifest)
    }

    /// Returns its byte in files.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Parity => 2,
            Self::Metadata => 3,
            Self::Log => 4,
            Self::Manifest => 5,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Parity => "parity",
            Self::Metadata => "metadata",
            Self::Log => "log",
            Self::Manifest => "manifest",
        }
    }
}

/// The name of a file. The owner of the range gives it, and uses none of them twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// The range that made it.
    pub range: RangeId,
    /// Its purpose.
    pub kind: Kind,
    /// The number of its table or segment.
    pub number: u64,
    /// A random number, which another attempt to make the same table does not have.
    pub nonce: u64,
    /// Which part of a table it is.
    pub part: u16,
}

impl FileName {
    /// Returns the directory of a range's files.
    pub(crate) fn dir_of(range: RangeId) -> String {
        format!("{FILES_DIR}/{:08x}", range.0)
    }

    /// Returns its path below the directory of the StoC.
    pub fn path(&self) -> String {
        format!("{}/{}", Self::dir_of(self.range), self.last_part())
    }

    /// Returns the path of the file while it is being made.
    pub(crate) fn part_path(&self) -> String {
        format!("{}{PART_SUFFIX}", self.path())
    }

    fn last_part(&self) -> String {
        let Self { kind, number, nonce, part, .. } = self;
        format!("{}-{number:016x}-{nonce:016x}-{part:04x}", kind.word())
    }

    /// Returns the range of a directory's name.
    pub(crate) fn range_of_dir(name: &str) -> Option<RangeId> {
        let id = u32::from_str_radix(name, 16).ok().map(RangeId)?;
        (Self::dir_of(id) == format!("{FILES_DIR}/{name}")).then_some(id)
    }

    /// Returns the name of a file in the directory of a range.
    pub(crate) fn parse(range: RangeId, last_part: &str) -> Option<Self> {
        let mut parts = last_part.split('-');
        let word = parts.next()?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word)?;
        let number = u64::from_str_radix(parts.next()?, 16).ok()?;
        let nonce = u64::from_str_radix(parts.next()?, 16).ok()?;
        let part = u16::from_str_radix(parts.next()?, 16).ok()?;
        let name = Self { range, kind, number, nonce, part };
        // A name has one spelling.
        (name.last_part() == last_part).then_some(name)
    }
}

impl fmt::Display for RangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_path() {
        for kind in Kind::ALL {
            let name = FileName { range: RangeId(42), kind, number: 7, nonce: u64::MAX, part: 3 };
            let path = name.path();
            assert_eq!(device::check_name(&path), Ok(()));
            let (dir, last) = path.rsplit_once('/').unwrap_or_default();
            let dir = dir.strip_prefix("files/").unwrap_or_default();
            assert_eq!(FileName::range_of_dir(dir), Some(RangeId(42)));
            assert_eq!(FileName::parse(RangeId(42), last), Some(name));
            assert_eq!(Kind::of_code(kind.code()), Some(kind));
        }
        let bad = ["", "data", "data-1-2-3", "log-0000000000000007-00000000000000FF-0000", "x"];
        assert!(bad.iter().all(|last| FileName::parse(RangeId(1), last).is_none()));
        let dirs = ["2a", "0000002A", "zz", "00000000000"];
        assert!(dirs.iter().all(|dir| FileName::range_of_dir(dir).is_none()));
    }
}
