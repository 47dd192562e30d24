//! A network within a process, for tests. Tests cut it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use sync::locks::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::network::{ConnectionId, Endpoint, Event, Wake};
use crate::peer::Certified;

/// The way in which two endpoints are cut off from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Bytes vanish, and no end is reported.
    Silent,
    /// Connections end, and none can be made.
    Reset,
}

/// A network within a process.
#[derive(Clone, Debug, Default)]
pub struct LocalNetwork {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    environment: Environment,
}

impl Default for Shared {
    fn default() -> Self {
        let environment = Environment::real();
        Self { state: Mutex::default(), changed: Condvar::new(), environment }
    }
}

/// The number of an endpoint.
type EndpointId = usize;

#[derive(Debug, Default)]
struct State {
    endpoints: Vec<Mailbox>,
    /// Endpoints by the places at which they listen.
    listeners: BTreeMap<String, EndpointId>,
    /// Pairs of endpoints that are cut off from each other, in both orders.
    cuts: BTreeMap<(EndpointId, EndpointId), Cut>,
    next_connection: u64,
    next_port: u16,
}

#[derive(Debug)]
struct Mailbox {
    who: Certified,
    events: VecDeque<Event>,
    /// The other ends of the connections; none of one that a silent cut has broken.
    connections: BTreeMap<ConnectionId, Option<(EndpointId, ConnectionId)>>,
    paused: BTreeSet<ConnectionId>,
    /// Bytes that were not received yet.
    waiting: BTreeMap<ConnectionId, usize>,
    is_woken: bool,
}

/// An endpoint of a network within a process.
#[derive(Debug)]
pub struct LocalEndpoint {
    shared: Arc<Shared>,
    id: EndpointId,
}

#[derive(Debug)]
struct LocalWake {
    shared: Arc<Shared>,
    id: EndpointId,
}

impl LocalNetwork {
    /// Returns an endpoint whose certificate says `who`.
    pub fn endpoint(&self, who: Certified) -> LocalEndpoint {
        let mut state = self.shared.state.lock();
        let id = state.endpoints.len();
        state.endpoints.push(Mailbox {
            who,
            events: VecDeque::new(),
            connections: BTreeMap::new(),
            paused: BTreeSet::new(),
            waiting: BTreeMap::new(),
            is_woken: false,
        });
        LocalEndpoint { shared: Arc::clone(&self.shared), id }
    }

