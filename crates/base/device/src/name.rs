//! The strict pattern of names below a device's root.

use crate::error::{Error, Result};

/// Longest part of a name, in bytes.
const PART_BYTES_MAX: usize = 255;

/// Accepts a relative name whose parts are made of ASCII letters, digits, `.`, `_` and `-`, do not
/// begin with a dot, and are parted by single slashes. The empty name is the root.
///
/// # Errors
/// [`Error::BadName`].
pub fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let good = |part: &str| {
        !part.is_empty()
            && part.len() <= PART_BYTES_MAX
            && !part.starts_with('.')
            && part.bytes().all(allowed)
    };
    if name.is_empty() || name.split('/').all(good) {
        Ok(())
    } else {
        Err(Error::BadName { name: name.to_owned() })
    }
}

/// [`check_name`], and not the root.
///
/// # Errors
/// [`Error::BadName`].
pub fn check_below_root(name: &str) -> Result<()> {
    if name.is_empty() { Err(Error::BadName { name: String::new() }) } else { check_name(name) }
}

/// Returns the directory that contains a checked name, and the name's last part.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// `dir` and `name` as one name; `dir` may be the root.
pub fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}
