//! One connection, as the thread of a node sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use codec::Corruption;
use environment::Monotonic;

use crate::driver::SessionKey;
use crate::frame::{Decoder, Frame, HELLO_BYTES_MAX};
use crate::message::{Joiner, Message};
use crate::peer::{Certified, Class, Identity};

/// The side that this node has.
#[derive(Debug)]
pub(crate) enum Side {
    /// It has dialled, for a channel.
    Dialled(u64),
    /// It was dialled. The peer has not said hello yet.
    Unknown,
    /// It was dialled.
    Accepted(Accepted),
}

/// A peer that sends requests.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) from: Identity,
    pub(crate) class: Class,
    pub(crate) session: SessionKey,
    /// Set when the connection ends. All its requests share it.
    pub(crate) has_ended: Arc<AtomicBool>,
    /// Bytes that the requests without a reply count for.
    pub(crate) open_bytes: u64,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) side: Side,
    /// The name in the certificate of the peer; none before the connection is there.
    pub(crate) certified: Option<Certified>,
    /// Whether both sides have agreed.
    pub(crate) is_open: bool,
    version: u8,
    /// The time at which both sides have agreed.
    pub(crate) opened: Monotonic,
    /// Whether nothing is received, because the peer does not take what it is sent. The number is
    /// the least that has waited for it since.
    pub(crate) paused: Option<usize>,
    /// The time of the last bytes of the peer.
    pub(crate) heard: Monotonic,
    /// The time of the last ping.
    pub(crate) pinged: Monotonic,
    decoder: Decoder,
    joiner: Joiner,
}

impl Connection {
    pub(crate) fn new(side: Side, certified: Option<Certified>, now: Monotonic) -> Self {
        Self {
            side,
            certified,
            is_open: false,
            version: 0,
            opened: now,
            paused: None,
            heard: now,
            pinged: now,
            decoder: Decoder::new(HELLO_BYTES_MAX),
            joiner: Joiner::default(),
        }
    }

    /// Notes that both sides have agreed on a version of the protocol.
    pub(crate) fn open(&mut self, version: u8, now: Monotonic) {
        (self.is_open, self.version, self.opened) = (true, version, now);
        self.decoder.allow_all();
    }

    /// Adds bytes that were received.
    pub(crate) fn push(&mut self, bytes: &[u8], now: Monotonic) {
        self.heard = now;
        self.decoder.push(bytes);
    }

    /// Takes the next frame.
    ///
    /// # Errors
    /// The bytes are no frame.
    pub(crate) fn frame(&mut self) -> Result<Option<Frame>, Corruption> {
        self.decoder.take()
    }

    /// Adds a frame to its message, and returns the message that it ends.
    ///
    /// # Errors
    /// The frame belongs to no message.
    pub(crate) fn join(&mut self, frame: Frame) -> Result<Option<Message>, Corruption> {
        self.joiner.add(frame)
    }

    /// Returns the version of the protocol that both sides have agreed on.
    pub(crate) fn version(&self) -> u8 {
        self.version
    }

    /// Returns the bytes of the message that has begun.
    pub(crate) fn begun_bytes(&self) -> usize {
        self.joiner.begun_bytes()
    }

    pub(crate) fn accepted(&mut self) -> Option<&mut Accepted> {
        match &mut self.side {
            Side::Accepted(accepted) => Some(accepted),
            _ => None,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Side::Accepted(accepted) = &self.side {
            accepted.has_ended.store(true, SeqCst);
        }
    }
}
