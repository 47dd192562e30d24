//! The 16 bytes at the start of every file.
//!
//! # Format
//! Little-endian.
//!
//! | offset | size | field | protects against |
//! |---:|---:|---|---|
//! | 0 | 8 | magic | a file of another kind |
//! | 8 | 2 | format version, 1 or more | a file from a newer release |
//! | 10 | 2 | flags | a file that uses what this release does not know |
//! | 12 | 4 | CRC32C of bytes 0 to 12 | damage to the fields above |

use crate::{Corruption, NewerVersion, Reader, checksum::crc32c};

/// One kind of file: its magic, and the newest version of it that this release reads and writes.
///
/// ```
/// use thermocline_codec::{Format, HeaderError};
///
/// const SEGMENT: Format = Format::new(*b"TCSEGMNT", 1, 0b1);
/// let bytes = SEGMENT.header(0b1).encode();
/// assert_eq!(SEGMENT.decode(&bytes)?.flags, 0b1);
/// assert!(matches!(SEGMENT.decode(b"hello"), Err(HeaderError::Short { .. })));
/// # Ok::<(), HeaderError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The first eight bytes of every such file.
    pub magic: [u8; 8],
    /// The newest version; the oldest is 1.
    pub version: u16,
    /// The flags that have a meaning in that version, as a mask.
    pub flags: u16,
}

impl Format {
    /// A kind of file.
    ///
    /// # Panics
    /// If `version` is 0. In a `const`, that is a compile-time error.
    pub const fn new(magic: [u8; 8], version: u16, flags: u16) -> Self {
        assert!(version > 0, "format versions count from 1");
        Self { magic, version, flags }
    }

    /// The header of a new file in the newest version.
    pub const fn header(&self, flags: u16) -> FileHeader {
        FileHeader { magic: self.magic, version: self.version, flags }
    }

    /// Reads the header of a file of this kind from its first bytes; bytes after them are ignored.
    ///
    /// # Errors
    /// [`HeaderError`] says which field is wrong. The magic is judged first and the checksum
    /// second, so a version or flag that is reported is one that was really written.
    pub fn decode(&self, bytes: &[u8]) -> Result<FileHeader, HeaderError> {
        let header = FileHeader::decode(bytes, self.magic)?;
        if header.version == 0 || header.version > self.version {
            return Err(HeaderError::Version { found: header.version, newest: self.version });
        }
        let unknown = header.flags & !self.flags;
        if unknown != 0 {
            return Err(HeaderError::Flags { unknown });
        }
        Ok(header)
    }

    /// Refuses the file `file` if `bytes` begin with a whole header that a newer release wrote. For
    /// a reader that could do without the file, or that checks its length first; all else is left
    /// to [`Format::decode`].
    ///
    /// # Errors
    /// The refusal.
    pub fn refuse_newer(&self, bytes: &[u8], file: &str) -> Result<(), NewerVersion> {
        match self.decode(bytes) {
            Ok(_) => Ok(()),
            Err(error) => Corruption::from(error).at(file, 0).judge().map(drop),
        }
    }
}

/// The content of a file's first 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The kind of file.
    pub magic: [u8; 8],
    /// The version of its format.
    pub version: u16,
    /// Flags whose meaning belongs to the kind of file.
    pub flags: u16,
}

impl FileHeader {
    /// The encoded length in bytes.
    pub const LEN: usize = 16;

    /// The header's bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let [m0, m1, m2, m3, m4, m5, m6, m7] = self.magic;
        let [v0, v1] = self.version.to_le_bytes();
        let [f0, f1] = self.flags.to_le_bytes();
        let [c0, c1, c2, c3] =
            crc32c(&[m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, f0, f1]).to_le_bytes();
        [m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, f0, f1, c0, c1, c2, c3]
    }

    /// Reads a header with this magic, of any version and flags.
    fn decode(bytes: &[u8], magic: [u8; 8]) -> Result<Self, HeaderError> {
        let short = |_| HeaderError::Short { found: bytes.len() };
        let mut fields = Reader::new(bytes);
        let found = fields.take_array::<8>().map_err(short)?;
        if found != magic {
            return Err(HeaderError::Magic { found, expected: magic });
        }
        let version = fields.take_u16().map_err(short)?;
        let flags = fields.take_u16().map_err(short)?;
        let stored = fields.take_u32().map_err(short)?;
        let header = Self { magic, version, flags };
        let computed = crc32c(fields.taken().get(..12).unwrap_or_default());
        if stored != computed {
            return Err(HeaderError::Checksum { stored, computed });
        }
        Ok(header)
    }
}

/// Why a file's first bytes are not the expected header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file ends before its header does.
    #[error("the file is {found} bytes long, its header alone takes {}", FileHeader::LEN)]
    Short {
        /// The bytes that are there.
        found: usize,
    },
    /// Another kind of file, or something that is no file of ours.
    #[error("the file begins with \"{}\" instead of \"{}\"",
        found.escape_ascii(), expected.escape_ascii())]
    Magic {
        /// The first eight bytes.
        found: [u8; 8],
        /// The expected magic.
        expected: [u8; 8],
    },
    /// The right kind of file, with a damaged header.
    #[error("the header's checksum is {stored:#010x}, its content has {computed:#010x}")]
    Checksum {
        /// The checksum in the file.
        stored: u32,
        /// The checksum of the header that is there.
        computed: u32,
    },
    /// A whole header, written by a release with another format.
    #[error("the file has format version {found}, this release reads 1 to {newest}")]
    Version {
        /// The file's version.
        found: u16,
        /// The newest version that can be read.
        newest: u16,
    },
    /// A whole header, with flags that this release does not know.
    #[error("the file has flags {unknown:#06x} that this release does not know")]
    Flags {
        /// The unknown ones.
        unknown: u16,
    },
}
