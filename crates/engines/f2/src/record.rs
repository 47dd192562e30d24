//! One record: two words, a key, a value.
//!
//! ```text
//! word 0  header   previous address (48) | invalid | filler | present | - | check, high part (10)
//! word 1  state    key bytes (16) | value bytes (25) | tombstone | locked | sealed | sequence (20)
//! words   key      padded with zeros to a word
//! words   value    padded with zeros to the end of the record, which is a multiple of 16 bytes
//! ```
//!
//! In memory the words are atomics and the state is the record's lock and sequence ([`live`]). On
//! disk nothing of the lock is left: its bits, and ten of the header, hold a checksum over the
//! record and its place ([`stored`]). So a record is as long in memory as on disk, and neither has
//! a word to spare.

mod layout;
mod live;
mod stored;

pub(crate) use layout::{ALIGNMENT, Header, KEY_BYTES_MAX, Shape, VALUE_BYTES_MAX, WORD_BYTES};
pub(crate) use live::{InPlace, Live, Read};
pub(crate) use stored::{Damage, HEAD_BYTES, Stored, stamp};

#[cfg(all(test, any(loom, shuttle)))]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
