//! The threads that run whole commands for the loops: commands that wait or have much to do.
//!
//! 1. The command waits, as one does whose key is looked up. Its connection takes its turn and
//!    lends its state, and the loop hands the command over ([`CommandThreads::ask`]).
//! 2. One thread runs commands that have to be alone, sequentially. First it reads their keys
//!    ([`crate::commands::plan`]), a slice of each command in turn, so that a long one does not
//!    delay short ones. Then it reserves the gate, runs the command, and opens the gate.
//! 3. Another thread runs commands that need no gate, such as SAVE and INFO.
//! 4. A third one runs commands on one key whose write would have to wait: for room in the engine,
//!    for a shorter journal, or for a lock. It waits for room before it enters the gate, runs the
//!    command there, and leaves it.
//! 5. If the data is in other processes, a fourth one runs commands that write
//!    ([`super::commits`]).
//! 6. The reply and the state come back as a letter ([`Ran`]).
//!
//! # Invariants
//! - T1. A loop never waits for a command of a thread. Only connections whose next command may not
//!   pass the gate do.
//! - T2. The state of a connection is in one place: the connection executes nothing while a thread
//!   has it.
//! - T3. A command that was handed over runs to its end, also if its client leaves meanwhile; the
//!   state is dropped then.
//! - T4. However many writes wait, there is one thread for them. Each is the only command of its
//!   client that a thread has. Its arguments are memory of the clients.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use thermocline::sync::locks::{Condvar, Mutex, MutexGuard};

use super::commits::{Commits, Input};
use super::{Asker, Letter, SCRATCH_BYTES_KEPT};
use crate::commands::dispatch::run_on_thread;
use crate::commands::flags::Flags;
use crate::commands::plan::{Plan, ReadBefore};
use crate::commands::room::OutputLimits;
use crate::commands::transactions::forget_transaction;
use crate::commands::walk::Walk;
use crate::commands::{Alone, COMMANDS, Call, Parked, ReadMode, Room};
use crate::gate::Reservation;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Extent, Reply};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::Tally;
use crate::store::session::Purpose;

/// How often a thread looks whether the server stops.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How often the thread looks whether a backup has ended for which a command waits.
const BACKUP_INTERVAL: Duration = Duration::from_millis(10);

/// A command that a thread is to run.
#[derive(Debug)]
pub(crate) struct Job {
    /// The loop of its connection.
    pub(crate) index: usize,
    pub(crate) asker: Asker,
    /// The place of the command among the replies.
    pub(crate) number: u64,
    pub(crate) parked: Parked,
    pub(crate) args: OwnedArgs,
    /// Its walk over keys, if only the reply is still to be made.
    pub(crate) walk: Option<Box<Walk>>,
    pub(crate) session: Session,
    /// Bytes of memory of the state, the arguments and the walk. The connection is charged for
    /// them.
    pub(crate) lent_bytes: usize,
    pub(crate) limits: OutputLimits,
    /// The values of its keys, if it has to be alone.
    pub(crate) read_before: Option<ReadBefore>,
}

/// A command that a thread has run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) asker: Asker,
    pub(crate) number: u64,
    pub(crate) session: Session,
    pub(crate) lent_bytes: usize,
    pub(crate) reply: Vec<u8>,
    /// Bytes by which the clients' memory is charged for the reply.
    pub(crate) charged: usize,
    /// Whether the reply promises a write.
    pub(crate) is_promise: bool,
}

impl Ran {
    /// Releases everything that a client that has left does not need any more.
    pub(super) fn give_up(mut self, shared: &Shared) {
        forget_transaction(shared, &mut self.session);
        shared.clients.memory.recharge(&mut self.charged, 0);
        // The connection has left it charged.
        shared.clients.memory.recharge(&mut self.lent_bytes, 0);
    }
}

/// The commands that wait for a thread.
#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    jobs: Mutex<VecDeque<Job>>,
    changed: Condvar,
}

/// The commands that wait for the threads.
#[derive(Debug, Default)]
pub(crate) struct CommandThreads {
    pub(crate) alone: JobQueue,
    pub(crate) next_to_others: JobQueue,
    pub(crate) writes: JobQueue,
    pub(crate) commits: Commits,
}

impl CommandThreads {
    /// Has a thread run a command.
    pub(crate) fn ask(&self, job: Job) {
        match job.parked.purpose {
            Purpose::ThreadAlone => self.alone.push(job),
            Purpose::Write => self.writes.push(job),
            Purpose::Commit => self.commits.add(Input::Job(Box::new(job))),
            _ => self.next_to_others.push(job),
        }
    }
}

/// Memory that a thread keeps from command to command.
struct Own {
    tally: Tally,
    scratch: Vec<u8>,
}

impl JobQueue {
    fn push(&self, job: Job) {
        self.jobs.lock().push_back(job);
        self.changed.notify_one();
    }

