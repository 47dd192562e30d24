//! Keys with numbers, and values that count.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline::Change;

pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

/// Returns the number at the beginning of a value; zero if there is none.
pub(crate) fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap()))
}

/// A value that begins with a number.
pub(crate) fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(8)
}

pub(crate) fn add_one(old: Option<&[u8]>) -> Change {
    Change::Put(value(number(old) + 1))
}
