//! Replies on their way out.
//!
//! # Invariants
//! I1. A reply that promises a write is sent only after the write's durability was reached: the
//!     event loop calls [`Output::send`] after it has waited, or after [`Output::break_promises`].
//!     A reply that waits behind another one promises nothing: a command that changes something is
//!     answered when nothing waits before it.

use std::io::{self, Write as _};

use mio::net::TcpStream;

use super::KEPT_BYTES;
use super::reply_queue::ReplyQueue;
use crate::buffer;
use crate::commands::room::OutputLimits;
use crate::protocol::Reply;
use crate::protocol::reply::FRAME_BYTES;
use crate::shared::ReplyLimits;

/// A connection's output.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Replies, the sent ones at the front included.
    pub(super) bytes: Vec<u8>,
    sent: usize,
    /// Places in `bytes` of the replies of this turn that promise a write.
    promises: Vec<(usize, usize)>,
    /// Replies that must not go out before a command that waits for the device.
    pub(super) reply_queue: ReplyQueue,
}

impl Output {
    /// Notes that the bytes written since `begin` promise a write.
    pub(super) fn promise(&mut self, begin: usize) {
        let end = self.bytes.len();
        if end > begin {
            self.promises.push((begin, end));
        }
    }

    /// Whether a reply of this turn promises a write.
    pub(super) fn has_promises(&self) -> bool {
        !self.promises.is_empty()
    }

    /// Puts `error` in the place of every promise; returns how many there were.
    pub(super) fn break_promises(&mut self, error: &str) -> usize {
        let count = self.promises.len();
        let old = std::mem::take(&mut self.bytes);
        let mut copied = 0;
        for (begin, end) in self.promises.drain(..) {
            self.bytes.extend_from_slice(old.get(copied..begin).unwrap_or_default());
            Reply::new(&mut self.bytes, false).error(error.as_bytes());
            copied = end;
        }
        self.bytes.extend_from_slice(old.get(copied..).unwrap_or_default());
        count
    }

    /// Sends the bytes that the socket takes; returns how many.
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
        if self.sent == self.bytes.len() {
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

    /// Puts the reply of the command that waited at `number` into its place; the first one's is in
    /// `bytes` already.
    pub(super) fn answer(&mut self, number: u64, reply: Vec<u8>) {
        self.reply_queue.answer(number, reply, &mut self.bytes);
    }

    /// Adds a reply that was made elsewhere, for a command that no other one waits before. It is
    /// not copied if all replies before it are sent.
    pub(super) fn put(&mut self, reply: Vec<u8>) {
        if self.bytes.is_empty() {
            self.bytes = reply;
        } else {
            buffer::reserve(&mut self.bytes, reply.len());
            self.bytes.extend_from_slice(&reply);
        }
    }

    /// Adds a reply behind everything.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.reply_queue.is_empty() {
            return write(&mut self.bytes);
        }
        let mut tail = self.reply_queue.take_tail();
        write(&mut tail);
        self.reply_queue.put_tail(tail);
    }

    /// Whether there is something to send now.
    pub(super) fn is_due(&self) -> bool {
        self.sent < self.bytes.len()
    }

    /// Whether everything is sent, and nothing will come of itself.
    pub(super) fn is_sent(&self) -> bool {
        !self.is_due() && self.reply_queue.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.bytes.len() - self.sent + self.reply_queue.reply_bytes()
    }

    /// Returns whether the reply of the command that waits at `number` may be made, if no more than
    /// `unsent_max` should be unsent: also if nothing goes out before it is.
    pub(super) fn has_room_for(&self, number: u64, unsent_max: usize) -> bool {
        self.unsent_bytes() <= unsent_max || !self.is_due() && self.reply_queue.is_first(number)
    }

    /// Returns how long a buffer of replies, `len` bytes long now, may become: `is_first` if its
    /// next reply waits for no other one.
    pub(super) fn limits(&self, len: usize, is_first: bool, limits: ReplyLimits) -> OutputLimits {
        let unread_max = if is_first { limits.unread_max } else { limits.ahead_max };
        // A buffer that is not the first one's was taken out of this.
        let taken = if is_first { 0 } else { len };
        let unsent = self.unsent_bytes() + taken;
        let end = len.saturating_add(unread_max).saturating_sub(unsent);
        let value_max = if is_first { limits.value_max } else { 0 };
        OutputLimits {
            end: end.saturating_add(FRAME_BYTES),
            // The head of an array may come first.
            end_of_value: len.saturating_add(value_max).saturating_add(2 * FRAME_BYTES),
            unread_max: limits.unread_max,
        }
    }

    /// Releases memory that a reply took which was then dropped.
    pub(super) fn shrink(&mut self) {
        if self.bytes.capacity() / 2 > self.bytes.len() {
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.promises.capacity() * size_of::<(usize, usize)>()
            + self.reply_queue.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
