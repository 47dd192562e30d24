//! One client's connection: its socket, its buffers, its session.
//!
//! To follow a request: [`Connection::serve`] reads and executes, the event loop waits for
//! durability once for all connections of its turn, [`Connection::flush`] writes the replies.

mod output;
mod parked;
mod reply_queue;
mod serve;

use std::io::{self, Read as _};
use std::net::Shutdown;

use mio::net::TcpStream;
use thermocline::environment::Monotonic;

use crate::client_memory::ClientMemory;
use crate::commands::transactions::forget_transaction;
use crate::event_loop::Wanted;
use crate::gate::Pass;
use crate::protocol::Parser;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::Tally;
use output::Output;
pub(crate) use serve::LARGE_COMMAND_BYTES;

/// Memory that a connection keeps for its next request, in bytes; more is released.
const KEPT_BYTES: usize = 16 << 10;
/// Ticks of the event loop that a closing connection may go without progress (five seconds), and
/// that a paused one may.
const CLOSING_TICKS_MAX: u32 = 10;
const PAUSED_TICKS_MAX: u32 = 20;

/// A connection. It belongs to one event loop.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    pub(crate) session: Session,
    parser: Parser,
    /// Received bytes of a command that is not whole yet.
    input: Vec<u8>,
    output: Output,
    /// Bytes of the clients' memory that it is charged for.
    charged: usize,
    pub(crate) last_active: Monotonic,
    /// The peer has left, or must leave: nothing can be sent any more.
    pub(crate) is_gone: bool,
    /// It was refused, and what its client still sends is read and thrown away: closing a socket
    /// with unread bytes would take the error back that the client has not seen yet.
    drains: bool,
    /// Why its commands wait, read ones and unread ones.
    stopped: Option<Stopped>,
    /// Ticks that it has been closing, or stopped because its client does not read, without sending
    /// anything.
    stuck_ticks: u32,
    /// The client took output since the last tick, so it is not idle.
    has_sent: bool,
    /// The peer has closed its end: read on until nothing is left, since there will be no event.
    pub(crate) is_ending: bool,
    /// This turn serves it.
    pub(crate) is_listed: bool,
    /// It takes turns with other connections in looking up keys.
    pub(crate) is_in_turn: bool,
}

/// Why a connection executes nothing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// Too much is unsent; until its client has read all of it.
    Unread,
    /// The next command waits until nothing before it waits for the device.
    Waiting,
    /// A command that runs alone on a thread holds the next one up, until the gate is open.
    HeldUp,
    /// The most commands wait for the device that may, until half of them are answered; or too many
    /// replies are between them.
    Ahead,
}

/// State that an event loop lends to the connection that it serves.
pub(crate) struct Worker<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) pass: Pass<'a>,
    pub(crate) tally: &'a mut Tally,
    pub(crate) scratch: &'a mut Vec<u8>,
    /// The buffer that a piece of input is read into.
    pub(crate) piece: &'a mut [u8],
    pub(crate) now: Monotonic,
    /// The loop's place among the loops.
    pub(crate) index: usize,
    /// The connections that want their keys looked up.
    pub(crate) wanted: &'a mut Wanted,
}

impl Connection {
    /// A connection that has just been accepted.
    pub(crate) fn new(stream: TcpStream, session: Session, now: Monotonic) -> Self {
        Self {
            stream,
            session,
            parser: Parser::default(),
            input: Vec::new(),
            output: Output::default(),
            charged: 0,
            last_active: now,
            is_gone: false,
            drains: false,
            stopped: None,
            stuck_ticks: 0,
            has_sent: false,
            is_ending: false,
            is_listed: false,
            is_in_turn: false,
        }
    }

    /// The socket, to be registered.
    pub(crate) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Reads one piece of input and executes the commands in it. Their replies wait in the output.
    /// Returns whether there may be more to read immediately.
    pub(crate) fn serve(&mut self, worker: &mut Worker<'_>) -> bool {
        if self.is_gone {
            return false;
        }
        self.take_turn(worker);
        if self.session.closing && !self.drains {
            return false;
        }
        if self.stopped.is_some() {
            if !self.may_execute(worker.shared) {
                if self.is_held_up() {
                    // The gate was taken again: the loop wants to know when it is open.
                    worker.pass.note_left();
                }
                return false;
            }
            self.stopped = None;
            self.execute_kept(worker);
            self.charge(&worker.shared.clients.memory);
            self.evict_if_too_large(worker.shared);
            // Input that arrived meanwhile has had its event.
            return self.stopped.is_none();
        }
        let len = match self.stream.read(worker.piece) {
            Ok(0) => {
                // It may have closed one direction alone and still read: it gets its replies.
                self.session.closing = true;
                self.is_gone = self.drains || self.output.is_sent();
                return false;
            }
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(_) => {
                self.is_gone = true;
                return false;
            }
        };
        worker.tally.input_bytes += len as u64;
        if self.drains {
            return len == worker.piece.len() || self.is_ending;
        }
        self.last_active = worker.now;
        self.execute(len, worker);
        self.charge(&worker.shared.clients.memory);
        self.evict_if_too_large(worker.shared);
        (len == worker.piece.len() || self.is_ending) && self.stopped.is_none()
    }

