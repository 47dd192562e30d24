//! Connections over TCP with TLS, served by one `mio` poll.
//!
//! # Concurrency
//! The thread of a node uses a [`SocketEndpoint`]. Threads that resolve the names of hosts hand
//! their results over through a lock.

mod socket;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use environment::{Environment, Monotonic};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use sync::locks::Mutex;

use crate::error::{Error, Result};
use crate::network::{ConnectionId, Endpoint, Event, Wake};
use crate::tls::Tls;
use socket::Socket;

const WAKER: Token = Token(usize::MAX);
/// The first token of listeners. Connections count from 1.
const LISTENERS: usize = usize::MAX / 2;
/// Events of a wait.
const EVENTS_MAX: usize = 256;
/// Time after which accepting is tried again, if the process has no descriptor left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Connections of others whose handshake is under way, at most.
const HANDSHAKES_MAX: usize = 128;
/// Time that a handshake has.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Addresses that threads have found, by the connections that need them.
type Resolved = Arc<Mutex<Vec<(ConnectionId, io::Result<Vec<SocketAddr>>)>>>;

/// The connections of a node over TCP with TLS.
pub struct SocketEndpoint {
    tls: Tls,
    poll: Poll,
    waker: Arc<SocketWake>,
    listeners: Vec<TcpListener>,
    sockets: BTreeMap<ConnectionId, Socket>,
    /// Sockets that may have more to read.
    readable: BTreeSet<ConnectionId>,
    /// Events that no wait has returned yet.
    happened: VecDeque<Event>,
    resolved: Resolved,
    /// Connections that are being made, with the addresses that were not tried yet.
    dialling: BTreeMap<ConnectionId, VecDeque<SocketAddr>>,
    /// Handshakes with nodes that have dialled, the oldest one first.
    handshakes: VecDeque<(ConnectionId, Monotonic)>,
    /// Listeners that may have another connection.
    accept_again: BTreeSet<usize>,
    next: u64,
    environment: Environment,
}

#[derive(Debug)]
struct SocketWake(Waker);

impl Wake for SocketWake {
    fn wake(&self) {
        // Only a descriptor that was closed cannot be written.
        let _ = self.0.wake();
    }
}

fn of_system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |error| Error::System { what, cause: error.to_string() }
}

