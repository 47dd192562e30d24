//! Channels: the side of a connection that sends requests.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use environment::Monotonic;
use sync::locks::Mutex;

use crate::error::{Error, Refusal, Result};
use crate::kind::Kind;
use crate::message::{Body, MESSAGE_BYTES_MAX, cost};
use crate::network::ConnectionId;
use crate::node::Shared;
use crate::peer::{Address, Class, Identity};

/// Bytes of requests that may wait for a peer, or one request that is longer.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// The reaction to a reply. It is called once, on any thread, and must be short.
pub type OnReply = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

/// The way to another node, for one class of requests. Cheap to clone.
#[derive(Clone)]
pub struct Channel(Arc<Inner>);

/// The part that the clones of a channel share. It ends the channel with the last one.
struct Inner {
    shared: Arc<Shared>,
    handle: Arc<ChannelHandle>,
}

/// The part of a channel that its handles and the thread of the node share.
#[derive(Debug)]
pub(crate) struct ChannelHandle {
    pub(crate) id: u64,
    pub(crate) to: Address,
    pub(crate) class: Class,
    /// Bytes that the requests without a reply count for.
    pub(crate) bytes: AtomicUsize,
    /// How the peer has named itself last.
    pub(crate) peer: Mutex<Option<Identity>>,
    /// Why the peer has refused the last connection, if it did.
    pub(crate) refused: Mutex<Option<Refusal>>,
}

/// A request that is to be sent.
pub(crate) struct Sending {
    pub(crate) kind: Kind,
    pub(crate) body: Body,
    /// Bytes that the reply may have.
    pub(crate) reply_bytes: u32,
    pub(crate) deadline: Option<Monotonic>,
    pub(crate) on_reply: OnReply,
}

impl Sending {
    /// Returns the bytes that it counts for.
    fn cost(&self) -> usize {
        cost(self.body.len(), self.reply_bytes)
    }
}

impl Channel {
    pub(crate) fn new(shared: Arc<Shared>, handle: Arc<ChannelHandle>) -> Self {
        Self(Arc::new(Inner { shared, handle }))
    }

    /// Sends a request, and does not wait. The peer serves none that reaches it after `limit`. A
    /// reply of more than `reply_bytes` is refused: the bytes count against the credit, so that
    /// the peer never has more replies than it has room for. `on_reply` may be called within this
    /// call. (W3)
    pub fn send(
        &self,
        kind: Kind,
        body: Body,
        (limit, reply_bytes): (Option<Duration>, u32),
        on_reply: OnReply,
    ) {
        if body.len() > MESSAGE_BYTES_MAX {
            let error = Error::TooLong { bytes: body.len(), most: MESSAGE_BYTES_MAX };
            return on_reply(Err(error));
        }
        let Inner { shared, handle } = &*self.0;
        let bytes = cost(body.len(), reply_bytes);
        let waiting = handle.bytes.fetch_add(bytes, SeqCst);
        if waiting > 0 && waiting + bytes > QUEUE_BYTES_MAX {
            handle.bytes.fetch_sub(bytes, SeqCst);
            let peer = handle.to.to_string();
            return on_reply(Err(Error::QueueFull { peer, bytes: waiting }));
        }
        let deadline = limit.map(|limit| shared.environment.now() + limit);
        let sending = Sending { kind, body, reply_bytes, deadline, on_reply };
        if let Err(sending) = shared.send(handle.id, sending) {
            handle.bytes.fetch_sub(bytes, SeqCst);
            (sending.on_reply)(Err(Error::Stopped));
        }
    }

    /// Returns where it leads to.
    pub fn to(&self) -> &Address {
        &self.0.handle.to
    }

    /// Returns why the peer has refused the last connection, if it did.
    pub fn refused(&self) -> Option<Refusal> {
        self.0.handle.refused.lock().clone()
    }

    /// Returns how the peer has named itself when it was reached last.
    pub fn peer(&self) -> Option<Identity> {
        *self.0.handle.peer.lock()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("handle", &self.0.handle).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.end(self.handle.id);
    }
}

impl ChannelHandle {
    pub(crate) fn new(id: u64, to: Address, class: Class) -> Self {
        let (bytes, peer, refused) = Default::default();
        Self { id, to, class, bytes, peer, refused }
    }

    /// Ends a request, whose bytes count no more.
    fn end(&self, bytes: usize, on_reply: OnReply, reply: Result<Vec<u8>>) {
        self.bytes.fetch_sub(bytes, SeqCst);
        on_reply(reply);
    }
}

/// A request that was sent.
struct Pending {
    kind: Kind,
    bytes: usize,
    deadline: Option<Monotonic>,
    /// None if the sender got an error already. The entry stays until the reply, because the
    /// request counts against the credit.
    on_reply: Option<OnReply>,
}

