//! A network within a process, for tests. Tests cut it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use environment::{Environment, Monotonic, Random};
use rand::RngExt as _;
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
    environment: Environment,
}

impl Default for Shared {
    fn default() -> Self {
        Self::new(Environment::real(), Duration::ZERO)
    }
}

impl Shared {
    fn new(environment: Environment, latency_max: Duration) -> Self {
        let random = environment.random("network");
        let state = State {
            endpoints: Vec::new(),
            listeners: BTreeMap::new(),
            cuts: BTreeMap::new(),
            next_connection: 0,
            next_port: 0,
            latency_max,
            random,
        };
        Self { state: Mutex::new(state), environment }
    }

    /// Ends all connections of an endpoint, which listens no more.
    fn end(&self, id: EndpointId) {
        let now = self.environment.now();
        let mut state = self.state.lock();
        state.listeners.retain(|_, listener| *listener != id);
        let connections = state.endpoints.get(id).map(|mailbox| &mailbox.connections);
        let connections: Vec<ConnectionId> =
            connections.into_iter().flatten().map(|(connection, _)| *connection).collect();
        for connection in connections {
            state.end(now, (id, connection), "closed by the peer", false);
        }
    }
}

/// The number of an endpoint.
type EndpointId = usize;

#[derive(Debug)]
struct State {
    endpoints: Vec<Mailbox>,
    /// Endpoints by the places at which they listen.
    listeners: BTreeMap<String, EndpointId>,
    /// Pairs of endpoints that are cut off from each other, in both orders.
    cuts: BTreeMap<(EndpointId, EndpointId), Cut>,
    next_connection: u64,
    next_port: u16,
    /// The longest time that bytes are under way.
    latency_max: Duration,
    random: Random,
}

#[derive(Debug)]
struct Mailbox {
    who: Certified,
    /// Ends the wait of the endpoint.
    changed: Arc<Condvar>,
    /// Events with the times from which on they are seen. Those of one connection are in order.
    events: VecDeque<(Monotonic, Event)>,
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
    /// Returns a network on which bytes are under way for some time, at most for `latency_max` in
    /// the time of `environment`. Bytes of one connection stay in order.
    pub fn new(environment: &Environment, latency_max: Duration) -> Self {
        Self { shared: Arc::new(Shared::new(environment.clone(), latency_max)) }
    }

    /// Ends an endpoint whose process was killed: its connections end, and it listens no more.
    pub fn kill(&self, endpoint: EndpointId) {
        self.shared.end(endpoint);
    }

    /// Returns an endpoint whose certificate says `who`.
    pub fn endpoint(&self, who: Certified) -> LocalEndpoint {
        let mut state = self.shared.state.lock();
        let id = state.endpoints.len();
        state.endpoints.push(Mailbox {
            who,
            changed: Arc::default(),
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
        let now = self.shared.environment.now();
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
                    Some(Cut::Reset) => state.end(now, (one, connection), "reset", true),
                    Some(Cut::Silent) => state.silence(one, connection),
                    None => {}
                }
            }
        }
    }
}

impl State {
    /// Ends a connection at both ends.
    fn end(
        &mut self,
        now: Monotonic,
        (id, connection): (EndpointId, ConnectionId),
        cause: &str,
        is_reported: bool,
    ) {
        let Some(mailbox) = self.endpoints.get_mut(id) else { return };
        let Some(end) = mailbox.connections.remove(&connection) else { return };
        mailbox.paused.remove(&connection);
        let closed = |connection| Event::Closed { connection, cause: cause.to_owned() };
        if is_reported {
            self.deliver(now, id, closed(connection));
        }
        let Some((peer, theirs)) = end else { return };
        let Some(mailbox) = self.endpoints.get_mut(peer) else { return };
        if mailbox.connections.remove(&theirs).is_some() {
            self.deliver(now, peer, closed(theirs));
        }
    }

