//! The thread of a node: it owns the connections.
//!
//! One turn:
//! 1. Take requests and replies of other threads.
//! 2. Send the requests of each channel, as far as its credit goes. Dial where there is no
//!    connection.
//! 3. Close connections that are silent, and end requests whose time is over.
//! 4. Wait for events, and handle them.

mod agree;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use codec::Corruption;
use environment::Monotonic;
use rand::Rng as _;

use crate::channel::{Outgoing, State};
use crate::connection::{Accepted, Connection, Side};
use crate::error::{Error, Refusal};
use crate::frame::{Frame, MORE};
use crate::hello::{Hello, NEWEST, OLDEST, Refused};
use crate::kind::Kind;
use crate::message::{MESSAGE_BYTES_MAX, Message, cost, encode_reply, encode_request};
use crate::network::{ConnectionId, Endpoint, Event};
use crate::node::{Options, Reply, Shared};
use crate::peer::{Certified, Role};
use crate::request::{Request, Responder};
use agree::Session;
pub(crate) use agree::SessionKey;

/// The longest wait of a turn.
const TICK: Duration = Duration::from_millis(500);
/// The first pause after an attempt to reach a peer has failed.
const RETRY_MIN: Duration = Duration::from_millis(20);
/// The longest one.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Bytes that may wait for a peer before nothing more is received from it.
const QUEUED_BYTES_MAX: usize = 8 << 20;
/// Bytes that are handed to the endpoint together, about.
const SEND_BYTES: usize = 256 << 10;
/// Memory for frames that is kept from turn to turn.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;
/// Connections without a hello, at most.
const UNKNOWN_MAX: usize = 128;
/// Time after which a connection that was open is dialled again without a pause.
const SETTLED: Duration = Duration::from_secs(1);

/// The state of the thread.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    endpoint: Box<dyn Endpoint>,
    options: Options,
    channels: BTreeMap<u64, Outgoing>,
    connections: BTreeMap<ConnectionId, Connection>,
    sessions: BTreeMap<SessionKey, Session>,
    /// A random number of this process.
    process: u64,
    /// The latest starts that were seen. (W5)
    newest: BTreeMap<(Role, u32), u64>,
    dials: u64,
    ticked: Monotonic,
    paused: BTreeSet<ConnectionId>,
    scratch: Vec<u8>,
}

