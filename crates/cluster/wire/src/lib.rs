//! Connections between the processes of a cluster: frames, and requests with replies.
//!
//! ```text
//!  Channel::send ──> queue ──> Node: one thread ──> Endpoint ~~~~> Endpoint ──> Node ──> Handler
//!  on_reply      <── pending <──                                           <── Responder::reply
//! ```
//!
//! A [`Node`] is this process in the cluster. It dials other nodes, and listens. A [`Channel`]
//! leads to one other node, for one [`Class`] of requests. Its connection is made when the first
//! request is sent, and again after a loss. A request is a [`Kind`] and bytes. The crates above
//! encode them. An [`Endpoint`] moves bytes: over sockets with TLS (feature `tls`, module
//! `sockets`), or within a process ([`LocalNetwork`]).
//!
//! # Invariants
//! - W1. *Hello.* No request is sent or served before both sides have named themselves: cluster,
//!   role, number and start. The certificates say the same. Both sides use the newest version of
//!   the protocol that both know.
//! - W2. *Order.* Requests of a channel reach the handler in the order in which they were sent. A
//!   connection that takes the place of another one ends it: requests of the earlier one that the
//!   handler has not begun are dropped ([`Request::is_dropped`]).
//! - W3. *One reply.* Each request gets one reply, or one error. After [`Error::Unreachable`] the
//!   sender does not know whether the request was served.
//! - W4. *Bounds.* A frame, a message, the queue of a channel, and the requests that a node serves
//!   for one connection have limits in bytes. A connection that says nothing in time is closed.
//! - W5. *Starts.* A node that has seen a later start of its peer refuses the earlier one.
//!
//! # Concurrency
//! One thread owns the connections of a node. It calls [`Handler::handle`] and the reactions to
//! replies, which must be short. Other threads hand it requests and replies through one lock, which
//! they hold for a moment.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod channel;
mod connection;
mod driver;
mod error;
mod frame;
mod hello;
mod kind;
mod lanes;
mod local;
mod message;
mod network;
mod node;
mod peer;
mod request;
#[cfg(feature = "tls")]
mod sockets;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
pub mod tls;

pub use channel::{Channel, OnReply};
pub use error::{Error, Refusal, Result};
pub use frame::{BODY_BYTES_MAX, Decoder, Frame, HEADER_BYTES};
pub use hello::{Hello, NEWEST, OLDEST, Refused, Welcome};
pub use kind::Kind;
pub use lanes::Lanes;
pub use local::{Cut, LocalEndpoint, LocalNetwork};
pub use message::Body;
pub use network::{ConnectionId, Endpoint, Event, Wake};
pub use node::{Node, Options};
pub use peer::{Address, Certified, Class, Identity, Role, hosts_and_ports};
pub use request::{Handler, Request, Responder};
#[cfg(feature = "tls")]
pub use sockets::SocketEndpoint;
