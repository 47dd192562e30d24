//! The logical log: the changes of the space since the last checkpoint (Flex 4.2).
//!
//! # Invariants
//! - G1. A frame is written after the one before it was synced, and after the data that its records
//!   refer to was; so of a log only the last frame may be torn.
//! - G2. A log that follows another one in the same life says where that one ends, and is made when
//!   all of that one is durable.

pub(crate) mod format;
mod reader;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod writer;

pub(crate) use format::FORMAT;
pub use format::check_log;
pub(crate) use format::{Change, Piece, Record};
pub(crate) use reader::{Replayed, replay};
pub(crate) use writer::{EmptyLog, LogEnd, LogWriter};

/// The beginning of the files' names.
const PREFIX: &str = "log-";

/// Returns the name of the log of that number.
pub(crate) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}

/// Returns the numbers of the logs among `entries`, in order.
pub(crate) fn numbers(entries: &[device::Entry]) -> Vec<u64> {
    let number = |entry: &device::Entry| {
        let digits = entry.name.strip_prefix(PREFIX)?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        (file_name(number) == entry.name).then_some(number)
    };
    let mut numbers: Vec<u64> = entries.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
