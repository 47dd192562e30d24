//! From received bytes to executed commands.
//!
//! 1. A piece of input is parsed where it was received; only the part of a command that is not
//!    whole yet is kept, in the connection's own buffer.
//! 2. If something is kept already, the piece is put behind it, and parsing goes on there.
//!
//! # Invariants
//! I1. An idle connection between commands keeps at most [`super::KEPT_BYTES`] of buffers.
//! I2. Input is kept only while the clients' memory allows it; a command that would need more is
//!     refused, and the connection closed, since the rest of it cannot be told from a new command.

use std::sync::atomic::Ordering::Relaxed;

use super::{Connection, KEPT_BYTES, Worker};
use crate::commands::{self, Call};
use crate::options::ARGS_MAX;
use crate::protocol::{Bounds, Reply, Step};

/// Output is charged for whenever it grew by this much within one piece of input.
const CHARGE_STEP_BYTES: usize = 64 << 10;

impl Connection {
    /// Executes what is whole of the first `len` bytes of the worker's piece, and keeps the rest.
    pub(super) fn execute(&mut self, len: usize, worker: &mut Worker<'_>) {
        // The piece is taken out for as long as commands borrow from it.
        let piece = std::mem::take(&mut worker.piece);
        let received = piece.get(..len).unwrap_or_default();
        if self.input.is_empty() {
            let used = self.execute_whole(received, worker);
            self.keep(received.get(used..).unwrap_or_default(), worker);
        } else {
            self.keep(received, worker);
            let mut kept = std::mem::take(&mut self.input);
            let used = self.execute_whole(&kept, worker);
            kept.drain(..used);
            if kept.is_empty() && kept.capacity() > KEPT_BYTES {
                kept = Vec::new();
            }
            self.input = kept;
        }
        worker.piece = piece;
        if self.input.is_empty() {
            self.parser.shrink();
        }
        self.session.publish();
    }

    /// Puts `bytes` behind what is kept.
    fn keep(&mut self, bytes: &[u8], worker: &Worker<'_>) {
        if bytes.is_empty() || self.session.closing || self.is_gone {
            return;
        }
        if worker.shared.client_memory.is_exhausted() && self.input.len() + bytes.len() > KEPT_BYTES
        {
            let limit = worker.shared.client_memory.limit();
            self.refuse(&format!(
                "OOM request refused: the clients' memory of {limit} bytes is used up"
            ));
            return;
        }
        self.input.extend_from_slice(bytes);
        self.charge(&worker.shared.client_memory);
    }

    /// Answers an error and ends the connection.
    fn refuse(&mut self, error: &str) {
        Reply::new(&mut self.output.bytes, self.session.resp3).error(error);
        self.session.closing = true;
        self.input = Vec::new();
    }

    /// Executes the whole commands at the front of `bytes`; how many bytes they took.
    fn execute_whole(&mut self, bytes: &[u8], worker: &mut Worker<'_>) -> usize {
        let shared = worker.shared;
        let now_ms = shared.environment.wall_ms();
        let value_bytes_max = shared.settings.value_bytes_max.load(Relaxed);
        let output_max = shared.settings.output_bytes_max.load(Relaxed);
        let authenticated =
            Bounds { args_max: ARGS_MAX, arg_bytes_max: value_bytes_max, unauthenticated: false };
        let (mut used, mut charged_at) = (0, self.output.bytes.len());
        while !self.session.closing && !self.is_gone {
            let rest = bytes.get(used..).unwrap_or_default();
            let bounds =
                if self.session.authenticated { authenticated } else { Bounds::UNAUTHENTICATED };
            match self.parser.step(rest, bounds) {
                Step::Incomplete => break,
                Step::Nothing { consumed } => used += consumed,
                Step::Refused(why) => {
                    self.refuse(&format!("ERR Protocol error: {why}"));
                    return bytes.len();
                }
                Step::Command { consumed } => {
                    self.execute_one(rest, now_ms, worker);
                    used += consumed;
                }
            }
            if self.output.bytes.len() > charged_at + CHARGE_STEP_BYTES {
                charged_at = self.output.bytes.len();
                self.charge(&shared.client_memory);
                if self.output.unsent_bytes() > output_max {
                    shared.stats.output_limit_disconnects.add(1);
                    self.is_gone = true;
                }
            }
        }
        used
    }

    /// Executes the command that the parser has just found at the front of `bytes`.
    fn execute_one(&mut self, bytes: &[u8], now_ms: u64, worker: &mut Worker<'_>) {
        let args = self.parser.args(bytes);
        if is_http(args.at(0)) {
            // A web page that makes a browser talk to us: say nothing it could use.
            self.is_gone = true;
            return;
        }
        let begin = self.output.bytes.len();
        let resp3 = self.session.resp3;
        let mut call = Call {
            shared: worker.shared,
            store: worker.shared.store.commands(),
            session: &mut self.session,
            tally: worker.tally,
            args,
            reply: Reply::new(&mut self.output.bytes, resp3),
            now_ms,
            scratch: worker.scratch,
            written: commands::call::Written::default(),
        };
        commands::dispatch(&mut call, &mut worker.pass);
        if call.written.any {
            self.output.promise(begin);
        }
    }
}

/// Whether a command's name is one that only HTTP sends.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}
