//! The thread that runs commands which a store of other processes commits.
//!
//! 1. A loop hands the command over, with the state of its connection, as to other threads
//!    ([`super::command_threads`]).
//! 2. The values of its keys are read, all at the same time.
//! 3. The command runs on these values. Its writes and its reply are kept.
//! 4. The store commits the writes, if the keys still have the values that were read. Otherwise
//!    step 2 follows again, and the command has had no effect.
//! 5. The reply and the state go back to the loop.
//!
//! Many commands are in steps 2 and 4 at the same time: the thread waits for none of them. Commands
//! of this server that read the same key follow each other, so that they do not repeat each other.
//!
//! # Invariants
//! - G1. A command of this thread that writes takes effect at one moment for the clients of all
//!   servers: all values that it has read are compared in the commit. So does EXEC. A command that
//!   reads several keys reads those of one place at one moment.
//! - G2. EXEC gets the values that its client has watched into the comparison. If one of them is
//!   another one, the transaction is refused.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::io;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use thermocline::environment::Monotonic;
use thermocline::sync::locks::{Condvar, Mutex};

use super::command_threads::{Job, Ran};
use super::{Letter, SCRATCH_BYTES_KEPT};
use crate::commands::dispatch::run_on_thread;
use crate::commands::plan::Plan;
use crate::commands::transactions::{forget_transaction, forget_watches};
use crate::commands::{Alone, COMMANDS, Call, Failure, ReadMode, Room};
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Extent, Reply};
use crate::shared::Shared;
use crate::stats::Tally;
use crate::store::ranges::two_databases;
use crate::store::{Commit, DbIndex, Step, StoreError};

/// How often the thread looks whether the server stops.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time that a command may wait for earlier ones with its keys. Most clients do not wait longer.
const TURN_MAX: Duration = Duration::from_secs(10);

/// Work for the thread.
pub(crate) enum Input {
    /// A command.
    Job(Box<Job>),
    /// The same, once the store knows the places of its keys, or that they have none.
    Placed(Box<Job>),
    /// The values of a command's keys.
    Read(u64, Result<Vec<Option<Vec<u8>>>, StoreError>),
    /// The end of a command's commit.
    Committed(u64, Result<bool, StoreError>),
}

/// Work that waits for the thread.
#[derive(Default)]
pub(crate) struct Commits {
    inputs: Mutex<Vec<Input>>,
    changed: Condvar,
}

impl fmt::Debug for Commits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commits").finish_non_exhaustive()
    }
}

/// A command.
struct Running {
    job: Box<Job>,
    plan: Plan,
    /// Bytes of the values that were read, which the clients' memory is charged for.
    held: usize,
    reply: Vec<u8>,
    /// The same of the reply.
    charged: usize,
    has_written: bool,
    /// Whether the client does not get the reply. The thread itself needs it.
    is_muted: bool,
    /// When the command has failed, if it still waits for its turn then.
    deadline: Monotonic,
    /// Parts of a command whose keys are in several places, and the sum of their replies.
    parts: Vec<OwnedArgs>,
    sum: i64,
    /// The state of the connection before the command.
    before: (DbIndex, bool),
    /// The keys in whose queues it is, whether it is in them, and the number of queues in which
    /// another command is before it.
    keys: Vec<(DbIndex, Vec<u8>)>,
    has_turn: bool,
    waits: usize,
}

/// The thread's own state.
struct Thread<'a> {
    shared: &'a Arc<Shared>,
    running: BTreeMap<u64, Running>,
    /// The keys of commands that are under way, and the commands that follow them.
    keys: HashMap<(DbIndex, Vec<u8>), VecDeque<u64>>,
    next: u64,
    tally: Tally,
    scratch: Vec<u8>,
}

impl Commits {
    /// Adds work.
    pub(crate) fn add(&self, input: Input) {
        self.inputs.lock().push(input);
        self.changed.notify_one();
    }

    /// Runs commands until the server stops.
    pub(crate) fn run(&self, shared: &Arc<Shared>) -> io::Result<()> {
        let (running, keys, scratch) = Default::default();
        let mut thread = Thread { shared, running, keys, next: 0, tally: Tally::new(), scratch };
        while !shared.threads.stop.is_asked() {
            let inputs = {
                let mut inputs = self.inputs.lock();
                if inputs.is_empty() {
                    self.changed.wait_for(&mut inputs, LOOK_INTERVAL);
                }
                take(&mut *inputs)
            };
            for input in inputs {
                thread.step(input);
            }
            shared.stats.add(&mut thread.tally);
            thread.scratch.clear();
            thread.scratch.shrink_to(SCRATCH_BYTES_KEPT);
        }
        Ok(())
    }
}

