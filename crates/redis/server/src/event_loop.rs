//! An event loop: a thread that owns connections and serves them in turns.
//!
//! One turn:
//! 1. Wait for sockets that can be read or written, for letters from other loops, and for the bell
//!    that the device rings when it has read something.
//! 2. Enter the gate; read and execute one piece of input of every connection that has some.
//! 3. Begin the lookups on the device that commands wait for, hand over the results of earlier
//!    ones, and execute their commands.
//! 4. Leave the gate, and wait *once* until the last write is as durable as asked. If that fails,
//!    every reply of this turn that promised a write becomes an error.
//! 5. Send the replies.
//! 6. At each tick, send output for which slow readers have made room. Disconnect a client that is
//!    idle, does not authenticate, does not take the last replies before the end, or holds too much
//!    of the clients' memory.
//!
//! # Invariants
//! I1. No reply leaves before step 4: neither the acknowledgement of a write, nor a value that
//!     another client has written and that a crash could still take back.
//! I2. No step from 1 to 3 reads the device, or waits for room in an engine, for a shorter journal
//!     or for a lock that is held longer than a write in memory takes. A thread reads slices of
//!     walks ([`walker`]), and others run commands that wait or have much to do
//!     ([`command_threads`]).
//! I3. No command touches more than [`crate::commands::plan::KEYS_MAX`] keys within a turn, or more
//!     than 1 MiB, but for the copy of one value.

mod accept;
mod command_threads;
mod commits;
mod lookups;
mod mailbox;
mod walker;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use thermocline::Doorbell;
use thermocline::environment::Monotonic;

use crate::clients::Client;
use crate::commands::failure::store_error;
use crate::connection::{Connection, Worker};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::Tally;
use crate::store::StoreError;
use crate::store::reads::Done;
pub(crate) use accept::KEEPALIVE;
pub(crate) use command_threads::{CommandThreads, Job, Ran};
use lookups::Lookups;
pub(crate) use lookups::{Asker, Wanted};
pub(crate) use mailbox::{Letter, Mailbox};
pub(crate) use walker::{Walked, Walker};

const LISTENER: Token = Token(usize::MAX);
pub(crate) const LETTERS: Token = Token(usize::MAX - 1);
const BELL: Token = Token(usize::MAX - 2);

/// Bytes read from one connection per turn: a typical batch of a pipelining client, and a size that
/// fits a core's cache.
const PIECE_BYTES: usize = 64 << 10;
/// Sockets looked at per turn: replies of the first go out while the clients of the next prepare
/// their requests.
const EVENTS_MAX: usize = 256;
/// Memory for building values that is kept from turn to turn.
const SCRATCH_BYTES_KEPT: usize = 256 << 10;
/// Time between checks of deadlines, and the longest wait of a quiet turn.
const TICK: Duration = Duration::from_millis(500);

/// An event loop's state.
pub(crate) struct EventLoop {
    shared: Arc<Shared>,
    /// Its place among the loops; also its slot in the gate.
    index: usize,
    poll: Poll,
    /// The first loop accepts for all.
    listener: Option<TcpListener>,
    /// An accept failed for lack of something; try again at the next tick.
    accept_again: bool,
    next_loop: usize,
    /// By token.
    connections: Vec<Option<Box<Connection>>>,
    free_tokens: Vec<usize>,
    tally: Tally,
    lookups: Lookups,
    wanted: Wanted,
    /// Slices of walks that were read.
    walked: Vec<Walked<Result<Done, StoreError>>>,
    /// Commands that threads have run.
    ran: Vec<Ran>,
    /// Whether the gate has held up commands of this loop, and is open since the last turn.
    is_gate_opened: bool,
    scratch: Vec<u8>,
    piece: Vec<u8>,
    last_tick: Monotonic,
}

