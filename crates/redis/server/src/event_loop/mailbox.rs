//! The letters that loops send each other.

use std::io;

use mio::net::TcpStream;
use mio::{Poll, Waker};
use thermocline::sync::locks::Mutex;

use super::{LETTERS, Ran, Walked};
use crate::store::StoreError;
use crate::store::reads::Done;

/// A message to a loop.
#[derive(Debug)]
pub(crate) enum Letter {
    /// A connection that was accepted for it.
    Connection(TcpStream),
    /// End this connection, if the token is still this client's.
    Disconnect { token: usize, id: u64 },
    /// A slice of a walk, or a value, was read for a connection of this loop.
    Walked(Walked<Result<Done, StoreError>>),
    /// A thread has run a command for a connection of this loop.
    Ran(Box<Ran>),
    /// The gate, which was not open for commands of this loop, is open.
    GateOpened,
}

/// The letters for a loop.
#[derive(Debug)]
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    waker: Waker,
}

impl Mailbox {
    /// The mailbox of the loop that polls `poll`.
    pub(crate) fn new(poll: &Poll) -> io::Result<Self> {
        let waker = Waker::new(poll.registry(), LETTERS)?;
        Ok(Self { letters: Mutex::default(), waker })
    }

    /// Sends a letter.
    pub(crate) fn send(&self, letter: Letter) {
        self.letters.lock().push(letter);
        self.wake();
    }

    /// Wakes the loop.
    pub(crate) fn wake(&self) {
        // It fails only if the loop's poll was dropped, and with it the loop.
        let _ = self.waker.wake();
    }

    /// All letters that are there.
    pub(crate) fn take(&self) -> Vec<Letter> {
        std::mem::take(&mut self.letters.lock())
    }
}
