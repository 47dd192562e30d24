//! The progress of a transfer, and whether it continues.

use std::ops::Range;

use rustix::io::Errno;

/// The most bytes that one entry asks for: the kernel's own limit is just below 2 GiB, and its
/// lengths have 32 bits. Tests ask for little, so that transfers come back short.
const PIECE_BYTES: usize = if cfg!(test) { 1 << 16 } else { 1 << 30 };

/// A read or a write of `len` bytes at `offset`.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    offset: u64,
    len: usize,
    /// How many of them are needed; a direct read asks for whole units and may get fewer.
    enough: usize,
    /// The unit that a read cannot stop within, unless at the end of the file.
    unit: usize,
    done: usize,
}

/// The next step after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask for the rest.
    Again,
    /// It is whole.
    Done,
    /// There is no more: the file ends, or nothing more can be written.
    End,
    Failed(Errno),
}

impl Transfer {
    pub(super) fn new(offset: u64, len: usize, enough: usize, unit: usize) -> Self {
        Self { offset, len, enough, unit, done: 0 }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next range to request: the offset in the file, and the part of the buffer.
    pub(super) fn rest(&self) -> (u64, Range<usize>) {
        let end = self.len.min(self.done.saturating_add(PIECE_BYTES));
        (self.offset.saturating_add(self.done as u64), self.done..end)
    }

    /// Takes in a completion.
    pub(super) fn advance(&mut self, result: i32) -> Next {
        let Ok(moved) = usize::try_from(result) else { return failure(result) };
        if moved == 0 {
            return Next::End;
        }
        self.done = self.done.saturating_add(moved).min(self.len);
        if self.done >= self.enough {
            Next::Done
        } else if !self.done.is_multiple_of(self.unit) {
            Next::End
        } else {
            Next::Again
        }
    }
}

/// Returns the next step after a sync's completion.
pub(super) fn sync_outcome(result: i32) -> Next {
    if result < 0 { failure(result) } else { Next::Done }
}

fn failure(result: i32) -> Next {
    match Errno::from_raw_os_error(result.saturating_neg()) {
        Errno::INTR | Errno::AGAIN => Next::Again,
        errno => Next::Failed(errno),
    }
}
