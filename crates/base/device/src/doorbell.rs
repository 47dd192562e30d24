//! A bell that a queue rings when it has completions.
//!
//! It is a descriptor (an eventfd) that becomes readable when it is rung, so that a thread can wait
//! for sockets and completions together. A thread that waits for edges need not read it: each ring
//! is one.
//!
//! # Invariants
//! - B1. Between a completion that a queue has and the next call of its `poll` or `wait` the bell
//!   is rung at least once. It may be rung for nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::limit::sparing;

/// A bell. Several queues may ring one.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// Makes a bell that was not rung yet.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        sparing(|| eventfd(0, flags)).map(Self).map_err(bell_error)
    }

    /// Rings it.
    #[expect(clippy::host_endian_bytes, reason = "a number of this machine, for its kernel")]
    pub fn ring(&self) {
        // It fails only if it was rung 2^64 times and never read: then the waiting thread was
        // notified.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn bell_error(errno: Errno) -> Error {
    let (operation, code) = (Operation::Queue, errno.raw_os_error());
    Error::Io { operation, name: "doorbell".to_owned(), code }
}
