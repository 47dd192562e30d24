//! The side of a connection that serves requests.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use environment::Monotonic;

use crate::error::Refusal;
use crate::hello::Refused;
use crate::kind::Kind;
use crate::message::Body;
use crate::network::ConnectionId;
use crate::node::{Reply, Shared};
use crate::peer::{Class, Identity};

/// Serves the requests of other nodes.
pub trait Handler: Send + Sync + Debug {
    /// Begins a request, and does not wait: the thread of all connections calls it. The reply may
    /// be given on any thread.
    fn handle(&self, request: Request, responder: Responder);
}

/// A request of another node.
#[derive(Debug)]
pub struct Request {
    /// The node that has sent it.
    pub from: Identity,
    /// The purpose of its connection.
    pub class: Class,
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub body: Vec<u8>,
    pub(crate) deadline: Option<Monotonic>,
    pub(crate) has_ended: Arc<AtomicBool>,
}

impl Request {
    /// Returns whether the connection has ended: the sender will not see a reply. A request that
    /// changes something must not begin any more, since a later connection may have brought a
    /// later one. (W2)
    pub fn is_dropped(&self) -> bool {
        self.has_ended.load(SeqCst)
    }

    /// Returns whether its time is over: it has to be refused with [`Refusal::Late`].
    pub fn is_late(&self, now: Monotonic) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Gives the reply to a request. Without a reply the sender gets [`Refusal::NoReply`].
#[derive(Debug)]
pub struct Responder {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: ConnectionId,
    pub(crate) request: (Kind, u64),
    /// Bytes of the request, which count against the credit of the sender.
    pub(crate) bytes: usize,
    /// Bytes that the reply may have.
    pub(crate) reply_bytes: u32,
    pub(crate) is_done: bool,
}

impl Responder {
    /// Gives the reply.
    pub fn reply(mut self, body: Body) {
        self.give(Ok(body));
    }

    /// Refuses the request.
    pub fn refuse(mut self, refusal: Refusal) {
        self.give(Err(Refused(refusal)));
    }

    fn give(&mut self, body: Result<Body, Refused>) {
        self.is_done = true;
        let Self { connection, request: (kind, request), bytes, reply_bytes, .. } = *self;
        self.shared.reply(Reply { connection, kind, request, bytes, reply_bytes, body });
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_done {
            self.give(Err(Refused(Refusal::NoReply)));
        }
    }
}
