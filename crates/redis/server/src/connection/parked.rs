//! Commands that wait for the device: how they begin to wait, and how they continue.
//!
//! 1. A command on one key that memory cannot answer takes its place among the replies
//!    ([`super::behind`]), and the event loop has its key looked up.
//! 2. Meanwhile the connection continues with commands that read one key: if memory answers one, it
//!    is done, otherwise it waits as well. Everything else stops it, until nothing waits: a write,
//!    so that it does not overtake a read before it; MULTI, SELECT, QUIT, and every command that
//!    depends on earlier ones. So does everything behind a command that waits to change something.
//! 3. When the key is known, the command runs again, and its reply takes its place.
//! 4. A reply that is too large to be kept until others have left is dropped, and made once none
//!    waits before it.
//! 5. A command that waits for the device or has much to do lends the connection's state to a
//!    thread, and the connection waits until it comes back with the reply.
//! 6. While the gate does not let a command pass, it is not looked up, and not executed.
//! 7. While much output is unsent nothing is looked up, and values that were found meanwhile are
//!    dropped and looked up again: commands that wait are small, and their replies may not be.

use super::reply_queue::Waiting;
use super::serve::LARGE_COMMAND_BYTES;
use super::{Connection, Stopped, Worker};
use crate::commands::dispatch::{fail, reads_one_key, resume};
use crate::commands::walk::Walk;
use crate::commands::{self, COMMANDS, Call, Dispatched, Parked, ReadMode, Room};
use crate::event_loop::{Asker, Job, Ran, Walked};
use crate::protocol::{Args, Extent, Reply};
use crate::shared::Shared;
use crate::store::reads::{Done, Wanted};
use crate::store::session::{Purpose, StoreRead};
use crate::store::{DbIndex, StoreError};

/// Commands of one connection that wait at the same time: enough to keep a device busy.
const WAITING_MAX: usize = 128;
/// The same with the replies between them, which wait for the first: so few that walking over all
/// of them costs little.
const ENTRIES_MAX: usize = 4 * WAITING_MAX;

