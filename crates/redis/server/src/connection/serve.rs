//! From received bytes to executed commands.
//!
//! 1. A piece of input is parsed in the buffer that received it; only the part of a command that is
//!    not whole yet is kept, in the connection's own buffer.
//! 2. If something is kept already, the piece is put behind it, and parsing continues there.
//! 3. When much output is unsent the connection stops: the commands that are read already are kept,
//!    and no more is read, until its client has read. It stops as well before a command that has to
//!    wait until others are answered ([`super::waits`]).
//!
//! # Invariants
//! I1. An idle connection between commands keeps at most [`super::KEPT_BYTES`] of buffers.
//! I2. Input is kept only while the clients' memory allows it; a command that would need more is
//!     refused, and the connection closed, since its rest looks like a new command.

use super::{Connection, KEPT_BYTES, Stopped, Worker};
use crate::buffer;
use crate::commands::{self, Call, Dispatched, ReadMode, Room};
use crate::options::ARGS_MAX;
use crate::protocol::{Bounds, Extent, Reply, Step};
use crate::session::Queue;
use crate::shared::{ReplyLimits, Shared};

/// Bytes of executed commands from which on their memory is released before the next one is
/// executed.
pub(crate) const LARGE_COMMAND_BYTES: usize = 1 << 20;
/// Output is charged for whenever it grew by this much within one piece of input.
const CHARGE_STEP_BYTES: usize = 64 << 10;

impl Connection {
    /// Executes the whole commands in the first `len` bytes of the worker's piece, and keeps the
    /// rest.
    pub(super) fn execute(&mut self, len: usize, worker: &mut Worker<'_>) {
        // The piece is taken out for as long as commands borrow from it.
        let piece = std::mem::take(&mut worker.piece);
        let received = piece.get(..len).unwrap_or_default();
        if self.input.is_empty() {
            let used = self.execute_whole(received, worker);
            self.keep(received.get(used..).unwrap_or_default(), worker);
            self.rest();
        } else {
            self.keep(received, worker);
            self.execute_kept(worker);
        }
        worker.piece = piece;
    }

    /// Releases the memory that parsing took, and shows others the changes of the commands.
    fn rest(&mut self) {
        if self.input.is_empty() {
            self.parser.shrink();
        }
        self.session.publish();
    }

    /// Executes the whole commands in the bytes that are kept.
    pub(super) fn execute_kept(&mut self, worker: &mut Worker<'_>) {
        let mut kept = std::mem::take(&mut self.input);
        loop {
            let used = self.execute_whole(&kept, worker);
            let is_for_thread = self.output.reply_queue.wants_args();
            let is_queued = self.session.queue.as_ref().is_some_and(Queue::lacks_args);
            if is_for_thread || is_queued {
                // It was the last one, since it is a large one, or since the commands that follow
                // one that a thread runs wait for it.
                let rest = kept.split_off(used);
                let input = std::mem::replace(&mut kept, rest);
                let args = self.parser.take_args(input);
                if is_for_thread {
                    self.output.reply_queue.give_args(args);
                    self.take_turn(worker);
                } else if let Some(queue) = &mut self.session.queue {
                    queue.give_args(args);
                }
            } else {
                kept.drain(..used);
            }
            if used > 0 && kept.len() < kept.capacity() / 2 {
                // The replies of the commands behind it have this memory.
                kept.shrink_to(KEPT_BYTES);
            }
            if used < LARGE_COMMAND_BYTES || kept.is_empty() {
                break;
            }
            self.input = kept;
            self.charge(&worker.shared.clients.memory);
            kept = std::mem::take(&mut self.input);
        }
        let is_over = self.session.closing || self.is_gone;
        if is_over || kept.is_empty() && kept.capacity() > KEPT_BYTES {
            kept = Vec::new();
        }
        self.input = kept;
        self.rest();
    }

    /// Appends `bytes` to the kept input.
    fn keep(&mut self, bytes: &[u8], worker: &Worker<'_>) {
        if bytes.is_empty() || self.session.closing || self.is_gone {
            return;
        }
        if worker.shared.clients.memory.is_exhausted()
            && self.input.len() + bytes.len() > KEPT_BYTES
        {
            return self.refuse_for_memory(worker.shared);
        }
        buffer::reserve(&mut self.input, bytes.len());
        self.input.extend_from_slice(bytes);
        self.charge(&worker.shared.clients.memory);
    }

    pub(super) fn refuse_for_memory(&mut self, shared: &Shared) {
        let limit = shared.clients.memory.limit();
        let text = format!("OOM request refused: the clients' memory of {limit} bytes is used up");
        self.refuse(text.as_bytes(), shared);
    }

