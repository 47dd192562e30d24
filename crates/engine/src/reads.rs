//! Reads of one thread, many of them under way at once.

use crate::error::Result;

/// How a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The key has a value, which is there.
    Found,
    /// The key has none.
    Absent,
    /// The device is asked; [`Reads::complete`] will tell.
    Pending,
    /// As many are under way as there may be, and this one needs the device: nothing was begun.
    Full,
}

/// What is told of a pending read: its tag, and its key's value if it has one.
pub type Found<'a> = dyn FnMut(u64, Result<Option<&[u8]>>) + 'a;

/// A thread's seat for reads: those that need the device overlap. Dropping it gives up what is
/// pending.
///
/// Each read is linearizable: what it tells is what the key had at some moment between
/// [`Reads::begin`] and [`Reads::complete`].
pub trait Reads: Send {
    /// Reads `key`; the value replaces what is in `into` if it is known at once. Never waits for the
    /// device.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], [`crate::Error::Corruption`]; nothing is pending then.
    fn begin(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun>;

    /// Tells `found` of the reads that are done, and where `waits`, does not return before there was
    /// one, if any is pending. Answers how many there were.
    ///
    /// # Errors
    /// The device's queue failed. What goes wrong with one read is told of it alone.
    fn complete(&mut self, waits: bool, found: &mut Found<'_>) -> Result<usize>;

    /// How many are pending.
    fn pending(&self) -> usize;
}