/// The cause of the end of a connection, in words.
type Cause = String;

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, endpoint: Box<dyn Endpoint>, options: Options) -> Self {
        let ticked = options.environment.now();
        // Two processes with one seed are not in one cluster.
        let process = options.environment.random("wire").next_u64();
        Self {
            shared,
            endpoint,
            options,
            channels: BTreeMap::new(),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            process,
            newest: BTreeMap::new(),
            dials: 0,
            ticked,
            paused: BTreeSet::new(),
            scratch: Vec::new(),
        }
    }

    pub(crate) fn run(mut self) {
        loop {
            let taken = self.shared.take();
            let now = self.now();
            for handle in taken.channels {
                self.channels.insert(handle.id, Outgoing::new(handle, now));
            }
            for (channel, sending) in taken.sends {
                if let Some(channel) = self.channels.get_mut(&channel) {
                    channel.push(sending);
                }
            }
            if taken.is_stopped {
                return self.end();
            }
            self.resume(now);
            taken.replies.into_iter().for_each(|reply| self.send_reply(reply));
            taken.ended.into_iter().for_each(|channel| self.end_channel(channel));
            let channels: Vec<u64> = self.channels.keys().copied().collect();
            channels.into_iter().for_each(|channel| self.pump(channel, now));
            if now - self.ticked >= self.tick() {
                self.ticked = now;
                self.look(now);
            }
            let events = self.endpoint.wait(self.tick());
            events.into_iter().for_each(|event| self.on_event(event));
        }
    }

    fn now(&self) -> Monotonic {
        self.options.environment.now()
    }

    /// Returns the time between two looks at silence and deadlines.
    fn tick(&self) -> Duration {
        TICK.min(self.options.silence / 8)
    }

    /// Ends all connections, and all requests with them.
    fn end(mut self) {
        let connections: Vec<ConnectionId> = self.connections.keys().copied().collect();
        connections.into_iter().for_each(|connection| self.endpoint.close(connection));
    }

    fn end_channel(&mut self, id: u64) {
        let Some(mut channel) = self.channels.remove(&id) else { return };
        channel.fail(&Error::Stopped);
        if let State::Dialling(connection) | State::Open(connection, _) = channel.state {
            self.connections.remove(&connection);
            self.endpoint.close(connection);
        }
    }

    /// Sends the requests of a channel that can be sent.
    fn pump(&mut self, id: u64, now: Monotonic) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if !channel.has_work() {
            return;
        }
        match channel.state {
            State::Dialling(_) => {}
            State::Closed(retry_at) if retry_at > now => {
                let error = channel.unreachable();
                channel.fail(&error);
            }
            State::Closed(_) => {
                let connection = self.endpoint.dial(&channel.handle.to.place);
                channel.state = State::Dialling(connection);
                let dialled = Connection::new(Side::Dialled(id), None, now);
                self.connections.insert(connection, dialled);
            }
            State::Open(connection, version) => {
                self.scratch.clear();
                while let Some((request, kind, limits, body)) = channel.next(now) {
                    let of = (kind, version, request);
                    encode_request(&mut self.scratch, of, limits, &body);
                    if self.scratch.len() >= SEND_BYTES {
                        self.endpoint.send(connection, &self.scratch);
                        self.scratch.clear();
                    }
                }
                self.send_scratch(connection);
            }
        }
    }

    /// Sends the bytes of `scratch`. If too many wait for a peer that has dialled, nothing is
    /// received from it. The side that has dialled always receives, so that the two never wait for
    /// each other: its credit bounds what it sends.
    fn send_scratch(&mut self, to: ConnectionId) {
        if self.scratch.is_empty() {
            return;
        }
        self.endpoint.send(to, &self.scratch);
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_KEPT);
        let queued = self.endpoint.queued(to);
        let Some(connection) = self.connections.get_mut(&to) else { return };
        let is_accepted = connection.accepted().is_some();
        if is_accepted && queued > QUEUED_BYTES_MAX && connection.paused.is_none() {
            connection.paused = Some(queued);
            self.paused.insert(to);
            self.endpoint.pause(to, true);
        }
    }

    /// Receives again from peers that have taken what they were sent.
    fn resume(&mut self, now: Monotonic) {
        let Self { endpoint, connections, paused, .. } = self;
        paused.retain(|id| {
            let Some(connection) = connections.get_mut(id) else { return false };
            let queued = endpoint.queued(*id);
            if connection.paused.is_some_and(|least| queued < least) {
                // It takes bytes, so it is not silent.
                (connection.paused, connection.heard) = (Some(queued), now);
            }
            if queued > QUEUED_BYTES_MAX / 2 {
                return true;
            }
            connection.paused = None;
            endpoint.pause(*id, false);
            false
        });
    }

    /// Sends a reply of the handler.
    fn send_reply(&mut self, reply: Reply) {
        let Reply { connection: id, kind, request, bytes, reply_bytes, mut body } = reply;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let version = connection.version();
        let Some(accepted) = connection.accepted() else { return };
        accepted.open_bytes = accepted.open_bytes.saturating_sub(bytes as u64);
        let most = MESSAGE_BYTES_MAX.min(reply_bytes as usize);
        if body.as_ref().is_ok_and(|body| body.len() > most) {
            body = Err(Refused(Refusal::TooLong));
        }
        self.scratch.clear();
        encode_reply(&mut self.scratch, (kind, version, request), &body);
        self.send_scratch(id);
    }

    /// Closes what is silent, asks what is quiet, and ends what is late.
    fn look(&mut self, now: Monotonic) {
        let silence = self.options.silence;
        let (mut silent, mut quiet) = (Vec::new(), Vec::new());
        for (id, connection) in &mut self.connections {
            if now - connection.heard >= silence {
                silent.push(*id);
            } else if connection.is_open && now - connection.pinged >= silence / 3 {
                // Also to a peer that sends: a long message may keep it from asking us.
                connection.pinged = now;
                quiet.push((*id, connection.version()));
            }
        }
        for (id, version) in quiet {
            self.send_frame(id, Kind::Ping, version, Vec::new());
        }
        for id in silent {
            self.close(id, format!("it was silent for {:.1} s", silence.as_secs_f64()));
        }
        self.channels.values_mut().for_each(|channel| channel.expire(now));
    }

    fn send_frame(&mut self, to: ConnectionId, kind: Kind, version: u8, body: Vec<u8>) {
        let frame = Frame { kind: kind.code(), version, flags: 0, request: 0, body };
        self.scratch = frame.encode();
        self.send_scratch(to);
    }

    fn on_event(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Accepted { connection, peer } => self.on_accepted(connection, peer, now),
            Event::Opened { connection, peer } => self.on_opened(connection, peer, now),
            Event::Received { connection: id, bytes } => {
                let Some(connection) = self.connections.get_mut(&id) else { return };
                connection.push(&bytes, now);
                if let Err(cause) = self.take_frames(id, now) {
                    self.close(id, cause);
                }
            }
            Event::Closed { connection, cause } => self.closed(connection, cause),
        }
    }

    fn on_accepted(&mut self, id: ConnectionId, peer: Certified, now: Monotonic) {
        let is_unknown = |connection: &Connection| matches!(connection.side, Side::Unknown);
        let unknown = self.connections.iter().filter(|(_, connection)| is_unknown(connection));
        let unknown: Vec<ConnectionId> = unknown.map(|(id, _)| *id).collect();
        if let Some(oldest) = unknown.first().filter(|_| unknown.len() >= UNKNOWN_MAX) {
            self.close(*oldest, "too many connections have sent no hello".to_owned());
        }
        let accepted = Connection::new(Side::Unknown, Some(peer), now);
        self.connections.insert(id, accepted);
    }

    fn on_opened(&mut self, id: ConnectionId, peer: Certified, now: Monotonic) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.certified = Some(peer);
        connection.heard = now;
        let Side::Dialled(channel) = &connection.side else { return };
        let Some(channel) = self.channels.get(channel) else { return };
        self.dials += 1;
        let hello = Hello {
            oldest: OLDEST,
            newest: NEWEST,
            from: self.shared.identity(),
            process: self.process,
            class: channel.handle.class,
            channel: channel.handle.id,
            dial: self.dials,
        };
        self.send_frame(id, Kind::Hello, 0, hello.encode());
    }

    /// Handles all frames that are whole.
    ///
    /// # Errors
    /// The connection has to be closed.
    fn take_frames(&mut self, id: ConnectionId, now: Monotonic) -> Result<(), Cause> {
        let in_words = |damage: Corruption| damage.to_string();
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
            let Some(frame) = connection.frame().map_err(in_words)? else { return Ok(()) };
            let kind = Kind::of_code(frame.kind);
            if frame.version != connection.version() {
                return Err(format!("a frame has version {}", frame.version));
            }
            match (kind, connection.is_open) {
                (Some(Kind::Hello), false) => self.on_hello(id, &frame.body)?,
                (Some(Kind::Welcome), false) => self.on_welcome(id, &frame.body)?,
                (Some(Kind::Refused), false) => {
                    let refused = Refused::decode(&frame.body).map_err(in_words)?;
                    if let Side::Dialled(channel) = connection.side
                        && let Some(channel) = self.channels.get(&channel)
                    {
                        *channel.handle.refused.lock() = Some(refused.0.clone());
                    }
                    return Err(refused.0.to_string());
                }
                (_, false) => return Err("it does not begin with a hello".to_owned()),
                // A peer that takes nothing gets no further bytes.
                (Some(Kind::Ping), true) if self.endpoint.queued(id) > QUEUED_BYTES_MAX => {}
                (Some(Kind::Ping), true) => {
                    let version = connection.version();
                    self.send_frame(id, Kind::Pong, version, Vec::new());
                }
                (Some(Kind::Pong), true) => {}
                (kind, true) => {
                    if let Side::Accepted(accepted) = &connection.side {
                        let is_longer = frame.flags & MORE != 0 || connection.begun_bytes() > 0;
                        if is_longer && !kind.is_some_and(Kind::is_long) {
                            return Err("a request of this kind has one frame".to_owned());
                        }
                        let open = accepted.open_bytes + connection.begun_bytes() as u64;
                        if connection.begun_bytes() == 0 && open > self.options.credit_bytes {
                            return Err("it sends more than its credit".to_owned());
                        }
                    }
                    let message = connection.join(frame).map_err(in_words)?;
                    if let Some(message) = message {
                        self.on_message(id, message, now)?;
                    }
                }
            }
        }
    }

    fn on_message(
        &mut self,
        id: ConnectionId,
        message: Message,
        now: Monotonic,
    ) -> Result<(), Cause> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        match &mut connection.side {
            Side::Unknown => Err("it sends before its hello".to_owned()),
            Side::Dialled(channel) => {
                let channel = *channel;
                if !message.is_reply {
                    return Err("a request came to the side that has dialled".to_owned());
                }
                let Some(channel) = self.channels.get_mut(&channel) else { return Ok(()) };
                let of = (message.kind, message.request);
                let reply = message.reply().map_err(|damage| damage.to_string())?;
                let peer = || channel.handle.to.to_string();
                let reply =
                    reply.map_err(|Refused(refusal)| Error::Refused { peer: peer(), refusal });
                match channel.reply(of, reply) {
                    true => Ok(()),
                    false => Err("a reply came without a request".to_owned()),
                }
            }
            Side::Accepted(_) => self.on_request(id, message, now),
        }
    }

    /// Hands a request to the handler.
    fn on_request(
        &mut self,
        id: ConnectionId,
        message: Message,
        now: Monotonic,
    ) -> Result<(), Cause> {
        if message.is_reply || !message.kind.is_request() {
            return Err("a message that is no request came".to_owned());
        }
        let (kind, number) = (message.kind, message.request);
        let (left_ms, reply_bytes, body) =
            message.request().map_err(|damage| damage.to_string())?;
        let bytes = cost(body.len(), reply_bytes);
        let Some(accepted) = self.connections.get_mut(&id).and_then(Connection::accepted) else {
            return Ok(());
        };
        accepted.open_bytes += bytes as u64;
        let responder = Responder {
            shared: Arc::clone(&self.shared),
            connection: id,
            request: (kind, number),
            bytes,
            reply_bytes,
            is_done: false,
        };
        let (from, class) = (accepted.from, accepted.class);
        let has_ended = Arc::clone(&accepted.has_ended);
        let role = self.shared.identity().role;
        let handler = self.options.handler.as_ref();
        let Some(handler) = handler.filter(|_| kind.may_send(from.role, role)) else {
            responder.refuse(Refusal::Role);
            return Ok(());
        };
        let left = Duration::from_millis(u64::from(left_ms));
        let deadline = (left_ms > 0).then(|| now + left);
        handler.handle(Request { from, class, kind, body, deadline, has_ended }, responder);
        Ok(())
    }

    /// Closes a connection.
    fn close(&mut self, id: ConnectionId, cause: Cause) {
        self.endpoint.close(id);
        self.closed(id, cause);
    }

    /// Forgets a connection that has ended.
    fn closed(&mut self, id: ConnectionId, cause: Cause) {
        let Some(connection) = self.connections.remove(&id) else { return };
        match &connection.side {
            Side::Unknown => {}
            Side::Accepted(Accepted { session, .. }) => {
                if self.sessions.get(session).is_some_and(|session| session.connection == id) {
                    self.sessions.remove(session);
                }
            }
            Side::Dialled(channel) => {
                let now = self.now();
                let Some(channel) = self.channels.get_mut(channel) else { return };
                let is_settled = connection.is_open && now - connection.opened >= SETTLED;
                let pause = match is_settled {
                    true => Duration::ZERO,
                    false => RETRY_MIN * (1 << channel.failures.min(10)),
                };
                channel.failures += u32::from(!connection.is_open);
                channel.cause = cause;
                channel.state = State::Closed(now + pause.min(RETRY_MAX));
                let error = channel.unreachable();
                channel.fail(&error);
            }
        }
    }
}

/// The thread may end by a fault: nothing is sent any more then.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
