//! One command being executed: everything a handler may use.

use std::cell::RefCell;

use thermocline::SeqNo;
use thermocline::environment::Monotonic;

use super::failure::error_code;
use super::walk::Walk;
use super::{COMMANDS, Failure, Outcome, Room};
use crate::gate::Reservation;
use crate::protocol::{Args, Reply};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::Tally;
use crate::store::known::Known;
use crate::store::session::StoreRead;
use crate::store::walks::Slice;
use crate::store::{Step, Store, StoreError};

/// A command's execution.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Shared,
    /// The store, or the transaction that the command is part of.
    pub(crate) store: &'a dyn Store,
    pub(crate) session: &'a mut Session,
    pub(crate) tally: &'a mut Tally,
    pub(crate) args: Args<'a>,
    pub(crate) reply: Reply<'a>,
    /// How large the reply may become.
    pub(crate) room: &'a Room<'a>,
    /// The wall clock that decides which values have expired; it does not move during a
    /// transaction.
    pub(crate) now_ms: u64,
    /// Bytes to build a stored value in.
    pub(crate) scratch: &'a mut Vec<u8>,
    /// The writes of the command.
    pub(crate) written: Written,
    /// The way in which it reads its key.
    pub(crate) read_mode: ReadMode<'a>,
    /// The walk that it has begun, if it walks over keys.
    pub(crate) walk: Option<Box<Walk>>,
    /// Whether it runs again later if its reply has no room now: other replies must leave first.
    pub(crate) waits_for_room: bool,
    /// When it began, if it is one of the calls that are timed.
    pub(crate) begun: Option<Monotonic>,
}

/// The way in which a command reads its key.
#[derive(Clone, Copy)]
pub(crate) enum ReadMode<'a> {
    /// It asks the store, which may wait for the device: it runs on a thread, or within a
    /// transaction whose values were read before.
    Blocking,
    /// It asks memory alone, and else fails with [`super::Failure::Parked`].
    AtOnce,
    /// It fails so immediately: an earlier command of the same client waits for the same key.
    Follows,
    /// It has the result of a lookup.
    StoreRead(StoreRead<'a>),
    /// It has the next slice of its walk.
    Walked(&'a Slice),
    /// No other command writes, and it has values that were read before.
    Alone(Alone<'a>),
}

/// The means of a command that runs alone.
#[derive(Clone, Copy)]
pub(crate) struct Alone<'a> {
    /// Values of keys that it reads.
    pub(crate) known: &'a Known,
    /// The gate, if other commands may read until it writes.
    pub(crate) reservation: Option<&'a Reservation<'a>>,
    /// The place for its writes, if the store commits them later.
    pub(crate) commit: Option<&'a RefCell<Option<Vec<Step>>>>,
}

impl Alone<'_> {
    /// Keeps other commands from reading: the command is about to write.
    pub(crate) fn close(&self) {
        if let Some(reservation) = self.reservation {
            reservation.close();
        }
    }
}

/// The writes of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Whether it changed anything, so that its reply is a promise.
    pub(crate) any: bool,
    /// Its last write, zero within a transaction.
    pub(crate) last: SeqNo,
}

impl Written {
    /// Notes a write.
    pub(crate) fn note(&mut self, seqno: SeqNo) {
        self.any = true;
        self.last = self.last.max(seqno);
    }
}

/// The function that executes a command.
pub(crate) type Handler = fn(&mut Call<'_>) -> super::Outcome;

impl Call<'_> {
    /// The same call, of other arguments, on another store: a command within a transaction.
    pub(crate) fn within<'b>(&'b mut self, store: &'b dyn Store, args: Args<'b>) -> Call<'b> {
        self.with(store, args, ReadMode::Blocking)
    }

    /// The same call, of other arguments, on another store, by other means.
    pub(crate) fn with<'b>(
        &'b mut self,
        store: &'b dyn Store,
        args: Args<'b>,
        read_mode: ReadMode<'b>,
    ) -> Call<'b> {
        Call {
            shared: self.shared,
            store,
            session: self.session,
            tally: self.tally,
            args,
            reply: self.reply.reborrow(),
            room: self.room,
            now_ms: self.now_ms,
            scratch: self.scratch,
            written: self.written,
            read_mode,
            walk: None,
            waits_for_room: false,
            begun: None,
        }
    }

    /// Whether the store commits the writes of the command later.
    pub(crate) fn commits_later(&self) -> bool {
        matches!(self.read_mode, ReadMode::Alone(Alone { commit: Some(_), .. }))
    }

    /// Writes the error reply of command `index`, if there is such a command, and counts it.
    pub(crate) fn fail(&mut self, index: Option<usize>, failure: &Failure) {
        let text = failure.text();
        self.reply.error(&text);
        self.tally.error(error_code(&text));
        if let Some(index) = index {
            self.tally.command(index).failed += 1;
        }
        if let Failure::Store(StoreError::ReadOnly(cause)) = failure {
            self.shared.write_status.note_failure(cause);
        }
    }

    /// Whether the reply may become longer; asked after each piece of a reply of many.
    pub(crate) fn check_room(&self) -> Outcome {
        self.room.check(self.reply.extent())
    }

    /// The command's name as the table spells it.
    pub(crate) fn name(&self) -> &'static str {
        super::table::resolve(self.args).map_or("", |index| COMMANDS[index].name)
    }
}
