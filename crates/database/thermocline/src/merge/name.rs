//! The name of a merge operator.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// Bytes of the longest name.
const BYTES_MAX: usize = 32;

/// The name of a merge operator, in a program and in the catalog: 1 to 32 of `a-z`, `A-Z`, `0-9`,
/// `_`, `-` and `.`.
///
/// ```
/// use thermocline::MergeName;
/// let add: MergeName = "add".parse()?;
/// assert_eq!(add.as_str(), "add");
/// assert!("no spaces".parse::<MergeName>().is_err());
/// # Ok::<(), thermocline::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MergeName {
    /// Zeros behind the name.
    bytes: [u8; BYTES_MAX],
    len: u8,
}

impl MergeName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        let named = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(named).unwrap_or_default()
    }
}

impl FromStr for MergeName {
    type Err = Error;

    /// # Errors
    /// [`Error::BadMergeName`].
    fn from_str(name: &str) -> Result<Self, Error> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let mut bytes = [0; BYTES_MAX];
        match (bytes.get_mut(..name.len()), u8::try_from(name.len())) {
            (Some(named), Ok(len)) if len > 0 && name.bytes().all(allowed) => {
                named.copy_from_slice(name.as_bytes());
                Ok(Self { bytes, len })
            }
            _ => Err(Error::BadMergeName { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for MergeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for MergeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
