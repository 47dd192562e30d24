//! Overlapped I/O by completion.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::doorbell::Doorbell;
use crate::error::Result;
use crate::file::{File, SyncKind};

/// The work of a request.
#[derive(Debug)]
pub enum Work {
    /// Fill the buffer from `offset`.
    Read {
        /// The offset of the first byte.
        offset: u64,
        /// How much, and where to.
        buffer: Buffer,
    },
    /// Write the buffer at `offset`.
    Write {
        /// The offset of the first byte.
        offset: u64,
        /// The bytes to write.
        buffer: Buffer,
    },
    /// Make durable all work that completed before this was submitted.
    Sync(SyncKind),
}

/// One piece of work on one file.
#[derive(Debug)]
pub struct Request {
    /// Comes back in the completion; the queue does not read it.
    pub tag: u64,
    /// The file.
    pub file: Arc<dyn File>,
    /// The work.
    pub work: Work,
}

/// A request's end.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// The request's buffer, filled if it was a read that succeeded.
    pub buffer: Option<Buffer>,
    /// Success means all of it; a short transfer is continued inside or an error.
    pub result: Result<()>,
}

/// A place to submit requests and collect completions, which may come in any order. Dropping a
/// queue waits for its requests in flight.
pub trait Queue: Send {
    /// Takes a request. It may be held back until [`Queue::poll`] or [`Queue::wait`], so that many
    /// go to the kernel in one call.
    ///
    /// # Errors
    /// `Err` hands the request back if the queue is full.
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request>;

    /// Starts requests that were held back and moves the completions that are there to `into`,
    /// without blocking. Returns how many.
    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize>;

    /// The same, but blocks until at least `count` (or all that is in flight, if fewer) are done.
    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize>;

    /// How many requests were taken and not yet handed back.
    fn in_flight(&self) -> usize;

    /// Has `bell` rung from now on whenever there is something that [`Queue::poll`] would hand
    /// over, and that was submitted before the last call of it, or is done already. It may be rung
    /// for nothing. For a queue on which nothing is in flight.
    ///
    /// # Errors
    /// The system's.
    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()>;
}
