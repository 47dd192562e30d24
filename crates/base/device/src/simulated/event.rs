//! Events of a simulated disk: the steps that its state is made of.
//!
//! Faults are decided before an event is made: a write that is lost makes none, one that is
//! misdirected makes one for another place. So events are all that must be recorded to replay a
//! run.

use std::ops::Range;
use std::sync::Arc;

use super::faults::SyncFailure;

/// The number of a file or directory on one disk; never reused.
pub(super) type Inode = u32;

/// The root directory.
pub(super) const ROOT: Inode = 0;

/// A change of a file's bytes or length.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Puts bytes at an offset.
    Write { offset: u64, bytes: Arc<[u8]> },
    /// Makes a range zeros.
    Zero(Range<u64>),
    /// Sets the length.
    SetLen(u64),
}

/// A name in a directory.
pub(super) type Place = (Inode, String);

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A new file, or a new directory, of the next free number.
    Create { at: Place, is_dir: bool },
    /// One more name for a file.
    Link { node: Inode, at: Place },
    /// A name that moves, and replaces another.
    Rename { from: Place, to: Place },
    /// A name that goes.
    Unlink { at: Place },
    /// The names of a directory become durable.
    SyncDir(Inode),
    /// A change becomes visible.
    Change { node: Inode, change: Change },
    /// The changes of a file before `until` (a [`super::state::State::sequence`]) become durable.
    Sync { node: Inode, until: u64 },
    /// They do not, and this becomes of them.
    SyncFailed { node: Inode, how: SyncFailure },
    /// A write is under way: a crash may find it done, in part or not at all.
    Started { ticket: u64, node: Inode, offset: u64, bytes: Arc<[u8]> },
    /// It is over; its outcome is another event.
    Ended { ticket: u64 },
    /// A bit flips, on the medium and in the view of readers.
    Rot { node: Inode, offset: u64, bit: u8 },
    /// A sector turns to zeros, on the medium and in the view of readers.
    ZeroSector { node: Inode, offset: u64 },
}