    /// Returns whether it was stopped and may continue, or was to look nothing up and may now.
    pub(crate) fn may_resume(&self, shared: &Shared) -> bool {
        !self.is_gone && (self.may_execute(shared) || self.may_lookup(shared))
    }

    /// Returns whether its commands were stopped and may continue. If its client had not read: the
    /// kernel has taken all output, and still has enough of it to keep the client busy meanwhile.
    fn may_execute(&self, shared: &Shared) -> bool {
        match self.stopped {
            None => false,
            Some(Stopped::Unread) => self.output.is_sent(),
            Some(Stopped::Waiting) => !self.is_waiting(),
            Some(Stopped::HeldUp) => shared.gate.is_open(),
            Some(Stopped::Ahead) => self.has_few_waiting(),
        }
    }

    /// Whether replies wait to be sent.
    pub(crate) fn has_output(&self) -> bool {
        self.output.is_due()
    }

    /// Makes errors of the replies that promised a write, since the promise cannot be kept.
    /// Returns how many there were.
    pub(crate) fn break_promises(&mut self, error: &str) -> usize {
        self.output.break_promises(error)
    }

    /// Whether a reply of this turn promises a write.
    pub(crate) fn has_promises(&self) -> bool {
        self.output.has_promises()
    }

    /// Sends the bytes that the socket takes; the durability of all promises has been reached.
    pub(crate) fn flush(&mut self, shared: &Shared, tally: &mut Tally) {
        self.send(tally);
        self.charge(&shared.clients.memory);
        self.evict_if_too_large(shared);
        if self.drains {
            // The call above may have put an error into the output.
            self.send(tally);
        }
    }

    fn send(&mut self, tally: &mut Tally) {
        if !self.is_gone && self.has_output() {
            match self.output.send(&mut self.stream) {
                Ok(len) => {
                    tally.output_bytes += len as u64;
                    if len > 0 {
                        (self.has_sent, self.stuck_ticks) = (true, 0);
                    }
                }
                Err(_) => self.is_gone = true,
            }
            if self.drains && self.output.is_sent() {
                // The shutdown shows the client that nothing more follows. If it fails the client
                // has left.
                let _ = self.stream.shutdown(Shutdown::Write);
            }
        }
    }

    /// Ends the connection if the clients' memory is used up and it holds more than its part of it.
    /// Of clients that together hold too much at least one holds more than its part, so asking all
    /// of them makes room.
    pub(crate) fn evict_if_too_large(&mut self, shared: &Shared) {
        let memory = &shared.clients.memory;
        if self.is_gone || !memory.is_exhausted() {
            return;
        }
        let part = memory.limit() / shared.clients.count().max(1);
        if self.charged <= part.max(KEPT_BYTES) {
            return;
        }
        if !self.session.closing {
            shared.stats.evicted.add(1);
        }
        if self.session.closing || self.output.unsent_bytes() > KEPT_BYTES {
            self.abandon(memory);
            return;
        }
        // The client's input takes the memory, so there is room for the error.
        self.refuse_for_memory(shared);
        forget_transaction(shared, &mut self.session);
        self.charge(memory);
    }

    /// Abandons a connection that holds too much, and releases its memory immediately, so that no
    /// other has to go for it.
    fn abandon(&mut self, memory: &ClientMemory) {
        self.is_gone = true;
        self.input = Vec::new();
        self.output = Output::default();
        self.session.queue = None;
        self.charge(memory);
    }

    /// Whether it is to be dropped now.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone || self.session.closing && self.output.is_sent() && !self.drains
    }

    /// Counts a tick of the event loop, at `now`; whether the connection has been closing or
    /// stopped for too many of them because its peer neither reads nor closes.
    pub(crate) fn tick(&mut self, now: Monotonic) -> bool {
        if std::mem::take(&mut self.has_sent) {
            self.last_active = now;
        }
        let is_unread = self.stopped == Some(Stopped::Unread) && self.has_output();
        // While nothing can be sent before the device has answered, the peer is not the slow one.
        let is_closing = self.session.closing && (self.has_output() || !self.is_waiting());
        if !is_closing && !is_unread {
            self.stuck_ticks = 0;
            return false;
        }
        self.stuck_ticks += 1;
        let most = if self.session.closing { CLOSING_TICKS_MAX } else { PAUSED_TICKS_MAX };
        self.stuck_ticks > most
    }

    /// Charges the clients' memory for the bytes that the connection holds now.
    pub(crate) fn charge(&mut self, memory: &ClientMemory) {
        let bytes = self.input.capacity()
            + self.output.memory_bytes()
            + self.parser.memory_bytes()
            + self.session.memory_bytes();
        if bytes != self.charged {
            memory.recharge(&mut self.charged, bytes);
            let shown = &self.session.client.memory_bytes;
            shown.store(bytes, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Gives everything back to the server; the last thing done with a connection.
    pub(crate) fn release(&mut self, shared: &Shared) {
        forget_transaction(shared, &mut self.session);
        // A thread that has the rest gives it up.
        shared.clients.memory.recharge(&mut self.charged, self.session.lent_bytes());
        shared.clients.remove(self.session.client.id);
    }
}

#[cfg(test)]
mod tests;
