//! How large a reply may become while it is made.
//!
//! A command asks [`Room`] before it adds a value to its reply, and a command that changes
//! something asks before it does so. The memory that the reply takes is charged to the clients'
//! memory first, so a reply without room is an error, and never the reason why a connection ends.

use std::cell::Cell;

use super::{Failure, Outcome};
use crate::client_memory::ClientMemory;
use crate::protocol::reply::FRAME_BYTES;
use crate::protocol::{Extent, Reply};

/// A reply is charged for whenever it grew by this much.
const STEP_BYTES: usize = 64 << 10;

/// The room of one command's reply.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    memory: &'a ClientMemory,
    /// The connection's charge.
    charged: Cell<usize>,
    /// Capacity of the output up to which `charged` counts it.
    counted: Cell<usize>,
    /// Length of the output when the reply began.
    begin: usize,
    /// The most output.
    end: Cell<usize>,
    limits: OutputLimits,
}

/// How long the output may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputLimits {
    /// Length at which the client would leave too much unread.
    pub(crate) end: usize,
    /// The same for a reply with one value, which always fits.
    pub(crate) end_of_value: usize,
    /// Bytes that a client may leave unread.
    pub(crate) unread_max: usize,
}

impl<'a> Room<'a> {
    /// The room of a reply behind output of the extent `begin`, for a connection that is charged
    /// for `charged` bytes.
    pub(crate) fn new(
        memory: &'a ClientMemory,
        charged: usize,
        begin: Extent,
        limits: OutputLimits,
    ) -> Self {
        let (charged, counted) = (Cell::new(charged), Cell::new(begin.capacity));
        let (begin, end) = (begin.len, Cell::new(limits.end));
        Self { memory, charged, counted, begin, end, limits }
    }

    /// Charges the connection for output of the extent `extent`.
    ///
    /// # Errors
    /// [`Failure::OutputLimit`], [`Failure::NoRoom`]; then nothing was charged.
    #[inline]
    pub(crate) fn check(&self, extent: Extent) -> Outcome {
        if extent.len > self.end.get() {
            return Err(Failure::OutputLimit { limit: self.limits.unread_max });
        }
        if extent.capacity <= self.counted.get() + STEP_BYTES {
            return Ok(());
        }
        self.hold(extent.capacity - self.counted.get())?;
        self.counted.set(extent.capacity);
        Ok(())
    }

    /// Charges the connection for a value of `len` bytes behind output of the extent `extent`.
    ///
    /// # Errors
    /// The failures of [`Room::check`].
    #[inline]
    pub(crate) fn check_value(&self, extent: Extent, len: usize) -> Outcome {
        let with_value = extent.with_bulk(len);
        if with_value.len > self.end.get() {
            let is_first = extent.len <= self.begin + FRAME_BYTES;
            if is_first && with_value.len <= self.limits.end_of_value {
                self.end.set(with_value.len);
            }
        }
        self.check(with_value)
    }

    /// Adds the string `bytes` to `reply`.
    ///
    /// # Errors
    /// The failures of [`Room::check`]; then nothing was added.
    #[inline]
    pub(crate) fn bulk(&self, reply: &mut Reply<'_>, bytes: &[u8]) -> Outcome {
        self.check_value(reply.extent(), bytes.len())?;
        reply.bulk(bytes);
        Ok(())
    }

    /// Charges the connection for `bytes` more, which the command keeps in addition to the reply.
    ///
    /// # Errors
    /// [`Failure::NoRoom`]; then nothing was charged.
    pub(crate) fn hold(&self, bytes: usize) -> Outcome {
        let mut charged = self.charged.get();
        if !self.memory.try_charge(&mut charged, bytes) {
            return Err(Failure::NoRoom { limit: self.memory.limit() });
        }
        self.charged.set(charged);
        Ok(())
    }

    /// Releases `bytes` that were held.
    pub(crate) fn release(&self, bytes: usize) {
        let mut charged = self.charged.get();
        let less = charged.saturating_sub(bytes);
        self.memory.recharge(&mut charged, less);
        self.charged.set(charged);
    }

    /// Returns the bytes for which the connection is charged now.
    pub(crate) fn charged(&self) -> usize {
        self.charged.get()
    }
}
