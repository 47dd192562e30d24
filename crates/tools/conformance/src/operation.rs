//! A random operation as a value: it prints on one line, reads back from that line, and shrinks.

mod generate;
mod parse;
mod print;
mod simplify;
#[cfg(test)]
mod tests;

use engine::{Direction, KeyRange, Op};

use crate::model::Pair;

pub use generate::{Generator, Profile};

/// One step of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give the key this value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Remove the key.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// Remove a range of keys.
    DeleteRange {
        /// The first key that is removed.
        start: Vec<u8>,
        /// The first one behind it that stays.
        end: Option<Vec<u8>>,
    },
}

impl Step {
    /// Returns the same step as engines take it.
    pub fn op(&self) -> Op<'_> {
        match self {
            Self::Put { key, value } => Op::Put { key, value },
            Self::Delete { key } => Op::Delete { key },
            Self::DeleteRange { start, end } => Op::DeleteRange { start, end: end.as_deref() },
        }
    }

    /// Returns an owned copy of an engine's step.
    pub fn of(op: &Op<'_>) -> Self {
        match op {
            Op::Put { key, value } => Self::Put { key: key.to_vec(), value: value.to_vec() },
            Op::Delete { key } => Self::Delete { key: key.to_vec() },
            Op::DeleteRange { start, end } => {
                Self::DeleteRange { start: start.to_vec(), end: end.map(<[u8]>::to_vec) }
            }
        }
    }
}

/// The change that a read-modify-write makes to the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tweak {
    /// Append these bytes; a missing value counts as empty.
    Append(Vec<u8>),
    /// Invert every byte, in place where the engine offers that; a missing value stays missing.
    Invert,
    /// Remove the key.
    Remove,
    /// Change nothing.
    Keep,
}

/// One operation on a store under test. Slots hold views and cursors; an operation on an empty
/// slot does nothing, so that any subsequence of a run is a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Apply one batch.
    Write(Vec<Step>),
    /// Ingest pairs, in the order of their keys; nothing, from an engine that cannot.
    Ingest {
        /// The pairs.
        pairs: Vec<Pair>,
    },
    /// Read, modify, write.
    Rmw {
        /// The key.
        key: Vec<u8>,
        /// The change of its value.
        tweak: Tweak,
    },
    /// Read one key.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Read many keys in one call.
    MultiGet {
        /// The keys, perhaps some twice.
        keys: Vec<Vec<u8>>,
    },
    /// Scan a range now, to its end.
    Scan {
        /// The range.
        range: KeyRange,
        /// The way.
        direction: Direction,
    },
    /// Take a view into a slot.
    Pin {
        /// The slot.
        slot: usize,
    },
    /// Drop the view in a slot.
    Unpin {
        /// The slot.
        slot: usize,
    },
    /// Read one key through a view.
    ViewGet {
        /// The view's slot.
        slot: usize,
        /// The key.
        key: Vec<u8>,
    },
    /// Scan a view, to the end.
    ViewScan {
        /// The view's slot.
        slot: usize,
        /// The range.
        range: KeyRange,
        /// The way.
        direction: Direction,
    },
    /// Begin a scan that later operations continue.
    Cursor {
        /// The cursor's slot.
        slot: usize,
        /// The range.
        range: KeyRange,
        /// The way.
        direction: Direction,
    },
    /// Continue a scan.
    Advance {
        /// The cursor's slot.
        slot: usize,
        /// How many pairs at most.
        pairs: usize,
    },
    /// Make the journal durable.
    Sync,
    /// Make the engine's own files cover everything.
    Flush,
    /// Write a copy, open it and compare it.
    Checkpoint,
    /// Close, open, replay.
    Reopen,
    /// Close, lose the records that the journal had not made durable, open, replay.
    LoseTail,
    /// Make requests that no engine accepts, and expect a typed refusal.
    Refusals,
}

/// Returns the value that `tweak` makes of `present`; the outer `None` if nothing changes.
pub(crate) fn tweaked(tweak: &Tweak, present: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
    match tweak {
        Tweak::Append(more) => {
            let mut value = present.unwrap_or_default().to_vec();
            value.extend_from_slice(more);
            Some(Some(value))
        }
        Tweak::Invert => present.map(|value| Some(value.iter().map(|byte| !byte).collect())),
        Tweak::Remove => Some(None),
        Tweak::Keep => None,
    }
}
