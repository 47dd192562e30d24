//! Stored bytes that are not what was written.

/// Stored bytes that failed their checksum or make no sense, with the place of the damage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in {file} at byte {offset}")]
pub struct Corruption {
    /// What is wrong, in words.
    pub what: String,
    /// The file, relative to the database directory; empty where only bytes were given.
    pub file: String,
    /// The offset in that file (or in those bytes) at which the damaged piece begins.
    pub offset: u64,
}

impl Corruption {
    /// Damage at `offset` of bytes whose file the caller knows.
    pub fn new(what: impl Into<String>, offset: u64) -> Self {
        Self { what: what.into(), file: String::new(), offset }
    }

    /// The same damage, placed: the bytes lay in `file`, beginning at `base`.
    #[must_use]
    pub fn at(mut self, file: &str, base: u64) -> Self {
        if self.file.is_empty() {
            self.file = file.to_owned();
            self.offset = self.offset.saturating_add(base);
        }
        self
    }
}
