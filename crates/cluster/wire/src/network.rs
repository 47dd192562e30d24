//! Networks: what moves the bytes of connections.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::peer::Certified;

/// A connection of an endpoint. No other connection of the endpoint gets its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Something that has happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another endpoint has dialled this one.
    Accepted {
        /// The connection.
        connection: ConnectionId,
        /// The name in the certificate of the other side.
        peer: Certified,
    },
    /// A connection that was dialled is there.
    Opened {
        /// The connection.
        connection: ConnectionId,
        /// The name in the certificate of the other side.
        peer: Certified,
    },
    /// Bytes were received.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The connection has ended, or could not be made. Nothing follows.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// The cause, for messages.
        cause: String,
    },
}

impl Event {
    /// Returns the connection.
    pub fn connection(&self) -> ConnectionId {
        match self {
            Self::Accepted { connection, .. }
            | Self::Opened { connection, .. }
            | Self::Received { connection, .. }
            | Self::Closed { connection, .. } => *connection,
        }
    }
}

/// Ends a wait of an endpoint.
pub trait Wake: Send + Sync + Debug {
    /// Ends the wait that is under way, or else the next one.
    fn wake(&self);
}

/// The connections of a node. One thread uses it.
pub trait Endpoint: Send + Debug {
    /// Accepts connections at an address, and returns the address. Port 0 is a free port.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn listen(&mut self, place: &str) -> Result<String>;

    /// Begins a connection. [`Event::Opened`] or [`Event::Closed`] follows.
    fn dial(&mut self, place: &str) -> ConnectionId;

    /// Takes bytes to send, and does not wait. It takes all of them. The caller stops by
    /// [`Endpoint::queued`].
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]);

    /// Returns the bytes of a connection that were taken and not sent yet.
    fn queued(&self, connection: ConnectionId) -> usize;

    /// Receives nothing from a connection, until this is called with `false`.
    fn pause(&mut self, connection: ConnectionId, is_paused: bool);

    /// Ends a connection, after an attempt to send what was taken. No event follows.
    fn close(&mut self, connection: ConnectionId);

    /// Returns what has happened since. Waits for an event, a wake or the end of `limit`.
    fn wait(&mut self, limit: Duration) -> Vec<Event>;

    /// Returns what ends a wait.
    fn waker(&self) -> Arc<dyn Wake>;
}
