//! Stored bytes that differ from the written ones, and files that a newer release wrote.

use std::fmt;

use crate::header::HeaderError;

/// Stored bytes that failed their checksum or make no sense, with the place of the damage.
///
/// A decoder also returns one for a whole header that a newer release wrote
/// ([`Corruption::newer`]). That is no damage: [`Corruption::judge`] separates the two before the
/// error leaves the decoder's crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in {file} at byte {offset}")]
pub struct Corruption {
    /// The damage, in words.
    pub what: String,
    /// The file, relative to the database directory; empty if only bytes were given.
    pub file: String,
    /// The offset in that file (or in those bytes) at which the damaged piece begins.
    pub offset: u64,
    /// Set if nothing is wrong but that a newer release wrote the file.
    pub newer: Option<Newer>,
}

/// A file that a newer release wrote, which this one neither reads nor changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} has {newer}; nothing was changed, and a newer release reads it")]
pub struct NewerVersion {
    /// The file, relative to the database directory.
    pub file: String,
    /// Its part that this release does not know.
    pub newer: Newer,
}

/// The part of a header that this release does not know. The header's checksum is right, so a
/// release wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// The format's version.
    Version {
        /// The file's version.
        found: u16,
        /// The newest version that this release reads.
        newest: u16,
    },
    /// Flags.
    Flags {
        /// The flags that this release does not know.
        unknown: u16,
    },
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { found, newest } => {
                write!(f, "format version {found}, this release reads versions up to {newest}")
            }
            Self::Flags { unknown } => {
                write!(f, "flags {unknown:#06x}, which this release does not know")
            }
        }
    }
}

impl NewerVersion {
    /// Returns the same refusal of a file in `dir`, a directory of the database.
    #[must_use]
    pub fn in_dir(self, dir: &str) -> Self {
        Self { file: below(dir, &self.file), ..self }
    }
}

impl Corruption {
    /// Damage at `offset` of bytes whose file the caller knows.
    pub fn new(what: impl Into<String>, offset: u64) -> Self {
        Self { what: what.into(), file: String::new(), offset, newer: None }
    }

    /// Returns the same damage, placed: the bytes were in `file`, beginning at `base`.
    #[must_use]
    pub fn at(mut self, file: &str, base: u64) -> Self {
        if self.file.is_empty() {
            self.file = file.to_owned();
            self.offset = self.offset.saturating_add(base);
        }
        self
    }

    /// Returns the same damage of a file in `dir`, a directory of the database.
    #[must_use]
    pub fn in_dir(self, dir: &str) -> Self {
        Self { file: below(dir, &self.file), ..self }
    }

    /// Returns the damage, or the refusal of a file that a newer release wrote.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(self) -> Result<Self, NewerVersion> {
        match self.newer {
            None => Ok(self),
            Some(newer) => Err(NewerVersion { file: self.file, newer }),
        }
    }
}

/// Returns the path of `file`, or of the directory if the file is not known.
fn below(dir: &str, file: &str) -> String {
    if file.is_empty() { dir.to_owned() } else { format!("{dir}/{file}") }
}

impl From<HeaderError> for Corruption {
    fn from(error: HeaderError) -> Self {
        let newer = match error {
            // No release wrote version 0.
            HeaderError::Version { found, newest } if found > newest => {
                Some(Newer::Version { found, newest })
            }
            HeaderError::Flags { unknown } => Some(Newer::Flags { unknown }),
            _ => None,
        };
        Self { newer, ..Self::new(error.to_string(), 0) }
    }
}