impl EventLoop {
    /// A loop that reads its letters by `poll`, which the mailbox at `index` wakes.
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        poll: Poll,
        listener: Option<TcpListener>,
    ) -> io::Result<Self> {
        let mut listener = listener;
        if let Some(listener) = &mut listener {
            poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        }
        let bell = Arc::new(Doorbell::new().map_err(io::Error::other)?);
        let descriptor = bell.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&descriptor), BELL, Interest::READABLE)?;
        let loops = shared.options.threads;
        let lookups = Lookups::new(bell, shared.store.memory().1, loops);
        let last_tick = shared.environment.now();
        Ok(Self {
            shared,
            index,
            poll,
            listener,
            accept_again: false,
            next_loop: 0,
            connections: Vec::new(),
            free_tokens: Vec::new(),
            tally: Tally::new(),
            lookups,
            wanted: Wanted::new(),
            walked: Vec::new(),
            ran: Vec::new(),
            is_gate_opened: false,
            scratch: Vec::new(),
            piece: vec![0; PIECE_BYTES],
            last_tick,
        })
    }

    /// Takes turns until the server must stop.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        // Tokens to serve, and tokens of connections that had more to read than one piece.
        let (mut listed, mut more) = (Vec::new(), Vec::new());
        let mut is_behind = false;
        while !self.shared.threads.stop.is_asked() {
            let wait = if more.is_empty() && !is_behind { TICK } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(wait)) {
                // Perhaps by the device itself, whose bell comes with the next turn.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                result => result?,
            }
            listed.append(&mut more);
            self.sort(&events, &mut listed);
            is_behind = self.serve(&mut listed, &mut more);
            if std::mem::take(&mut self.is_gate_opened) {
                self.shared.gate.note_caught_up();
            }
            self.wait_durable(&listed);
            self.send(&listed, &mut more);
            listed.clear();
            self.tick(&mut more);
            self.shared.stats.add(&mut self.tally);
            self.scratch.clear();
            self.scratch.shrink_to(SCRATCH_BYTES_KEPT);
        }
        for connection in self.connections.iter_mut().flatten() {
            connection.release(&self.shared);
        }
        Ok(())
    }

    /// Lists the connections that events concern, and handles the others' events.
    fn sort(&mut self, events: &Events, listed: &mut Vec<usize>) {
        for event in events {
            match event.token() {
                LISTENER => self.accept(),
                LETTERS => self.read_letters(listed),
                // It has woken the poll, which was all.
                BELL => {}
                Token(token) => {
                    if event.is_read_closed() || event.is_error() {
                        self.note_ending(token);
                    }
                    self.list(token, listed);
                }
            }
        }
    }

    fn list(&mut self, token: usize, listed: &mut Vec<usize>) {
        if let Some(Some(connection)) = self.connections.get_mut(token)
            && !connection.is_listed
        {
            connection.is_listed = true;
            listed.push(token);
        }
    }

    fn note_ending(&mut self, token: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(token) {
            connection.is_ending = true;
        }
    }

    /// Steps 2 and 3. A connection that may have more to read goes to `more`, one whose commands
    /// continued to `listed`. Returns whether there is more to look up immediately.
    fn serve(&mut self, listed: &mut Vec<usize>, more: &mut Vec<usize>) -> bool {
        let is_idle = listed.is_empty() && self.wanted.is_empty();
        let has_letters = !self.walked.is_empty() || !self.ran.is_empty();
        if is_idle && !has_letters && self.lookups.under_way() == 0 {
            return false;
        }
        let mut worker = Worker {
            shared: &self.shared,
            pass: self.shared.gate.enter(self.index),
            tally: &mut self.tally,
            scratch: &mut self.scratch,
            piece: &mut self.piece,
            now: self.shared.environment.now(),
            index: self.index,
            wanted: &mut self.wanted,
        };
        for &token in listed.iter() {
            if let Some(Some(connection)) = self.connections.get_mut(token) {
                connection.is_listed = connection.serve(&mut worker);
                if connection.is_listed {
                    more.push(token);
                }
            }
        }
        let begun = listed.len();
        for Walked { asker, number, of } in self.walked.drain(..) {
            if let Some(connection) = lookups::client_of(&mut self.connections, asker) {
                connection.go_on_read(number, &of, &mut worker);
                listed.push(asker.token);
            }
        }
        for ran in self.ran.drain(..) {
            let asker = ran.asker;
            // A connection whose peer has left, and which is still here, takes its state back too.
            let connection = self.connections.get_mut(asker.token).and_then(Option::as_deref_mut);
            match connection.filter(|connection| connection.session.client.id == asker.client) {
                Some(connection) => connection.end_on_thread(ran, &mut worker),
                None => ran.give_up(&self.shared),
            }
            listed.push(asker.token);
        }
        if worker.wanted.is_empty() && self.lookups.under_way() == 0 {
            return false;
        }
        let is_behind = self.lookups.turn(&mut self.connections, &mut worker, listed);
        listed[begun..].sort_unstable();
        listed.dedup();
        is_behind
    }

    /// Step 4.
    fn wait_durable(&mut self, listed: &[usize]) {
        let is_due = |token: &usize| {
            self.connections.get(*token).and_then(Option::as_ref).is_some_and(|c| c.has_output())
        };
        if !listed.iter().any(is_due) {
            return;
        }
        let waited = self.shared.store.wait(self.shared.store.last());
        let status = &self.shared.write_status;
        if waited.is_ok() && !status.is_failing() {
            return;
        }
        let text = waited.as_ref().map_err(store_error);
        let mut promises = 0;
        for &token in listed {
            let Some(Some(connection)) = self.connections.get_mut(token) else { continue };
            match &text {
                Ok(()) => promises += usize::from(connection.has_promises()),
                Err(text) => promises += connection.break_promises(text),
            }
        }
        if promises == 0 {
            return;
        }
        match waited {
            Ok(()) => status.note_success(),
            Err(StoreError::ReadOnly(ref cause)) => status.note_failure(cause),
            Err(_) => {}
        }
        if let Err(text) = text {
            (0..promises).for_each(|_| self.shared.stats.error(text.as_bytes()));
        }
    }

    /// Step 5. A connection that was stopped and may continue goes to `more`.
    fn send(&mut self, listed: &[usize], more: &mut Vec<usize>) {
        for &token in listed {
            let Some(slot) = self.connections.get_mut(token) else { continue };
            let Some(connection) = slot else { continue };
            connection.flush(&self.shared, &mut self.tally);
            if connection.is_over() {
                self.drop_connection(token);
            } else if connection.may_resume(&self.shared) && !connection.is_listed {
                connection.is_listed = true;
                more.push(token);
            }
        }
    }

    fn drop_connection(&mut self, token: usize) {
        let Some(slot) = self.connections.get_mut(token) else { return };
        if let Some(mut connection) = slot.take() {
            // The socket closes when it is dropped, so a failure to deregister changes nothing.
            let _ = self.poll.registry().deregister(connection.stream_mut());
            connection.release(&self.shared);
            self.free_tokens.push(token);
        }
    }

    fn read_letters(&mut self, listed: &mut Vec<usize>) {
        for letter in self.shared.threads.mailboxes[self.index].take() {
            match letter {
                Letter::Connection(stream) => self.adopt(stream),
                Letter::Walked(walked) => self.walked.push(walked),
                Letter::Ran(ran) => self.ran.push(*ran),
                Letter::GateOpened => self.list_held_up(listed),
                Letter::Disconnect { token, id } => {
                    if let Some(Some(connection)) = self.connections.get_mut(token)
                        && connection.session.client.id == id
                    {
                        // Immediately: a client that does not read would keep what it was sent.
                        connection.is_gone = true;
                        self.list(token, listed);
                    }
                }
            }
        }
    }

    /// Lists the connections whose commands the gate has held up.
    fn list_held_up(&mut self, listed: &mut Vec<usize>) {
        self.is_gate_opened = true;
        for token in 0..self.connections.len() {
            let connection = self.connections.get(token).and_then(Option::as_ref);
            // One that may not continue yet, since the gate is taken again, notes that it was left.
            if connection
                .is_some_and(|it| it.is_held_up() || it.may_resume(&self.shared) || it.is_waiting())
            {
                self.list(token, listed);
            }
        }
    }

    /// Takes a connection into this loop.
    fn adopt(&mut self, mut stream: TcpStream) {
        let token = self.free_tokens.pop().unwrap_or(self.connections.len());
        let registry = self.poll.registry();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered = registry.register(&mut stream, Token(token), both);
        let addresses = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?)));
        let (Ok(()), Ok(addresses)) = (registered, addresses) else {
            // The peer has left again, or no descriptor is to be had for it.
            self.shared.clients.forget_admitted();
            if token < self.connections.len() {
                self.free_tokens.push(token);
            }
            return;
        };
        let now = self.shared.environment.now();
        let id = self.shared.clients.next_id();
        let client = Arc::new(Client::new(id, addresses, now, (self.index, token)));
        self.shared.clients.add(&client);
        let random = self.shared.environment.seed().child(id).stream("session");
        let needs_password = self.shared.settings.needs_password();
        let session = Session::new(client, !needs_password, random);
        let connection = Some(Box::new(Connection::new(stream, session, now)));
        match self.connections.get_mut(token) {
            Some(slot) => *slot = connection,
            None => self.connections.push(connection),
        }
    }

    /// Step 6. A connection that was stopped and may continue goes to `more`.
    fn tick(&mut self, more: &mut Vec<usize>) {
        let now = self.shared.environment.now();
        if now - self.last_tick < TICK {
            return;
        }
        self.last_tick = now;
        self.lookups.tick();
        if std::mem::take(&mut self.accept_again) {
            self.accept();
        }
        if self.index == 0 {
            self.shared.stats.sample_rates(now, self.shared.memory_used());
        }
        let idle_s = self.shared.settings.idle_timeout_s.load(Relaxed);
        let auth_deadline = self.shared.options.auth_deadline;
        let (shared, tally) = (&self.shared, &mut self.tally);
        let overdue: Vec<usize> = (0..self.connections.len())
            .filter(|&token| {
                self.connections[token].as_mut().is_some_and(|connection| {
                    if shared.clients.memory.is_exhausted() || connection.has_output() {
                        // The waiting output is durable: every turn ends so. The kernel reports
                        // room only when there is much, which takes a slow reader longer than it
                        // may be stuck.
                        connection.flush(shared, tally);
                    }
                    if connection.may_resume(shared) && !connection.is_listed {
                        connection.is_listed = true;
                        more.push(token);
                    }
                    let is_stuck = connection.tick(now);
                    if is_stuck && !connection.session.closing {
                        shared.stats.output_limit_disconnects.add(1);
                    }
                    let is_over = connection.is_over() || is_stuck;
                    let session = &connection.session;
                    session.client.last_active.store(connection.last_active.as_nanos(), Relaxed);
                    let is_idle = idle_s > 0
                        && !connection.is_waiting()
                        && !connection.is_held_up()
                        && now - connection.last_active >= Duration::from_secs(idle_s);
                    let is_stranger =
                        !session.authenticated && now - session.client.since >= auth_deadline;
                    is_over || is_idle || is_stranger
                })
            })
            .collect();
        overdue.into_iter().for_each(|token| self.drop_connection(token));
    }
}
