//! Commands that wait for the device: how they come to wait, and how they go on.
//!
//! 1. A command on one key that memory cannot answer takes its place among the replies
//!    ([`super::behind`]), and the event loop has its key looked up.
//! 2. Meanwhile the connection goes on with commands that read one key: those that memory answers are
//!    done, others wait as well. Everything else stops it, until nothing waits: a write, so that it does
//!    not overtake a read before it; MULTI, SELECT, QUIT, and whatever depends on what was before it.
//!    So does everything behind a command that waits to change something.
//! 3. Told of the key, the command runs again, and its reply stands in its place.
//! 4. A reply that is too large to be kept until others have left is dropped, and made once none waits
//!    before it.
//! 5. While much output is unsent nothing is looked up, and values that were found meanwhile are
//!    dropped and looked up again: commands that wait are small, and their replies may not be.

use super::behind::Waiting;
use super::{Connection, Stopped, Worker};
use crate::commands::dispatch::{fail, reads_one_key, resume};
use crate::commands::walk::Walk;
use crate::commands::{self, COMMANDS, Call, Dispatched, Means, Room, Waits};
use crate::event_loop::Asker;
use crate::protocol::{Args, Extent, Reply};
use crate::shared::Shared;
use crate::store::reads::{Done, Wanted};
use crate::store::seat::{Looked, Purpose};
use crate::store::{DbIndex, StoreError};

/// Commands of one connection that wait at once: what keeps a device busy.
const WAITING_MAX: usize = 128;
/// The same with the replies between them, which wait for the first: so few that walking over all
/// of them costs little.
const ENTRIES_MAX: usize = 4 * WAITING_MAX;