    /// Runs commands until the server stops.
    pub(crate) fn run(&self, shared: &Shared) -> io::Result<()> {
        let mut own = Own { tally: Tally::new(), scratch: Vec::new() };
        while !shared.threads.stop.is_asked() {
            let mut jobs = self.jobs.lock();
            let Some(job) = jobs.pop_front() else {
                self.changed.wait_for(&mut jobs, LOOK_INTERVAL);
                continue;
            };
            drop(jobs);
            let left = match job.parked.purpose {
                Purpose::ThreadAlone => job.step_alone(shared, &mut own),
                Purpose::Write => {
                    job.write(shared, &mut own);
                    None
                }
                _ => {
                    job.run(None, shared, &mut own);
                    None
                }
            };
            // The keys of another command are read before the next ones of this.
            left.into_iter().for_each(|job| self.push(job));
            own.scratch.clear();
            own.scratch.shrink_to(SCRATCH_BYTES_KEPT);
        }
        Ok(())
    }
}

impl Job {
    /// Reads a slice of the command's keys, or runs it. Returns it if there is more to do.
    fn step_alone(mut self, shared: &Shared, own: &mut Own) -> Option<Self> {
        let mut before = match self.read_before.take() {
            Some(before) => before,
            None => {
                let command = &COMMANDS[self.parked.command];
                let plan = Plan::of(command, self.args.args(), &self.session, false);
                let is_flush = command.flags.has(Flags::THREAD);
                if shared.saving.is_running() && (is_flush || !plan.has_databases(&*shared.store)) {
                    // It would wait for the backup, and other commands that are alone for it.
                    shared.threads.stop.wait_for(BACKUP_INTERVAL);
                    return Some(self);
                }
                plan.make_databases(&*shared.store);
                ReadBefore::new(plan, shared)
            }
        };
        if before.read(shared.store.commands(), &shared.clients.memory) {
            self.read_before = Some(before);
            return Some(self);
        }
        // Other clients continue meanwhile.
        before.wait_to_write(shared.store.commands());
        let reservation = shared.gate.reserve();
        if !before.holds(&shared.clients.memory) {
            open(reservation, shared);
            self.read_before = Some(before);
            return Some(self);
        }
        self.run(Some((before, reservation)), shared, own);
        None
    }

    /// Runs a command on one key whose write has to wait, next to others.
    fn write(self, shared: &Shared, own: &mut Own) {
        // Not in the gate, where commands that run alone would wait for it.
        shared.store.wait_to_write(self.session.db);
        let entered = loop {
            match shared.gate.enter_on_thread(LOOK_INTERVAL) {
                Some(entered) => break entered,
                None if shared.threads.stop.is_asked() => return,
                None => {}
            }
        };
        self.run(None, shared, own);
        // A command that is to run alone may wait for the slot, and the next write is ready.
        MutexGuard::unlock_fair(entered);
    }

    /// Runs the command, and sends its reply to the loop.
    fn run(mut self, alone: Option<(ReadBefore, Reservation<'_>)>, shared: &Shared, own: &mut Own) {
        let mut reply = Vec::new();
        let room = Room::new(&shared.clients.memory, 0, Extent::of(&reply), self.limits);
        let resp3 = self.session.resp3;
        let mut call = Call {
            shared,
            store: shared.store.commands(),
            session: &mut self.session,
            tally: &mut own.tally,
            args: self.args.args(),
            reply: Reply::new(&mut reply, resp3),
            room: &room,
            now_ms: shared.environment.wall_ms(),
            scratch: &mut own.scratch,
            written: Default::default(),
            read_mode: ReadMode::Blocking,
            walk: self.walk.take(),
            waits_for_room: false,
            begun: None,
        };
        let read_mode = alone.as_ref().map(|(before, reservation)| Alone {
            known: before.known(),
            reservation: Some(reservation),
            commit: None,
        });
        run_on_thread(&mut call, self.parked, read_mode);
        let written = call.written;
        if let Some((before, reservation)) = alone {
            open(reservation, shared);
            before.end(shared);
        }
        if written.any && self.parked.purpose != Purpose::Write {
            // The loop waits for it too, and gets the error if there is one. It has nothing to
            // write then. The write of one key is as short as the loop's own writes.
            let _ = shared.store.wait(written.last);
        }
        shared.stats.add(&mut own.tally);
        let Self { index, asker, number, session, lent_bytes, .. } = self;
        let (charged, is_promise) = (room.charged(), written.any);
        let ran = Ran { asker, number, session, lent_bytes, reply, charged, is_promise };
        shared.threads.send(index, Letter::Ran(Box::new(ran)));
    }
}

/// Opens the gate, and has loops execute the commands that it has held up.
fn open(reservation: Reservation<'_>, shared: &Shared) {
    let loops = reservation.open();
    loops.into_iter().for_each(|index| shared.threads.send(index, Letter::GateOpened));
}