    /// Replies with an error and ends the connection.
    fn refuse(&mut self, error: &[u8], shared: &Shared) {
        shared.stats.error(error);
        let resp3 = self.session.resp3;
        self.output.append(|out| Reply::new(out, resp3).error(error));
        self.session.closing = true;
        self.drains = true;
        self.input = Vec::new();
    }

    /// Executes the whole commands at the front of `bytes`; how many bytes they took.
    fn execute_whole(&mut self, bytes: &[u8], worker: &mut Worker<'_>) -> usize {
        let shared = worker.shared;
        let now_ms = shared.environment.wall_ms();
        let limits = shared.reply_limits();
        let authenticated = Bounds {
            args_max: ARGS_MAX,
            arg_bytes_max: shared.value_bytes_max(),
            command_bytes_max: shared.request_bytes_max(),
            unauthenticated: false,
        };
        let (mut used, mut charged_at) = (0, self.output.unsent_bytes());
        while !self.session.closing
            && !self.is_gone
            && self.stopped.is_none()
            && used < LARGE_COMMAND_BYTES
        {
            let rest = bytes.get(used..).unwrap_or_default();
            let bounds =
                if self.session.authenticated { &authenticated } else { &Bounds::UNAUTHENTICATED };
            match self.parser.step(rest, bounds) {
                Step::Incomplete => break,
                Step::Nothing { consumed } => used += consumed,
                Step::Refused(why) => {
                    self.refuse(&[b"ERR Protocol error: ", why.text().as_slice()].concat(), shared);
                    return bytes.len();
                }
                Step::Command { consumed } => {
                    if self.execute_one(rest, now_ms, limits, worker) {
                        used += consumed;
                    }
                }
            }
            if self.output.unsent_bytes() > charged_at + CHARGE_STEP_BYTES {
                charged_at = self.output.unsent_bytes();
                self.charge(&shared.clients.memory);
                self.pause_if_unread(shared);
                self.evict_if_too_large(shared);
            }
        }
        // Replies that come in small pieces add up as well.
        self.pause_if_unread(shared);
        used
    }

    pub(super) fn pause_if_unread(&mut self, shared: &Shared) {
        if self.output.unsent_bytes() > shared.pause_bytes() {
            self.stopped = Some(Stopped::Unread);
        }
    }

    /// Executes the command that the parser has just found at the front of `bytes`; `false`: it has
    /// to be found again, when the commands before it do not wait any more.
    fn execute_one(
        &mut self,
        bytes: &[u8],
        now_ms: u64,
        limits: ReplyLimits,
        worker: &mut Worker<'_>,
    ) -> bool {
        let args = self.parser.args(bytes);
        if is_http(args.at(0)) {
            // A web page that makes a browser talk to us: say nothing it could use.
            self.is_gone = true;
            return true;
        }
        let (is_ahead, mut tail) = (self.is_waiting(), Vec::new());
        let mut read_mode = ReadMode::AtOnce;
        if is_ahead {
            match self.run_ahead(args) {
                Ok(ahead) => read_mode = ahead,
                Err(stopped) => {
                    self.stopped = Some(stopped);
                    return false;
                }
            }
            tail = self.output.reply_queue.take_tail();
        }
        let resp3 = self.session.resp3;
        let memory = &worker.shared.clients.memory;
        let extent = Extent::of(if is_ahead { &tail } else { &self.output.bytes });
        let begin = extent.len;
        let limits = self.output.limits(begin, !is_ahead, limits);
        let room = Room::new(memory, self.charged, extent, limits);
        let out = if is_ahead { &mut tail } else { &mut self.output.bytes };
        let mut call = Call {
            shared: worker.shared,
            store: worker.shared.store.commands(),
            session: &mut self.session,
            tally: worker.tally,
            args,
            reply: Reply::new(out, resp3),
            room: &room,
            now_ms,
            scratch: worker.scratch,
            written: commands::call::Written::default(),
            read_mode,
            walk: None,
            waits_for_room: is_ahead,
            begun: None,
        };
        let dispatched = commands::dispatch(&mut call, &mut worker.pass);
        let walk = call.walk.take();
        if call.written.any {
            self.output.promise(begin);
        }
        if is_ahead {
            self.output.reply_queue.put_tail(tail);
        }
        if room.charged() != self.charged {
            self.charged = room.charged();
            self.output.shrink();
            self.charge(memory);
        }
        match dispatched {
            Dispatched::Done => {}
            Dispatched::Parked(parked) => self.wait(parked, walk, bytes, worker),
            Dispatched::NoRoom => {
                self.stopped = Some(Stopped::Waiting);
                return false;
            }
            Dispatched::HeldUp => {
                self.stopped = Some(Stopped::HeldUp);
                worker.pass.note_left();
                return false;
            }
        }
        true
    }
}

/// Whether a command's name is one that only HTTP sends.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}