impl Thread<'_> {
    fn step(&mut self, input: Input) {
        match input {
            Input::Job(job) => self.place(job),
            Input::Placed(job) => self.begin(job),
            Input::Read(number, values) => {
                if let Some(running) = self.running.remove(&number) {
                    self.go_on(number, running, values);
                }
            }
            Input::Committed(number, committed) => {
                if let Some(running) = self.running.remove(&number) {
                    self.end_commit(number, running, committed);
                }
            }
        }
    }

    /// Begins a command, if the store knows the places of its keys. Otherwise a read finds them.
    fn place(&mut self, job: Box<Job>) {
        let Some(remote) = self.shared.store.remote() else { return };
        let (command, db) = (&COMMANDS[job.parked.command], job.session.db);
        let args = job.args.args();
        let is_several = command.keys.is_several(args.len());
        let Some(key) = args.get(1).filter(|_| is_several && !remote.is_known(db)) else {
            return self.begin(job);
        };
        let (key, shared) = (key.to_vec(), Arc::clone(self.shared));
        let on_read = move |_: Result<Vec<Option<Vec<u8>>>, StoreError>| {
            // The command gets the error itself, if there is one.
            shared.threads.command_threads.commits.add(Input::Placed(job));
        };
        remote.read(db, vec![key], Box::new(on_read));
    }

    fn begin(&mut self, mut job: Box<Job>) {
        let number = self.next;
        self.next += 1;
        let parts = self.parts_of(&mut job);
        let before = (job.session.db, job.session.resp3);
        let is_muted = take(&mut job.parked.is_muted);
        let deadline = self.shared.environment.now() + TURN_MAX;
        let running = Running {
            job,
            plan: Plan::default(),
            held: 0,
            reply: Vec::new(),
            charged: 0,
            has_written: false,
            is_muted,
            deadline,
            parts,
            sum: 0,
            before,
            keys: Vec::new(),
            has_turn: false,
            waits: 0,
        };
        self.read(number, running);
    }

    /// Divides a command that may take effect in parts, if its keys are in several places. The
    /// first part takes the place of its arguments.
    fn parts_of(&self, job: &mut Job) -> Vec<OwnedArgs> {
        let command = &COMMANDS[job.parked.command];
        let Some(remote) = self.shared.store.remote() else { return Vec::new() };
        if !matches!(command.name, "del" | "unlink")
            || !command.keys.is_several(job.args.args().len())
        {
            return Vec::new();
        }
        let args = job.args.args();
        let keys: Vec<&[u8]> = args.from(1).collect();
        let places = remote.places(job.session.db, &keys);
        if places.len() < 2 {
            return Vec::new();
        }
        let part = |of: &Vec<usize>| {
            let keys = of.iter().filter_map(|index| keys.get(*index).copied());
            OwnedArgs::of(std::iter::once(args.at(0)).chain(keys))
        };
        let mut parts: Vec<OwnedArgs> = places.iter().map(part).collect();
        if let Some(last) = parts.pop() {
            job.args = last;
        }
        parts
    }

    /// Step 2.
    fn read(&mut self, number: u64, mut running: Running) {
        let command = &COMMANDS[running.job.parked.command];
        let planned = Plan::of_commit(command, running.job.args.args(), &running.job.session);
        running.plan = match planned {
            Ok(plan) => plan,
            Err(failure) => return self.fail(number, running, &failure),
        };
        let known = &running.plan.known;
        let places = (0..known.len()).filter_map(|index| known.key(index));
        let keys: Vec<(DbIndex, Vec<u8>)> = places.map(|(db, key, _)| (db, key.to_vec())).collect();
        let Some((db, _)) = keys.first() else { return self.run(number, running) };
        let db = *db;
        if !running.has_turn {
            // The command takes its place behind each command with one of its keys.
            running.waits = 0;
            for key in &keys {
                let queue = self.keys.entry(key.clone()).or_default();
                running.waits += usize::from(!queue.is_empty());
                queue.push_back(number);
            }
            (running.keys, running.has_turn) = (keys.clone(), true);
            if running.waits > 0 {
                self.running.insert(number, running);
                return;
            }
        }
        if let Some((other, _)) = keys.iter().find(|(other, _)| *other != db) {
            if command.name == "exec" {
                // A key of another database is watched.
                let cause = two_databases(db, *other);
                let text = format!("EXECABORT Transaction discarded because of: {cause}");
                return self.fail(number, running, &Failure::made(text));
            }
            // The command itself refuses that.
            return self.run(number, running);
        }
        let Some(remote) = self.shared.store.remote() else { return };
        let keys = keys.into_iter().map(|(_, key)| key).collect();
        self.running.insert(number, running);
        let shared = Arc::clone(self.shared);
        let on_read = move |values| {
            shared.threads.command_threads.commits.add(Input::Read(number, values));
        };
        remote.read(db, keys, Box::new(on_read));
    }

    /// Takes the values that were read.
    fn go_on(
        &mut self,
        number: u64,
        mut running: Running,
        values: Result<Vec<Option<Vec<u8>>>, StoreError>,
    ) {
        let values = match values {
            Ok(values) => values,
            Err(error) => return self.fail(number, running, &error.into()),
        };
        let memory = &self.shared.clients.memory;
        let bytes = values.iter().flatten().map(Vec::len).sum();
        if !memory.try_charge(&mut running.held, bytes) {
            let limit = memory.limit();
            return self.fail(number, running, &Failure::NoRoom { limit });
        }
        for (index, value) in values.iter().enumerate() {
            running.plan.set(index, value.as_deref());
        }
        self.run(number, running);
    }

    /// Steps 3 and 4.
    fn run(&mut self, number: u64, mut running: Running) {
        let (shared, job) = (self.shared, &mut *running.job);
        let command = &COMMANDS[job.parked.command];
        let is_exec = command.name == "exec";
        if is_exec && has_changed(job, &running.plan) {
            job.session.changed.store(true, Relaxed);
        }
        let commit = RefCell::new(None);
        let room = Room::new(&shared.clients.memory, 0, Extent::of(&running.reply), job.limits);
        let resp3 = job.session.resp3;
        let mut call = Call {
            shared,
            store: shared.store.commands(),
            session: &mut job.session,
            tally: &mut self.tally,
            args: job.args.args(),
            reply: Reply::new(&mut running.reply, resp3),
            room: &room,
            now_ms: shared.environment.wall_ms(),
            scratch: &mut self.scratch,
            written: Default::default(),
            read_mode: ReadMode::Blocking,
            walk: job.walk.take(),
            waits_for_room: false,
            begun: None,
        };
        let known = &running.plan.known;
        let alone = Alone { known, reservation: None, commit: Some(&commit) };
        run_on_thread(&mut call, job.parked, Some(alone));
        running.has_written |= call.written.any;
        running.charged = room.charged();
        let has_queue = job.session.queue.is_some();
        if command.name == "watch" {
            for index in 0..known.len() {
                let Some((db, key, _)) = known.key(index) else { break };
                job.session.watched.note_stored(db, key, known.get(db, key).flatten());
            }
        }
        let steps = commit.into_inner();
        // The values that a transaction has only read are of one moment, too. One that was refused
        // has no queue any more, and one that failed shows no values.
        let has_failed = running.reply.starts_with(b"-");
        let reads_many = is_exec && has_queue && !has_failed && known.len() > 1;
        match steps.or_else(|| reads_many.then(Vec::new)) {
            Some(steps) => self.commit(number, running, steps),
            None => self.finish(number, running),
        }
    }

    /// Step 4.
    fn commit(&mut self, number: u64, running: Running, steps: Vec<Step>) {
        let Some(remote) = self.shared.store.remote() else { return };
        let known = &running.plan.known;
        let mut commit = Commit { db: running.job.session.db, expects: Vec::new(), steps };
        let mut used = commit.steps.iter().map(|step| step.db);
        let mut other = None;
        if let Some(first) = used.next() {
            commit.db = first;
            other = used.find(|db| *db != first);
        }
        for index in 0..known.len() {
            let Some((db, key, _)) = known.key(index) else { break };
            if let Some(value) = known.get(db, key) {
                other = other.or((db != commit.db && !commit.steps.is_empty()).then_some(db));
                commit.db = db;
                commit.expects.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            }
        }
        if let Some(other) = other {
            let error = StoreError::Refused(two_databases(commit.db, other));
            return self.fail(number, running, &error.into());
        }
        self.running.insert(number, running);
        let shared = Arc::clone(self.shared);
        let on_committed = move |committed| {
            shared.threads.command_threads.commits.add(Input::Committed(number, committed));
        };
        remote.commit(commit, Box::new(on_committed));
    }

    fn end_commit(
        &mut self,
        number: u64,
        mut running: Running,
        committed: Result<bool, StoreError>,
    ) {
        match committed {
            Ok(true) => self.finish(number, running),
            Ok(false) => {
                // It has had no effect, and runs again.
                (running.job.session.db, running.job.session.resp3) = running.before;
                self.drop_reply(&mut running);
                self.read(number, running);
            }
            Err(StoreError::NoDatabase) => {
                let db = running.plan.known.key(0).map_or(running.job.session.db, |(db, ..)| db);
                match self.shared.store.make(db) {
                    Ok(()) => {
                        (running.job.session.db, running.job.session.resp3) = running.before;
                        self.drop_reply(&mut running);
                        self.read(number, running);
                    }
                    Err(error) => self.fail(number, running, &error.into()),
                }
            }
            Err(error) => self.fail(number, running, &error.into()),
        }
    }

    fn drop_reply(&self, running: &mut Running) {
        running.reply.clear();
        self.shared.clients.memory.recharge(&mut running.charged, 0);
        self.shared.clients.memory.recharge(&mut running.held, 0);
    }

    /// Step 5, with an error.
    fn fail(&mut self, number: u64, mut running: Running, failure: &Failure) {
        self.drop_reply(&mut running);
        let (shared, job) = (self.shared, &mut *running.job);
        (job.session.db, job.session.resp3) = running.before;
        let room = Room::new(&shared.clients.memory, 0, Extent::of(&running.reply), job.limits);
        let resp3 = job.session.resp3;
        let mut call = Call {
            shared,
            store: shared.store.commands(),
            session: &mut job.session,
            tally: &mut self.tally,
            args: job.args.args(),
            reply: Reply::new(&mut running.reply, resp3),
            room: &room,
            now_ms: shared.environment.wall_ms(),
            scratch: &mut self.scratch,
            written: Default::default(),
            read_mode: ReadMode::Blocking,
            walk: None,
            waits_for_room: false,
            begun: None,
        };
        call.fail(Some(job.parked.command), failure);
        running.charged = room.charged();
        if COMMANDS[job.parked.command].name == "watch" {
            // Nothing is watched any more, so no EXEC may take place as if it were.
            forget_watches(shared, &mut job.session);
            job.session.changed.store(true, Relaxed);
        }
        self.send(number, running);
    }

    /// Step 5, or the next part of the command.
    fn finish(&mut self, number: u64, mut running: Running) {
        let has_parts = !running.parts.is_empty() || running.sum != 0;
        if let Some(count) = integer_of(&running.reply).filter(|_| has_parts) {
            running.sum += count;
            if let Some(part) = running.parts.pop() {
                running.job.args = part;
                self.drop_reply(&mut running);
                self.leave_keys(number, &mut running);
                running.deadline = self.shared.environment.now() + TURN_MAX;
                return self.read(number, running);
            }
            running.reply.clear();
            Reply::new(&mut running.reply, running.job.session.resp3).integer(running.sum);
        }
        self.send(number, running);
    }

    /// Takes a command out of the queues of its keys. Commands that follow with all their keys
    /// begin.
    fn leave_keys(&mut self, number: u64, running: &mut Running) {
        running.has_turn = false;
        for key in take(&mut running.keys) {
            let Some(queue) = self.keys.get_mut(&key) else { continue };
            queue.retain(|waiting| *waiting != number);
            let Some(next) = queue.front().copied() else {
                self.keys.remove(&key);
                continue;
            };
            let Some(mut following) = self.running.remove(&next) else { continue };
            following.waits = following.waits.saturating_sub(1);
            if following.waits > 0 {
                self.running.insert(next, following);
            } else if self.shared.environment.now() < following.deadline {
                self.read(next, following);
            } else {
                // Not here: the failures of many commands would be calls within each other.
                self.running.insert(next, following);
                let cause = "commands with the same key have not ended for ten seconds";
                let late = Input::Read(next, Err(StoreError::Refused(cause.to_owned())));
                self.shared.threads.command_threads.commits.add(late);
            }
        }
    }

    /// Sends the reply and the state to the loop.
    fn send(&mut self, number: u64, mut running: Running) {
        self.leave_keys(number, &mut running);
        let shared = self.shared;
        shared.clients.memory.recharge(&mut running.held, 0);
        if running.is_muted {
            self.drop_reply(&mut running);
        }
        let Running { job, reply, charged, has_written, .. } = running;
        let Job { index, asker, number: place, parked, mut session, lent_bytes, .. } = *job;
        if COMMANDS[parked.command].name == "exec" {
            forget_transaction(shared, &mut session);
        }
        let is_promise = has_written;
        let ran = Ran { asker, number: place, session, lent_bytes, reply, charged, is_promise };
        shared.threads.send(index, Letter::Ran(Box::new(ran)));
    }
}

/// Returns whether a watched key has another value than when it was watched. (G2)
fn has_changed(job: &Job, plan: &Plan) -> bool {
    job.session.watched.stored().any(|(db, key, stored)| {
        // A value that could not be read may be another one.
        stored.is_none() || plan.known.get(db, key) != stored
    })
}

/// Returns the number in the reply of a command that counts.
fn integer_of(reply: &[u8]) -> Option<i64> {
    let text = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    std::str::from_utf8(text).ok()?.parse().ok()
}