impl Connection {
    /// By what means `args` may run while other commands of the connection wait, or why they may not.
    pub(super) fn run_ahead<'a>(&self, args: Args<'_>) -> Result<Means<'a>, Stopped> {
        let behind = &self.output.behind;
        let is_alone = |waits: &Waits| waits.purpose != Purpose::Read;
        if behind.waiting() >= WAITING_MAX || behind.entries() >= ENTRIES_MAX {
            return Err(Stopped::Ahead);
        }
        if self.session.queue.is_some() || behind.first_waits().is_some_and(is_alone) {
            return Err(Stopped::Waiting);
        }
        let key = reads_one_key(args).ok_or(Stopped::Waiting)?;
        Ok(if behind.look_up_of(key).is_some() { Means::Follows } else { Means::AtOnce })
    }

    /// Has a command wait whose arguments the parser has found at the front of `bytes`.
    pub(super) fn wait(
        &mut self,
        waits: Waits,
        walk: Option<Box<Walk>>,
        bytes: &[u8],
        worker: &mut Worker<'_>,
    ) {
        worker.tally.waited += 1;
        let key_place = COMMANDS[waits.command].keys.first as usize;
        let waiting = Waiting::new(waits, self.parser.args(bytes), key_place, walk);
        if let Some(number) = self.output.behind.push(waiting) {
            self.output.behind.want(number);
        }
        self.take_turn(worker);
    }

    /// Takes its place among those that look something up, if it is to.
    pub(crate) fn take_turn(&mut self, worker: &mut Worker<'_>) {
        if self.may_look_up(worker.shared) {
            let client = &self.session.client;
            worker.wanted.push_back(Asker { token: client.token, client: client.id });
            self.is_in_turn = true;
        }
    }

    /// Whether it is not yet among those that look something up, and is to be.
    pub(super) fn may_look_up(&self, shared: &Shared) -> bool {
        !self.is_in_turn && self.next_wanted(shared).is_some()
    }

    /// The first command whose look-up may begin: none while much output is unsent.
    pub(crate) fn next_wanted(&self, shared: &Shared) -> Option<u64> {
        let number = self.output.behind.first_wanted()?;
        if self.output.behind.waiting_at(number).is_some_and(|waiting| waiting.is_large)
            && !self.output.behind.is_first(number)
        {
            return None;
        }
        self.output.has_room_for(number, shared.pause_bytes()).then_some(number)
    }

    /// The look-up of the command at `number` begins, or has to wait after all.
    pub(crate) fn note_begun(&mut self, number: u64) {
        self.output.behind.forget_want(number);
    }

    /// What the command at `number` wants to know, if it waits.
    pub(crate) fn wanted(&self, number: u64) -> Option<(DbIndex, &[u8], Purpose)> {
        let waiting = self.output.behind.waiting_at(number)?;
        // SELECT waits until nothing waits before it.
        Some((self.session.db, waiting.key(), waiting.waits.purpose))
    }

    /// The slice of a walk or the values that the command at `number` wants, if it does.
    pub(crate) fn wanted_read(&self, number: u64) -> Option<Wanted> {
        let waiting = self.output.behind.waiting_at(number)?;
        match waiting.waits.purpose {
            Purpose::Read | Purpose::Update => None,
            Purpose::Walk => Some(Wanted::Slice(waiting.walk.as_ref()?.request.clone())),
            Purpose::Keys => Some(Wanted::Values(self.session.fetch.as_ref()?.keys.clone())),
        }
    }

    /// Whether commands wait for the device.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.output.behind.is_empty()
    }

    /// Whether so few commands wait that more may.
    pub(super) fn has_few_waiting(&self) -> bool {
        let behind = &self.output.behind;
        behind.waiting() <= WAITING_MAX / 2 && behind.entries() < ENTRIES_MAX
    }

    /// Runs the command at `number` again, with what was found.
    pub(crate) fn go_on(
        &mut self,
        number: u64,
        found: Result<Looked<'_>, StoreError>,
        worker: &mut Worker<'_>,
    ) {
        self.run_again(number, found.map(Means::Looked), worker);
    }

    /// Runs the command at `number` again, with the next slice of its walk, or the values of its keys.
    pub(crate) fn go_on_read(
        &mut self,
        number: u64,
        read: &Result<Done, StoreError>,
        worker: &mut Worker<'_>,
    ) {
        let means = match read {
            Ok(Done::Slice(slice)) => Ok(Means::Walked(slice)),
            Ok(Done::Values(values)) => Ok(Means::Fetched(&values.values)),
            Err(error) => Err(error.clone()),
        };
        self.run_again(number, means, worker);
    }

    /// Runs the command at `number` again, since memory may know its key by now.
    pub(crate) fn try_again(&mut self, number: u64, worker: &mut Worker<'_>) {
        self.run_again(number, Ok(Means::AtOnce), worker);
    }

    /// Runs the command at `number` again, and waits for the device.
    pub(crate) fn block(&mut self, number: u64, worker: &mut Worker<'_>) {
        self.run_again(number, Ok(Means::Blocking), worker);
    }

    fn run_again(
        &mut self,
        number: u64,
        means: Result<Means<'_>, StoreError>,
        worker: &mut Worker<'_>,
    ) {
        let Some(mut waiting) = self.output.behind.take(number) else { return };
        let shared = worker.shared;
        if !self.output.has_room_for(number, shared.pause_bytes()) {
            self.output.behind.put_back(number, waiting);
            self.output.behind.want(number);
            return;
        }
        let memory = &shared.client_memory;
        // The first one's reply needs no buffer of its own.
        let is_first = self.output.behind.is_first(number);
        let mut own = Vec::new();
        let extent = Extent::of(if is_first { &self.output.bytes } else { &own });
        let begin = extent.len;
        let limits = self.output.limits(begin, is_first, shared.reply_limits());
        let room = Room::new(memory, self.charged, extent, limits);
        let out = if is_first { &mut self.output.bytes } else { &mut own };
        let reply = Reply::new(out, self.session.resp3);
        let mut call = Call {
            shared,
            store: shared.store.commands(),
            session: &mut self.session,
            tally: worker.tally,
            args: waiting.args.args(),
            reply,
            room: &room,
            now_ms: shared.environment.wall_ms(),
            scratch: worker.scratch,
            written: commands::call::Written::default(),
            means: Means::AtOnce,
            walk: waiting.walk.take(),
            waits_for_room: !is_first,
            begun: None,
        };
        let dispatched = match means {
            Ok(means) => {
                call.means = means;
                resume(&mut call, waiting.waits, &mut worker.pass)
            }
            Err(error) => fail(&mut call, waiting.waits, error),
        };
        let has_written = call.written.any;
        let walk = call.walk.take();
        self.charged = room.charged();
        if let Dispatched::Waits(waits) = dispatched {
            waiting.waits = waits;
        }
        if dispatched != Dispatched::Done {
            waiting.is_large |= dispatched == Dispatched::NoRoom;
            waiting.walk = walk;
            self.output.behind.put_back(number, waiting);
            self.output.behind.want(number);
            self.charge(memory);
            return self.take_turn(worker);
        }
        if has_written {
            self.output.promise(begin);
        }
        if let Some(next) = self.output.behind.next_of(number) {
            self.output.behind.want(next);
        }
        self.output.answer(number, own);
        self.charge(memory);
        self.pause_if_unread(shared);
        self.evict_if_too_large(shared);
        self.take_turn(worker);
    }
}