    /// Cuts two endpoints off from each other, or ends the cut.
    pub fn cut(&self, one: EndpointId, other: EndpointId, cut: Option<Cut>) {
        let mut state = self.shared.state.lock();
        for pair in [(one, other), (other, one)] {
            match cut {
                Some(cut) => _ = state.cuts.insert(pair, cut),
                None => _ = state.cuts.remove(&pair),
            }
        }
        for (one, other) in [(one, other), (other, one)] {
            for connection in state.between(one, other) {
                match cut {
                    Some(Cut::Reset) => state.end(one, connection, "reset", true),
                    Some(Cut::Silent) => state.silence(one, connection),
                    None => {}
                }
            }
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl State {
    /// Ends a connection at both ends.
    fn end(&mut self, id: EndpointId, connection: ConnectionId, cause: &str, is_reported: bool) {
        let Some(mailbox) = self.endpoints.get_mut(id) else { return };
        let Some(end) = mailbox.connections.remove(&connection) else { return };
        mailbox.paused.remove(&connection);
        let closed = |connection| Event::Closed { connection, cause: cause.to_owned() };
        if is_reported {
            mailbox.events.push_back(closed(connection));
        }
        let Some((peer, theirs)) = end else { return };
        let Some(mailbox) = self.endpoints.get_mut(peer) else { return };
        if mailbox.connections.remove(&theirs).is_some() {
            mailbox.events.push_back(closed(theirs));
        }
    }

    /// Returns the connections of an endpoint to another one.
    fn between(&self, one: EndpointId, other: EndpointId) -> Vec<ConnectionId> {
        let connections = self.endpoints.get(one).map(|mailbox| &mailbox.connections);
        let leads =
            |end: &Option<(EndpointId, ConnectionId)>| end.is_some_and(|(peer, _)| peer == other);
        let between = connections.into_iter().flatten().filter(|(_, end)| leads(end));
        between.map(|(connection, _)| *connection).collect()
    }

    /// Has all later bytes of a connection vanish, in one direction.
    fn silence(&mut self, id: EndpointId, connection: ConnectionId) {
        let mailbox = self.endpoints.get_mut(id);
        if let Some(end) = mailbox.and_then(|mailbox| mailbox.connections.get_mut(&connection)) {
            *end = None;
        }
    }

    fn connection(&mut self) -> ConnectionId {
        self.next_connection += 1;
        ConnectionId(self.next_connection)
    }
}

impl LocalEndpoint {
    /// Returns its number, for [`LocalNetwork::cut`].
    pub fn id(&self) -> usize {
        self.id
    }
}

impl Endpoint for LocalEndpoint {
    fn listen(&mut self, place: &str) -> Result<String> {
        let mut state = self.shared.state.lock();
        let place = match place.strip_suffix(":0") {
            None => place.to_owned(),
            Some(host) => {
                state.next_port += 1;
                format!("{host}:{}", state.next_port)
            }
        };
        if state.listeners.contains_key(&place) {
            let cause = "the address is in use".to_owned();
            return Err(Error::System { what: format!("listen at {place}"), cause });
        }
        state.listeners.insert(place.clone(), self.id);
        Ok(place)
    }

    fn dial(&mut self, place: &str) -> ConnectionId {
        let mut state = self.shared.state.lock();
        let ours = state.connection();
        let peer = state.listeners.get(place).copied();
        let cut = peer.and_then(|peer| state.cuts.get(&(self.id, peer)).copied());
        let who = state.endpoints.get(self.id).map(|mailbox| mailbox.who);
        let (Some(peer), Some(who), None) = (peer, who, cut) else {
            if let Some(mailbox) = state.endpoints.get_mut(self.id) {
                match cut {
                    // It never opens.
                    Some(Cut::Silent) => _ = mailbox.connections.insert(ours, None),
                    _ => mailbox.events.push_back(Event::Closed {
                        connection: ours,
                        cause: "connection refused".to_owned(),
                    }),
                }
            }
            return ours;
        };
        let theirs = state.connection();
        let mut peer_who = who;
        if let Some(mailbox) = state.endpoints.get_mut(peer) {
            peer_who = mailbox.who;
            mailbox.connections.insert(theirs, Some((self.id, ours)));
            mailbox.events.push_back(Event::Accepted { connection: theirs, peer: who });
        }
        if let Some(mailbox) = state.endpoints.get_mut(self.id) {
            mailbox.connections.insert(ours, Some((peer, theirs)));
            mailbox.events.push_back(Event::Opened { connection: ours, peer: peer_who });
        }
        drop(state);
        self.shared.changed.notify_all();
        ours
    }

    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let mut state = self.shared.state.lock();
        let mailbox = state.endpoints.get(self.id);
        let end = mailbox.and_then(|mailbox| mailbox.connections.get(&connection).copied());
        let Some(Some((peer, theirs))) = end else { return };
        if let Some(mailbox) = state.endpoints.get_mut(peer) {
            *mailbox.waiting.entry(theirs).or_default() += bytes.len();
            let bytes = bytes.to_vec();
            mailbox.events.push_back(Event::Received { connection: theirs, bytes });
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn queued(&self, connection: ConnectionId) -> usize {
        let state = self.shared.state.lock();
        let mailbox = state.endpoints.get(self.id);
        let end = mailbox.and_then(|mailbox| mailbox.connections.get(&connection));
        let Some(Some((peer, theirs))) = end else { return 0 };
        let waiting = state.endpoints.get(*peer).and_then(|peer| peer.waiting.get(theirs));
        waiting.copied().unwrap_or(0)
    }

    fn pause(&mut self, connection: ConnectionId, is_paused: bool) {
        let mut state = self.shared.state.lock();
        if let Some(mailbox) = state.endpoints.get_mut(self.id) {
            match is_paused {
                true => _ = mailbox.paused.insert(connection),
                false => _ = mailbox.paused.remove(&connection),
            }
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        let mut state = self.shared.state.lock();
        state.end(self.id, connection, "closed by the peer", false);
        if let Some(mailbox) = state.endpoints.get_mut(self.id) {
            mailbox.events.retain(|event| event.connection() != connection);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn wait(&mut self, limit: Duration) -> Vec<Event> {
        let until = self.shared.environment.now() + limit;
        let mut state = self.shared.state.lock();
        loop {
            let Some(mailbox) = state.endpoints.get_mut(self.id) else { return Vec::new() };
            let is_paused = |event: &Event| match event {
                Event::Received { connection, .. } => mailbox.paused.contains(connection),
                _ => false,
            };
            let all = std::mem::take(&mut mailbox.events);
            let (later, now): (Vec<Event>, Vec<Event>) = all.into_iter().partition(is_paused);
            mailbox.events = later.into();
            for event in &now {
                if let Event::Received { connection, bytes } = event
                    && let Some(waiting) = mailbox.waiting.get_mut(connection)
                {
                    *waiting = waiting.saturating_sub(bytes.len());
                }
            }
            let is_woken = std::mem::take(&mut mailbox.is_woken);
            let left = until - self.shared.environment.now();
            if is_woken || left.is_zero() || !now.is_empty() {
                return now;
            }
            self.shared.changed.wait_for(&mut state, left);
        }
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(LocalWake { shared: Arc::clone(&self.shared), id: self.id })
    }
}

impl Drop for LocalEndpoint {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let id = self.id;
        state.listeners.retain(|_, listener| *listener != id);
        let connections = state.endpoints.get(id).map(|mailbox| &mailbox.connections);
        let connections: Vec<ConnectionId> =
            connections.into_iter().flatten().map(|(connection, _)| *connection).collect();
        for connection in connections {
            state.end(id, connection, "closed by the peer", false);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Wake for LocalWake {
    fn wake(&self) {
        if let Some(mailbox) = self.shared.state.lock().endpoints.get_mut(self.id) {
            mailbox.is_woken = true;
        }
        self.shared.changed.notify_all();
    }
}
