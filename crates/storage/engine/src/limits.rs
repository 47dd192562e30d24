//! Largest keys and values.

use crate::error::{Error, Result};

/// Longest key in bytes, the empty key included among those allowed.
pub const KEY_BYTES_MAX: usize = 65_535;

/// Longest value in bytes (512 MiB).
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// Accepts a key that every engine can hold.
///
/// # Errors
/// [`Error::KeyTooLong`].
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX { Err(Error::KeyTooLong { bytes: key.len() }) } else { Ok(()) }
}

/// Accepts a value that every engine can hold.
///
/// # Errors
/// [`Error::ValueTooLong`].
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > VALUE_BYTES_MAX {
        Err(Error::ValueTooLong { bytes: value.len() })
    } else {
        Ok(())
    }
}
