//! How large a reply may become while it is made.
//!
//! A command that answers many values asks [`Room::check`] after each. What the reply has grown by
//! is charged to the clients' memory at once, so that all threads together pass the budget by no
//! more than a step and one value each.

use std::cell::Cell;

use super::{Failure, Outcome};
use crate::client_memory::ClientMemory;

/// A reply is charged for whenever it grew by this much.
const STEP_BYTES: usize = 64 << 10;

/// The room of one command's reply.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    memory: &'a ClientMemory,
    /// What the connection is charged for.
    charged: Cell<usize>,
    /// Length of the output up to which `charged` counts it.
    counted: Cell<usize>,
    /// Length of the output at which the client has left too much unread.
    output_end: usize,
}

impl<'a> Room<'a> {
    /// The room of a reply that begins at `begin` of the output, for a connection that is charged
    /// for `charged` bytes.
    pub(crate) fn new(
        memory: &'a ClientMemory,
        charged: usize,
        begin: usize,
        output_end: usize,
    ) -> Self {
        Self { memory, charged: Cell::new(charged), counted: Cell::new(begin), output_end }
    }

    /// Whether the reply may go on, now that the output is `len` bytes long.
    ///
    /// # Errors
    /// [`Failure::OutputLimit`], [`Failure::NoRoom`].
    pub(crate) fn check(&self, len: usize) -> Outcome {
        if len > self.output_end {
            return Err(Failure::OutputLimit);
        }
        if len <= self.counted.get() + STEP_BYTES {
            return Ok(());
        }
        let more = len - self.counted.get();
        self.counted.set(len);
        self.hold(more)
    }

    /// Charges the connection for `bytes` more, which the command keeps beside the reply.
    ///
    /// # Errors
    /// [`Failure::NoRoom`]; they are charged all the same, until the connection is charged anew.
    pub(crate) fn hold(&self, bytes: usize) -> Outcome {
        let mut charged = self.charged.get();
        let more = charged + bytes;
        self.memory.recharge(&mut charged, more);
        self.charged.set(charged);
        if self.memory.is_exhausted() {
            return Err(Failure::NoRoom { limit: self.memory.limit() });
        }
        Ok(())
    }

    /// Gives back `bytes` that were held.
    pub(crate) fn release(&self, bytes: usize) {
        let mut charged = self.charged.get();
        let less = charged.saturating_sub(bytes);
        self.memory.recharge(&mut charged, less);
        self.charged.set(charged);
    }

    /// What the connection is charged for now.
    pub(crate) fn charged(&self) -> usize {
        self.charged.get()
    }
}