    /// Has an endpoint see an event after the events of the same connection, and after some time.
    fn deliver(&mut self, now: Monotonic, id: EndpointId, event: Event) {
        let nanos = self.latency_max.as_nanos() as u64;
        let latency = if nanos == 0 { 0 } else { self.random.random_range(0..nanos) };
        let Some(mailbox) = self.endpoints.get_mut(id) else { return };
        let mut before = mailbox.events.iter().rev();
        let before = before.find(|(_, other)| other.connection() == event.connection());
        let arrives = now + Duration::from_nanos(latency);
        let arrives = before.map_or(arrives, |(time, _)| arrives.max(*time));
        mailbox.events.push_back((arrives, event));
        mailbox.changed.notify_all();
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

impl Mailbox {
    /// Whether the endpoint does not take an event for now.
    fn is_paused(&self, event: &Event) -> bool {
        matches!(event, Event::Received { connection, .. } if self.paused.contains(connection))
    }

    /// Takes the events that are seen at `time`.
    fn take(&mut self, time: Monotonic) -> Vec<Event> {
        let all = std::mem::take(&mut self.events);
        let (now, later): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(at, event)| *at <= time && !self.is_paused(event));
        self.events = later.into();
        let now: Vec<Event> = now.into_iter().map(|(_, event)| event).collect();
        for event in &now {
            if let Event::Received { connection, bytes } = event
                && let Some(waiting) = self.waiting.get_mut(connection)
            {
                *waiting = waiting.saturating_sub(bytes.len());
            }
        }
        now
    }

    /// Returns the time of the next event.
    fn next(&self) -> Option<Monotonic> {
        let events = self.events.iter().filter(|(_, event)| !self.is_paused(event));
        events.map(|(at, _)| *at).min()
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
        let now = self.shared.environment.now();
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
                    _ => {
                        let cause = "connection refused".to_owned();
                        let closed = Event::Closed { connection: ours, cause };
                        mailbox.events.push_back((now, closed));
                    }
                }
            }
            return ours;
        };
        let theirs = state.connection();
        let mut peer_who = who;
        if let Some(mailbox) = state.endpoints.get_mut(peer) {
            peer_who = mailbox.who;
            mailbox.connections.insert(theirs, Some((self.id, ours)));
        }
        state.deliver(now, peer, Event::Accepted { connection: theirs, peer: who });
        if let Some(mailbox) = state.endpoints.get_mut(self.id) {
            mailbox.connections.insert(ours, Some((peer, theirs)));
        }
        state.deliver(now, self.id, Event::Opened { connection: ours, peer: peer_who });
        ours
    }

    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let now = self.shared.environment.now();
        let mut state = self.shared.state.lock();
        let mailbox = state.endpoints.get(self.id);
        let end = mailbox.and_then(|mailbox| mailbox.connections.get(&connection).copied());
        let Some(Some((peer, theirs))) = end else { return };
        if let Some(mailbox) = state.endpoints.get_mut(peer) {
            *mailbox.waiting.entry(theirs).or_default() += bytes.len();
            let bytes = bytes.to_vec();
            state.deliver(now, peer, Event::Received { connection: theirs, bytes });
        }
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
        let now = self.shared.environment.now();
        let mut state = self.shared.state.lock();
        state.end(now, (self.id, connection), "closed by the peer", false);
        if let Some(mailbox) = state.endpoints.get_mut(self.id) {
            mailbox.events.retain(|(_, event)| event.connection() != connection);
        }
    }

    fn wait(&mut self, limit: Duration) -> Vec<Event> {
        let until = self.shared.environment.now() + limit;
        let mut state = self.shared.state.lock();
        loop {
            let time = self.shared.environment.now();
            let Some(mailbox) = state.endpoints.get_mut(self.id) else { return Vec::new() };
            let now = mailbox.take(time);
            let is_woken = std::mem::take(&mut mailbox.is_woken);
            if is_woken || until <= time || !now.is_empty() {
                return now;
            }
            let next = mailbox.next().map_or(until, |next| next.min(until));
            let changed = Arc::clone(&mailbox.changed);
            changed.wait_for(&mut state, next - time);
        }
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(LocalWake { shared: Arc::clone(&self.shared), id: self.id })
    }
}

impl Drop for LocalEndpoint {
    fn drop(&mut self) {
        self.shared.end(self.id);
    }
}

impl Wake for LocalWake {
    fn wake(&self) {
        if let Some(mailbox) = self.shared.state.lock().endpoints.get_mut(self.id) {
            mailbox.is_woken = true;
            mailbox.changed.notify_all();
        }
    }
}