impl SocketEndpoint {
    /// Returns an endpoint that shows the certificate of `tls`.
    ///
    /// # Errors
    /// [`Error::System`]: the process has too few descriptors.
    pub fn new(tls: Tls, environment: &Environment) -> Result<Self> {
        let poll = Poll::new().map_err(of_system("wait for sockets"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(of_system("wait for sockets"))?;
        Ok(Self {
            tls,
            poll,
            waker: Arc::new(SocketWake(waker)),
            listeners: Vec::new(),
            sockets: BTreeMap::new(),
            readable: BTreeSet::new(),
            happened: VecDeque::new(),
            resolved: Resolved::default(),
            dialling: BTreeMap::new(),
            handshakes: VecDeque::new(),
            accept_again: BTreeSet::new(),
            next: 1,
            environment: environment.clone(),
        })
    }

    fn connection(&mut self) -> ConnectionId {
        let connection = ConnectionId(self.next);
        self.next += 1;
        connection
    }

    /// Tries the next address of a connection that is being made. Without one the connection has
    /// failed, by `cause`.
    fn connect(&mut self, connection: ConnectionId, mut cause: String) {
        while let Some(address) = self.dialling.get_mut(&connection).and_then(VecDeque::pop_front) {
            let stream = TcpStream::connect(address);
            let socket = stream.and_then(|stream| Socket::dialled(stream, self.tls.client()));
            match socket.and_then(|socket| self.register(connection, socket)) {
                Ok(()) => return,
                Err(error) => cause = error.to_string(),
            }
        }
        if self.dialling.remove(&connection).is_some() {
            self.happened.push_back(Event::Closed { connection, cause });
        }
    }

    /// Ends handshakes of others that take too long, or are too many.
    fn limit_handshakes(&mut self) {
        let now = self.environment.now();
        let sockets = &self.sockets;
        let is_open = |id: &ConnectionId| sockets.get(id).is_none_or(Socket::is_open);
        self.handshakes.retain(|(id, _)| !is_open(id));
        while let Some((id, began)) = self.handshakes.front().copied() {
            if self.handshakes.len() <= HANDSHAKES_MAX && now - began < HANDSHAKE {
                return;
            }
            self.handshakes.pop_front();
            self.forget(id);
        }
    }

    fn register(&mut self, connection: ConnectionId, mut socket: Socket) -> io::Result<()> {
        let token = Token(usize::try_from(connection.0).unwrap_or(usize::MAX));
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(socket.stream_mut(), token, interest)?;
        self.sockets.insert(connection, socket);
        Ok(())
    }

    /// Accepts all connections that wait at a listener.
    fn accept(&mut self, at: usize) {
        self.accept_again.remove(&at);
        loop {
            let Some(listener) = self.listeners.get(at) else { return };
            match listener.accept() {
                Ok((stream, _)) => {
                    let connection = self.connection();
                    let socket = Socket::accepted(stream, self.tls.server());
                    // The peer sees the end of one that cannot be served.
                    if socket.and_then(|socket| self.register(connection, socket)).is_ok() {
                        self.handshakes.push_back((connection, self.environment.now()));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // The process has no descriptor, or the peer has ended. No event follows.
                    self.accept_again.insert(at);
                    return;
                }
            }
        }
    }

    /// Lets a socket read or write, and takes its events.
    fn serve(&mut self, id: ConnectionId, is_readable: bool, is_writable: bool) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let mut outcome = if is_writable { socket.write() } else { Ok(()) };
        if is_readable && outcome.is_ok() {
            outcome = socket.read();
        }
        let opened = socket.take_opened();
        if let Some(peer) = opened {
            let is_dialled = self.dialling.remove(&id).is_some();
            self.happened.push_back(match is_dialled {
                true => Event::Opened { connection: id, peer },
                false => Event::Accepted { connection: id, peer },
            });
        }
        let bytes = socket.take_bytes();
        if !bytes.is_empty() {
            self.happened.push_back(Event::Received { connection: id, bytes });
        }
        match socket.may_read() {
            true => _ = self.readable.insert(id),
            false => _ = self.readable.remove(&id),
        }
        if let Err(cause) = outcome {
            let was_open = socket.is_open();
            self.forget(id);
            if self.dialling.contains_key(&id) {
                self.connect(id, cause);
            } else if was_open {
                self.happened.push_back(Event::Closed { connection: id, cause });
            }
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        self.readable.remove(&id);
        if let Some(mut socket) = self.sockets.remove(&id) {
            // A stream that is not registered any more gives no event.
            let _ = self.poll.registry().deregister(socket.stream_mut());
        }
    }
}

impl Endpoint for SocketEndpoint {
    fn listen(&mut self, place: &str) -> Result<String> {
        let what = || format!("listen at {place}");
        let addresses = place.to_socket_addrs().map_err(of_system(what()))?;
        let none = || io::Error::new(ErrorKind::NotFound, "the name has no address");
        let address = addresses.into_iter().next().ok_or_else(none).map_err(of_system(what()))?;
        let mut listener = TcpListener::bind(address).map_err(of_system(what()))?;
        let token = Token(LISTENERS + self.listeners.len());
        let registry = self.poll.registry();
        registry.register(&mut listener, token, Interest::READABLE).map_err(of_system(what()))?;
        let bound = listener.local_addr().map_err(of_system(what()))?;
        self.listeners.push(listener);
        Ok(bound.to_string())
    }

    fn dial(&mut self, place: &str) -> ConnectionId {
        let connection = self.connection();
        if let Ok(address) = place.parse::<SocketAddr>() {
            self.dialling.insert(connection, VecDeque::from([address]));
            self.connect(connection, String::new());
            return connection;
        }
        self.dialling.insert(connection, VecDeque::new());
        let (resolved, waker, place) =
            (Arc::clone(&self.resolved), Arc::clone(&self.waker), place.to_owned());
        // The resolver of the system waits. It ends by its own limit of time.
        let resolve = move || {
            let found = place.to_socket_addrs().map(Iterator::collect);
            resolved.lock().push((connection, found));
            waker.wake();
        };
        if let Err(error) = self.environment.spawn("resolver", resolve) {
            self.connect(connection, error.to_string());
        }
        connection
    }

    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let Some(socket) = self.sockets.get_mut(&connection) else { return };
        if let Err(cause) = socket.send(bytes) {
            self.forget(connection);
            self.happened.push_back(Event::Closed { connection, cause });
        }
    }

    fn queued(&self, connection: ConnectionId) -> usize {
        self.sockets.get(&connection).map_or(0, Socket::queued)
    }

    fn pause(&mut self, connection: ConnectionId, is_paused: bool) {
        if let Some(socket) = self.sockets.get_mut(&connection) {
            socket.pause(is_paused);
            if socket.may_read() {
                self.readable.insert(connection);
            }
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(socket) = self.sockets.get_mut(&connection) {
            socket.finish();
        }
        self.dialling.remove(&connection);
        self.forget(connection);
        self.happened.retain(|event| event.connection() != connection);
    }

    fn wait(&mut self, limit: Duration) -> Vec<Event> {
        let has_more = !self.readable.is_empty() || !self.happened.is_empty();
        let limit = match (has_more, self.accept_again.is_empty()) {
            (true, _) => Duration::ZERO,
            (false, true) => limit,
            (false, false) => limit.min(ACCEPT_AGAIN),
        };
        let mut events = Events::with_capacity(EVENTS_MAX);
        // An interrupted wait has no events.
        let _ = self.poll.poll(&mut events, Some(limit));
        let more = std::mem::take(&mut self.readable);
        for at in std::mem::take(&mut self.accept_again) {
            self.accept(at);
        }
        for event in &events {
            match event.token() {
                WAKER => {}
                Token(token) if token >= LISTENERS => self.accept(token - LISTENERS),
                Token(token) => {
                    let is_over = event.is_error() || event.is_read_closed();
                    let reads = event.is_readable() || is_over;
                    let writes = event.is_writable() || is_over;
                    self.serve(ConnectionId(token as u64), reads, writes);
                }
            }
        }
        more.into_iter().for_each(|connection| self.serve(connection, true, false));
        let resolved = std::mem::take(&mut *self.resolved.lock());
        for (connection, found) in resolved {
            let cause = match found {
                Ok(addresses) => {
                    // A connection that was closed meanwhile needs none.
                    if let Some(dialling) = self.dialling.get_mut(&connection) {
                        dialling.extend(addresses);
                    }
                    "the name has no address".to_owned()
                }
                Err(error) => error.to_string(),
            };
            self.connect(connection, cause);
        }
        self.limit_handshakes();
        self.happened.drain(..).collect()
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.waker) as Arc<dyn Wake>
    }
}

impl fmt::Debug for SocketEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketEndpoint").field("tls", &self.tls).finish_non_exhaustive()
    }
}