/// The connection of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none. The next attempt is not before this time.
    Closed(Monotonic),
    /// It is being made.
    Dialling(ConnectionId),
    /// Requests can be sent, in this version of the protocol.
    Open(ConnectionId, u8),
}

/// The part of a channel that the thread of the node has.
pub(crate) struct Outgoing {
    pub(crate) handle: Arc<ChannelHandle>,
    pub(crate) state: State,
    queue: VecDeque<Sending>,
    pending: BTreeMap<u64, Pending>,
    /// Bytes of requests without a reply, and their limit.
    used: u64,
    pub(crate) credit: u64,
    next_request: u64,
    /// Attempts that have failed since the last connection.
    pub(crate) failures: u32,
    /// The cause of the last failure.
    pub(crate) cause: String,
}

impl Outgoing {
    pub(crate) fn new(handle: Arc<ChannelHandle>, now: Monotonic) -> Self {
        Self {
            handle,
            state: State::Closed(now),
            queue: VecDeque::new(),
            pending: BTreeMap::new(),
            used: 0,
            credit: 0,
            next_request: 1,
            failures: 0,
            cause: String::new(),
        }
    }

    pub(crate) fn push(&mut self, sending: Sending) {
        self.queue.push_back(sending);
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes the next request that the credit allows: its number and kind, the time that it has
    /// left with the bytes that its reply may have, and its body.
    pub(crate) fn next(&mut self, now: Monotonic) -> Option<(u64, Kind, (u32, u32), Body)> {
        while self.used < self.credit {
            let sending = self.queue.pop_front()?;
            let bytes = sending.cost();
            let Sending { kind, body, reply_bytes, deadline, on_reply } = sending;
            let left_ms = match deadline {
                None => 0,
                Some(deadline) if deadline <= now => {
                    self.handle.end(bytes, on_reply, Err(Error::Expired));
                    continue;
                }
                Some(deadline) => left_ms(deadline - now),
            };
            let request = self.next_request;
            self.next_request += 1;
            self.used += bytes as u64;
            let on_reply = Some(on_reply);
            self.pending.insert(request, Pending { kind, bytes, deadline, on_reply });
            return Some((request, kind, (left_ms, reply_bytes), body));
        }
        None
    }

    /// Hands a reply to the sender of its request. Returns whether there is such a request.
    pub(crate) fn reply(&mut self, (kind, request): (Kind, u64), reply: Result<Vec<u8>>) -> bool {
        if self.pending.get(&request).is_none_or(|pending| pending.kind != kind) {
            return false;
        }
        if let Some(Pending { bytes, on_reply, .. }) = self.pending.remove(&request) {
            self.used = self.used.saturating_sub(bytes as u64);
            match on_reply {
                Some(on_reply) => self.handle.end(bytes, on_reply, reply),
                None => _ = self.handle.bytes.fetch_sub(bytes, SeqCst),
            }
        }
        true
    }

    /// Ends all requests with an error, sent or not.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.used = 0;
        for (_, Pending { bytes, on_reply, .. }) in std::mem::take(&mut self.pending) {
            match on_reply {
                Some(on_reply) => self.handle.end(bytes, on_reply, Err(error.clone())),
                None => _ = self.handle.bytes.fetch_sub(bytes, SeqCst),
            }
        }
        for sending in std::mem::take(&mut self.queue) {
            self.handle.end(sending.cost(), sending.on_reply, Err(error.clone()));
        }
    }

    /// Ends requests whose time is over.
    pub(crate) fn expire(&mut self, now: Monotonic) {
        let is_over = |deadline: Option<Monotonic>| deadline.is_some_and(|end| end <= now);
        if self.queue.iter().any(|sending| is_over(sending.deadline)) {
            for sending in std::mem::take(&mut self.queue) {
                match is_over(sending.deadline) {
                    true => {
                        let bytes = sending.cost();
                        self.handle.end(bytes, sending.on_reply, Err(Error::Expired));
                    }
                    false => self.queue.push_back(sending),
                }
            }
        }
        let peer = &self.handle.to;
        for pending in self.pending.values_mut().filter(|pending| is_over(pending.deadline)) {
            if let Some(on_reply) = pending.on_reply.take() {
                let cause = "it did not reply in time".to_owned();
                on_reply(Err(Error::Unreachable { peer: peer.to_string(), cause }));
            }
        }
    }

    /// Returns the error of a lost or impossible connection.
    pub(crate) fn unreachable(&self) -> Error {
        Error::Unreachable { peer: self.handle.to.to_string(), cause: self.cause.clone() }
    }
}

/// A thread of a node that ends by a fault ends all requests, too. (W3)
impl Drop for Outgoing {
    fn drop(&mut self) {
        self.fail(&Error::Stopped);
    }
}

/// Returns whole milliseconds, at least one.
fn left_ms(left: Duration) -> u32 {
    u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)
}
