//! Replies on their way out.
//!
//! # Invariants
//! I1. A reply that promises a write is sent only after the write's durability was reached: the
//!     event loop calls [`Output::send`] after it has waited, or after
//!     [`Output::break_promises`].

use std::io::{self, Write as _};

use mio::net::TcpStream;

use super::KEPT_BYTES;
use crate::protocol::Reply;

/// A connection's output.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Replies, the sent ones at the front included.
    pub(super) bytes: Vec<u8>,
    sent: usize,
    /// Where in `bytes` the replies of this turn lie that promise a write.
    promises: Vec<(usize, usize)>,
}

impl Output {
    /// Notes that what was written since `begin` promises a write.
    pub(super) fn promise(&mut self, begin: usize) {
        let end = self.bytes.len();
        if end > begin {
            self.promises.push((begin, end));
        }
    }

    /// Puts `error` in the place of every promise.
    pub(super) fn break_promises(&mut self, error: &str) {
        let old = std::mem::take(&mut self.bytes);
        let mut copied = 0;
        for (begin, end) in self.promises.drain(..) {
            self.bytes.extend_from_slice(old.get(copied..begin).unwrap_or_default());
            Reply::new(&mut self.bytes, false).error(error);
            copied = end;
        }
        self.bytes.extend_from_slice(old.get(copied..).unwrap_or_default());
    }

    /// Sends what the socket takes; how many bytes that was.
    pub(super) fn send(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        self.promises.clear();
        let begun = self.sent;
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let sent = self.sent - begun;
        if self.is_sent() {
            self.bytes.clear();
            self.sent = 0;
            self.bytes.shrink_to(KEPT_BYTES);
            self.promises.shrink_to(KEPT_BYTES / 16);
        } else if self.sent > self.bytes.len() / 2 {
            // Moving the smaller half keeps the copying linear.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(sent)
    }

    /// Whether nothing waits.
    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Bytes that wait.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// The length of `bytes` at which more than `unsent_max` would wait.
    pub(super) fn end(&self, unsent_max: usize) -> usize {
        self.sent.saturating_add(unsent_max)
    }

    /// Gives back memory that a reply took which was then dropped.
    pub(super) fn shrink(&mut self) {
        if self.bytes.capacity() / 2 > self.bytes.len() {
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.promises.capacity() * size_of::<(usize, usize)>()
    }
}

#[cfg(test)]
mod tests;