impl Connection {
    /// Returns the means by which `args` may run while other commands of the connection wait, or
    /// why they may not.
    pub(super) fn run_ahead<'a>(&self, args: Args<'_>) -> Result<ReadMode<'a>, Stopped> {
        let reply_queue = &self.output.reply_queue;
        let is_alone = |parked: &Parked| parked.purpose != Purpose::Read;
        if reply_queue.waiting() >= WAITING_MAX || reply_queue.entries() >= ENTRIES_MAX {
            return Err(Stopped::Ahead);
        }
        if self.session.queue.is_some() || reply_queue.first_parked().is_some_and(is_alone) {
            return Err(Stopped::Waiting);
        }
        let key = reads_one_key(args).ok_or(Stopped::Waiting)?;
        Ok(if reply_queue.lookup_of(key).is_some() { ReadMode::Follows } else { ReadMode::AtOnce })
    }

    /// Has a command wait whose arguments the parser has found at the front of `bytes`.
    pub(super) fn wait(
        &mut self,
        parked: Parked,
        walk: Option<Box<Walk>>,
        bytes: &[u8],
        worker: &mut Worker<'_>,
    ) {
        worker.tally.waited += u64::from(!parked.purpose.is_for_thread());
        let key_place = COMMANDS[parked.command].keys.first as usize;
        let args = self.parser.args(bytes);
        let waiting = match args.total_bytes() {
            LARGE_COMMAND_BYTES.. if parked.purpose.is_for_thread() => {
                // [`Connection::execute_kept`] gives it the input itself.
                Waiting::new(parked, Args::new(&[], &[]), key_place, walk)
            }
            _ => Waiting::new(parked, args, key_place, walk),
        };
        if let Some(number) = self.output.reply_queue.push(waiting) {
            self.output.reply_queue.want(number);
        }
        self.take_turn(worker);
    }

    /// Takes the connection's place in the queue for lookups if its next command wants one, or asks
    /// a thread if a thread is to read or run it.
    pub(crate) fn take_turn(&mut self, worker: &mut Worker<'_>) {
        if self
            .output
            .reply_queue
            .first_wanted()
            .is_some_and(|at| !self.may_pass(at, worker.shared))
        {
            worker.pass.note_left();
        }
        if self.may_lookup(worker.shared) && !self.ask_thread(worker) {
            worker.wanted.push_back(self.asker());
            self.is_in_turn = true;
        }
    }

    /// Has a thread read or run the next command, if a thread is to. Returns whether it is.
    fn ask_thread(&mut self, worker: &Worker<'_>) -> bool {
        let shared = worker.shared;
        let Some(number) = self.next_wanted(shared) else { return false };
        if let Some(job) = self.lend(number, worker) {
            shared.threads.command_threads.ask(job);
        } else if let Some(of) = self.wanted_slice(number) {
            shared.threads.walker.ask(worker.index, Walked { asker: self.asker(), number, of });
        } else {
            return false;
        }
        self.note_begun(number);
        true
    }

    /// Returns whether it does not take turns in lookups yet, and is to take them.
    pub(super) fn may_lookup(&self, shared: &Shared) -> bool {
        !self.is_in_turn && self.next_wanted(shared).is_some()
    }

    /// Returns the first command whose lookup may begin: none while much output is unsent.
    pub(crate) fn next_wanted(&self, shared: &Shared) -> Option<u64> {
        let number = self.output.reply_queue.first_wanted()?;
        let waiting = self.output.reply_queue.waiting_at(number)?;
        if waiting.is_large && !self.output.reply_queue.is_first(number) {
            return None;
        }
        // The reply of a thread is not copied: it has to be the only one.
        let is_for_thread = waiting.parked.purpose.is_for_thread();
        if is_for_thread && (self.output.is_due() || self.output.reply_queue.wants_args()) {
            return None;
        }
        let may_begin =
            self.output.has_room_for(number, shared.pause_bytes()) && self.may_pass(number, shared);
        may_begin.then_some(number)
    }

    /// Whether the gate lets the command at `number` run, if it waits.
    fn may_pass(&self, number: u64, shared: &Shared) -> bool {
        shared.gate.is_open()
            || self.output.reply_queue.waiting_at(number).is_none_or(|waiting| {
                let parked = &waiting.parked;
                parked.purpose.is_for_thread() || COMMANDS[parked.command].may_pass(&shared.gate)
            })
    }

    /// Notes that the lookup of the command at `number` begins, or has to wait after all.
    pub(crate) fn note_begun(&mut self, number: u64) {
        self.output.reply_queue.forget_want(number);
    }

    /// Returns the key that the command at `number` wants looked up, if it waits.
    pub(crate) fn wanted(&self, number: u64) -> Option<(DbIndex, &[u8], Purpose)> {
        let waiting = self.output.reply_queue.waiting_at(number)?;
        // SELECT waits until nothing waits before it.
        Some((self.session.db, waiting.key(), waiting.parked.purpose))
    }

    /// The slice of a walk that the command at `number` wants, if it does.
    fn wanted_slice(&self, number: u64) -> Option<Wanted> {
        let waiting = self.output.reply_queue.waiting_at(number)?;
        if waiting.parked.purpose != Purpose::Walk {
            return None;
        }
        Some(Wanted::Slice(waiting.walk.as_ref()?.request.clone()))
    }

    /// Lends the connection's state to a thread that runs the command at `number`, if a thread is
    /// to.
    fn lend(&mut self, number: u64, worker: &Worker<'_>) -> Option<Job> {
        let waiting = self.output.reply_queue.waiting_at(number)?;
        let parked = waiting.parked;
        if !parked.purpose.is_for_thread() {
            return None;
        }
        let asker = self.asker();
        let (args, walk) = self.output.reply_queue.take_parts(number)?;
        let walk_bytes = walk.as_deref().map_or(0, Walk::memory_bytes);
        let session = self.session.lend(args.memory_bytes() + walk_bytes);
        Some(Job {
            index: worker.index,
            asker,
            number,
            parked,
            args,
            walk,
            lent_bytes: self.session.lent_bytes(),
            session,
            limits: self.output.limits(0, true, worker.shared.reply_limits()),
            read_before: None,
        })
    }

    /// Takes back the state that a thread had, and the reply.
    pub(crate) fn end_on_thread(&mut self, ran: Ran, worker: &mut Worker<'_>) {
        let Ran { number, session, reply, mut charged, is_promise, .. } = ran;
        let shared = worker.shared;
        self.session.take_back(session);
        self.session.publish();
        if self.output.reply_queue.take(number).is_some() {
            // [B4] No other command waits before it.
            let begin = self.output.bytes.len();
            self.output.put(reply);
            if is_promise {
                self.output.promise(begin);
            }
            self.output.answer(number, Vec::new());
        }
        self.charge(&shared.clients.memory);
        shared.clients.memory.recharge(&mut charged, 0);
        self.pause_if_unread(shared);
        self.evict_if_too_large(shared);
        self.take_turn(worker);
    }

    /// Has a thread read the key of the command at `number`, or run the command, since the loop
    /// cannot look it up.
    pub(crate) fn leave_to_thread(&mut self, number: u64, worker: &mut Worker<'_>) {
        let Some((db, key, purpose)) = self.wanted(number) else { return };
        if purpose == Purpose::Read {
            let of = Wanted::Value(db, key.to_vec());
            let asker = self.asker();
            worker.shared.threads.walker.ask(worker.index, Walked { asker, number, of });
        } else {
            self.output.reply_queue.leave_to_thread(number);
        }
    }

    fn asker(&self) -> Asker {
        let client = &self.session.client;
        Asker { token: client.token, client: client.id }
    }

    /// Whether commands wait for the device.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.output.reply_queue.is_empty()
    }

    /// Whether a command that runs alone on a thread holds the next one up.
    pub(crate) fn is_held_up(&self) -> bool {
        self.stopped == Some(Stopped::HeldUp)
    }

    /// Whether so few commands wait that more may.
    pub(super) fn has_few_waiting(&self) -> bool {
        let reply_queue = &self.output.reply_queue;
        reply_queue.waiting() <= WAITING_MAX / 2 && reply_queue.entries() < ENTRIES_MAX
    }

    /// Runs the command at `number` again, with the result of its lookup.
    pub(crate) fn go_on(
        &mut self,
        number: u64,
        found: Result<StoreRead<'_>, StoreError>,
        worker: &mut Worker<'_>,
    ) {
        self.run_again(number, found.map(ReadMode::StoreRead), worker);
    }

    /// Runs the command at `number` again, with the next slice of its walk, or the value of its
    /// key.
    pub(crate) fn go_on_read(
        &mut self,
        number: u64,
        read: &Result<Done, StoreError>,
        worker: &mut Worker<'_>,
    ) {
        let read_mode = match read {
            Ok(Done::Slice(slice)) => Ok(ReadMode::Walked(slice)),
            Ok(Done::Value(value)) => Ok(ReadMode::StoreRead(StoreRead::Value(value.as_deref()))),
            Err(error) => Err(error.clone()),
        };
        self.run_again(number, read_mode, worker);
    }

    /// Runs the command at `number` again, since memory may know its key now.
    pub(crate) fn try_again(&mut self, number: u64, worker: &mut Worker<'_>) {
        self.run_again(number, Ok(ReadMode::AtOnce), worker);
    }

    fn run_again(
        &mut self,
        number: u64,
        read_mode: Result<ReadMode<'_>, StoreError>,
        worker: &mut Worker<'_>,
    ) {
        let Some(mut waiting) = self.output.reply_queue.take(number) else { return };
        let shared = worker.shared;
        let may_pass =
            shared.gate.is_open() || COMMANDS[waiting.parked.command].may_pass(&shared.gate);
        if !may_pass || !self.output.has_room_for(number, shared.pause_bytes()) {
            self.output.reply_queue.put_back(number, waiting);
            self.output.reply_queue.want(number);
            return self.take_turn(worker);
        }
        let memory = &shared.clients.memory;
        // The first one's reply needs no buffer of its own.
        let is_first = self.output.reply_queue.is_first(number);
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
            read_mode: ReadMode::AtOnce,
            walk: waiting.walk.take(),
            waits_for_room: !is_first,
            begun: None,
        };
        let dispatched = match read_mode {
            Ok(read_mode) => {
                call.read_mode = read_mode;
                resume(&mut call, waiting.parked)
            }
            Err(error) => fail(&mut call, waiting.parked, error),
        };
        let has_written = call.written.any;
        let walk = call.walk.take();
        self.charged = room.charged();
        if let Dispatched::Parked(parked) = dispatched {
            waiting.parked = parked;
        }
        if dispatched != Dispatched::Done {
            waiting.is_large |= dispatched == Dispatched::NoRoom;
            waiting.walk = walk;
            self.output.reply_queue.put_back(number, waiting);
            self.output.reply_queue.want(number);
            self.charge(memory);
            return self.take_turn(worker);
        }
        if has_written {
            self.output.promise(begin);
        }
        if let Some(next) = self.output.reply_queue.next_of(number) {
            self.output.reply_queue.want(next);
        }
        self.output.answer(number, own);
        self.charge(memory);
        self.pause_if_unread(shared);
        self.evict_if_too_large(shared);
        self.take_turn(worker);
    }
}
