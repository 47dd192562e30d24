//! The plan of a command that runs alone: the keys it reads, and whether an event loop may run it.
//!
//! 1. The loop plans the command. If it is short, the loop enters the gate alone and reads the keys
//!    from memory.
//! 2. If memory has all values, and they are few bytes, the command runs on the loop, with these
//!    values.
//! 3. Otherwise a thread runs it ([`crate::event_loop`]). Before the thread reserves the gate it
//!    reads the keys, many together, while all other clients continue. If one of the keys is
//!    written meanwhile it reads them again. After some attempts it reads them in the gate, and
//!    writers wait.
//!
//! # Invariants
//! - P1. Values that a command is given are those of the moment at which it runs. A thread watches
//!   the keys and waits for the turns of all loops before it reads the first key, and no other
//!   command writes when it looks whether a key has changed.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use thermocline::Expiring;

use super::command::Command;
use super::connection::parse_db;
use super::flags::Flags;
use super::{COMMANDS, Failure, set};
use crate::client_memory::ClientMemory;
use crate::protocol::Args;
use crate::protocol::number::parse_i64;
use crate::session::{Queue, Session};
use crate::shared::Shared;
use crate::store::known::Known;
use crate::store::{DB_COUNT, DbIndex, Durable, Store, StoreError};
use crate::watch::Changed;

/// Keys of a command that an event loop runs, at most.
pub(crate) const KEYS_MAX: usize = 1000;
/// Arguments of such a command, at most: MSET has two for each key.
pub(crate) const ARGS_MAX: usize = 2 * KEYS_MAX + 1;
/// Arguments of a command without keys that an event loop runs, at most: COMMAND INFO has up to
/// some kilobytes for each.
pub(crate) const ARGS_WITHOUT_KEYS_MAX: usize = 100;
/// Bytes of arguments of a command over several keys that an event loop runs, at most, and of the
/// values that it reads.
const BYTES_MAX: usize = 1 << 20;
/// Keys that a thread reads before it reserves the gate, at most.
const READ_BEFORE_MAX: usize = 16_384;
/// Share of the clients' memory that their values take, at most.
const MEMORY_PARTS: usize = 8;
/// How often the keys of one command are read before it runs.
const ATTEMPTS_MAX: u32 = 3;
/// Keys that are read together.
const TOGETHER: usize = 64;

/// A plan.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The keys whose values decide the work of the command.
    pub(crate) known: Known,
    /// Keys that it reads or writes, and commands that it executes.
    steps: usize,
    bytes: usize,
    /// The databases that it writes to, as bits.
    writes_to: u32,
    /// Whether the figures above are all that it does.
    is_simple: bool,
    /// Whether values are wanted; else only whether they are there, and when they expire.
    keeps_values: bool,
    /// Bytes that its commands write.
    written: usize,
    /// Whether a command puts the value of one key under another.
    moves: bool,
}

impl Plan {
    /// Plans `command`, which is EXEC or a command with keys. The plan of a command that is too
    /// long for a loop is not complete if it `is_for_loop`.
    pub(crate) fn of(
        command: &Command,
        args: Args<'_>,
        session: &Session,
        is_for_loop: bool,
    ) -> Self {
        let mut plan = Self { is_simple: true, ..Self::default() };
        if command.name == "exec" {
            plan.keeps_values = true;
            plan.steps = session.watched.len();
            // EXEC refuses a transaction of which a watched key has changed.
            let refuses = session.changed.load(Relaxed);
            if let Some(queue) = session.queue.as_ref().filter(|queue| !refuses && !queue.is_broken)
            {
                plan.add_queue(queue, session.db, is_for_loop);
                if is_for_loop && plan.may_copy_much() {
                    plan.add_copies(queue, session.db);
                }
            }
        } else {
            plan.keeps_values = command.keys.access_to(0).contains(&"access");
            plan.add(command, args, session.db);
            if command.has_one_key(args.len()) {
                // It makes no transaction that would use the value.
                plan.known = Known::default();
            }
        }
        plan.known.sort();
        plan
    }

    /// Plans a command that a store of other processes commits. The plan has the keys that it
    /// reads, and the keys that its client watches.
    ///
    /// # Errors
    /// They are too many.
    pub(crate) fn of_commit(
        command: &Command,
        args: Args<'_>,
        session: &Session,
    ) -> Result<Self, Failure> {
        let mut plan = Self { is_simple: true, keeps_values: true, ..Self::default() };
        match session.queue.as_ref().filter(|_| command.name == "exec") {
            Some(queue) => {
                plan.add_queue(queue, session.db, false);
                session.watched.stored().for_each(|(db, key, _)| plan.known.want(db, key));
            }
            None => plan.add(command, args, session.db),
        }
        if plan.known.len() >= READ_BEFORE_MAX {
            return Err(Failure::made(format!(
                "ERR a command over the data of a cluster has fewer than {READ_BEFORE_MAX} keys"
            )));
        }
        plan.known.sort();
        Ok(plan)
    }

    /// Whether a loop may run the command if memory has the values.
    pub(crate) fn is_short(&self) -> bool {
        self.is_simple && self.steps <= KEYS_MAX && self.bytes <= BYTES_MAX
    }

    fn add_queue(&mut self, queue: &Queue, mut db: DbIndex, is_for_loop: bool) {
        for (index, args) in &queue.commands {
            if is_for_loop && !self.is_short() {
                return;
            }
            let (command, args) = (&COMMANDS[*index], args.args());
            self.steps += 1;
            if command.name == "select" {
                db = parse_db(args.at(1)).unwrap_or(db);
            }
            let has_keys = command.keys.first > 0;
            self.is_simple &=
                has_keys || command.flags.has(Flags::FAST) && !command.flags.has(Flags::WALKS);
            self.add(command, args, db);
        }
    }

    /// Whether a transaction may copy many bytes of values that it has made itself.
    fn may_copy_much(&self) -> bool {
        self.is_short() && (self.moves || self.steps.saturating_mul(self.written) > BYTES_MAX)
    }

    /// Adds the bytes of values that a transaction makes and then uses again. It is not simple if
    /// they cannot be known.
    fn add_copies(&mut self, queue: &Queue, mut db: DbIndex) {
        // Bytes of each key's value that come from the transaction, at most; `None` if it has put
        // another key's value there.
        let mut made: HashMap<(DbIndex, &[u8]), Option<usize>> = HashMap::new();
        for (index, args) in &queue.commands {
            let (command, args) = (&COMMANDS[*index], args.args());
            if command.name == "select" {
                db = parse_db(args.at(1)).unwrap_or(db);
            }
            for place in command.keys.places(args.len()) {
                let made = made.entry((db, args.at(place))).or_insert(Some(0));
                let Some(bytes) = made else {
                    self.is_simple = false;
                    return;
                };
                if overwrites(command, args) {
                    *bytes = 0;
                }
                self.bytes = self.bytes.saturating_add(*bytes);
                let written = written_bytes(command, args);
                if command.moves() && place > 1 {
                    *made = None;
                } else if command.name == "append" {
                    *bytes = bytes.saturating_add(written);
                } else if command.flags.has(Flags::WRITE) {
                    *bytes = written.max(*bytes);
                }
            }
        }
    }

    fn add(&mut self, command: &Command, args: Args<'_>, db: DbIndex) {
        let bytes = written_bytes(command, args);
        self.bytes = self.bytes.saturating_add(bytes);
        if command.flags.has(Flags::WRITE) {
            self.written = self.written.saturating_add(bytes);
        }
        self.moves |= command.moves();
        self.writes_to |= u32::from(command.flags.has(Flags::WRITE)) << db;
        // COPY may be to another database.
        self.is_simple &= command.name != "copy" || args.len() <= 4;
        let overwrites = overwrites(command, args);
        for place in command.keys.places(args.len()) {
            self.steps += 1;
            if !overwrites && self.known.len() < READ_BEFORE_MAX {
                self.known.want(db, args.at(place));
            }
        }
    }

    /// The databases that the command writes to.
    fn databases(&self) -> impl Iterator<Item = DbIndex> + use<> {
        let writes_to = self.writes_to;
        (0..DB_COUNT).filter(move |db| writes_to >> db & 1 == 1)
    }

    /// Whether the databases that the command writes to are there.
    pub(crate) fn has_databases(&self, store: &dyn Store) -> bool {
        self.databases().all(|db| store.exists(db))
    }

    /// Makes the databases that the command writes to. Waits for the device. The command gets the
    /// error if one cannot be made.
    pub(crate) fn make_databases(&self, store: &dyn Durable) {
        self.databases().for_each(|db| drop(store.make(db)));
    }

    /// Reads the values that memory has. Returns false if it does not have all, if they are many
    /// bytes, or if a database has to be made.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn try_read(
        &mut self,
        store: &dyn Store,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        if !self.has_databases(store) {
            return Ok(false);
        }
        let mut bytes = 0;
        for index in 0..self.known.len() {
            let Some((db, key, uses)) = self.known.key(index) else { break };
            let Some(is_there) = store.try_get(db, key, scratch)? else { return Ok(false) };
            if is_there {
                bytes += scratch.len() * uses;
            }
            if bytes > BYTES_MAX {
                return Ok(false);
            }
            self.set(index, is_there.then_some(scratch));
        }
        Ok(true)
    }

    /// Bytes that are kept of a value.
    fn kept_bytes(&self, value: &[u8]) -> usize {
        if self.keeps_values { value.len() } else { value.len().min(Expiring::TRAILER_BYTES_MAX) }
    }

    /// Notes the value of a key.
    pub(crate) fn set(&mut self, index: usize, value: Option<&[u8]>) {
        // A damaged value is shown unchanged: its readers get the error.
        let stored = value.filter(|_| !self.keeps_values).map(Expiring::decode);
        match stored {
            Some(Ok(stored)) => {
                let expiry = Expiring { value: b"", expiry_ms: stored.expiry_ms };
                self.known.set_by(index, |bytes| expiry.encode(bytes));
            }
            _ => self.known.set(index, value),
        }
    }
}

/// Returns whether a command writes its keys over any old values.
fn overwrites(command: &Command, args: Args<'_>) -> bool {
    command.flags.has(Flags::OVERWRITES) && !set::depends_on_old(args)
}

/// Returns the bytes that a command writes in addition to an old value, at most: the bytes of its
/// arguments.
fn written_bytes(command: &Command, args: Args<'_>) -> usize {
    let bytes = args.total_bytes();
    if command.name != "setrange" {
        return bytes;
    }
    // Zeros fill the value up to the offset.
    let offset = parse_i64(args.at(2)).and_then(|offset| usize::try_from(offset).ok());
    bytes.saturating_add(offset.unwrap_or(0))
}

/// The values of a command's keys while a thread reads them.
#[derive(Debug)]
pub(crate) struct ReadBefore {
    plan: Plan,
    /// The next key to read.
    next: usize,
    changed: Changed,
    attempts: u32,
    /// Bytes by which the clients' memory is charged, and the part of them that is not for values.
    charged: usize,
    watched_bytes: usize,
}

impl ReadBefore {
    /// Watches the keys of a plan. Without memory for that, none of them is read before the command
    /// runs. Waits for the turns of all loops.
    pub(crate) fn new(mut plan: Plan, shared: &Shared) -> Self {
        /// Bytes that a watched key takes in addition to its own.
        const WATCH_BYTES: usize = 192;
        let watched_bytes = WATCH_BYTES * plan.known.len() + 2 * plan.known.memory_bytes();
        let mut charged = 0;
        if !shared.clients.memory.try_charge(&mut charged, watched_bytes) {
            plan.known = Known::default();
        }
        let changed = Changed::default();
        let keys = (0..plan.known.len()).filter_map(|index| plan.known.key(index));
        keys.for_each(|(db, key, _)| shared.keys.watches.add(db, key, &changed));
        // A transaction touches its keys before it is committed, so one that executes now may have
        // touched a key before it was watched. It must be committed before the key is read.
        shared.gate.wait_for_turns();
        Self { plan, next: 0, changed, attempts: 0, charged, watched_bytes }
    }

    /// Reads the next slice of the keys. Returns whether there are more to read. Parked
    /// for the device.
    pub(crate) fn read(&mut self, store: &dyn Store, memory: &ClientMemory) -> bool {
        let end = (self.next + KEYS_MAX).min(self.plan.known.len());
        while self.next < end {
            let part = self.next..(self.next + TOGETHER).min(end);
            if !self.read_part(part, store, memory) {
                // The command reads the others by itself, and gets the error if there is one.
                self.next = self.plan.known.len();
                return false;
            }
        }
        self.next < self.plan.known.len()
    }

    /// Reads the first of `part` that are in one database. Returns whether all values could be read
    /// and kept.
    fn read_part(
        &mut self,
        part: std::ops::Range<usize>,
        store: &dyn Store,
        memory: &ClientMemory,
    ) -> bool {
        let known = &self.plan.known;
        let Some((db, ..)) = known.key(part.start) else { return false };
        let in_db = part.clone().filter_map(|index| known.key(index));
        let keys: Vec<Vec<u8>> =
            in_db.take_while(|(of, ..)| *of == db).map(|(_, key, _)| key.to_vec()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let most = memory.limit() / MEMORY_PARTS;
        let mut has_room = true;
        let read = store.multi_get(db, &keys, &mut |index, value| {
            let bytes = value.map_or(0, |value| self.plan.kept_bytes(value));
            has_room &= self.charged + bytes <= most && memory.try_charge(&mut self.charged, bytes);
            if has_room {
                self.plan.set(part.start + index, value);
            }
        });
        self.next += keys.len();
        read.is_ok() && has_room
    }

    /// Waits until short writes to the command's databases would not have to wait for room.
    pub(crate) fn wait_to_write(&self, store: &dyn Store) {
        self.plan.databases().for_each(|db| store.wait_to_write(db));
    }

    /// Returns whether the values are the present ones, or are not to be read again. The caller has
    /// reserved the gate.
    pub(crate) fn holds(&mut self, memory: &ClientMemory) -> bool {
        if !self.changed.swap(false, Relaxed) {
            return true;
        }
        self.plan.known.forget_values();
        let kept = self.charged.min(self.watched_bytes);
        memory.recharge(&mut self.charged, kept);
        self.next = 0;
        self.attempts += 1;
        self.attempts == ATTEMPTS_MAX
    }

    /// Returns the values.
    pub(crate) fn known(&self) -> &Known {
        &self.plan.known
    }

    /// Ends it.
    pub(crate) fn end(mut self, shared: &Shared) {
        let keys = (0..self.plan.known.len()).filter_map(|index| self.plan.known.key(index));
        keys.for_each(|(db, key, _)| shared.keys.watches.remove(db, key, &self.changed));
        shared.clients.memory.recharge(&mut self.charged, 0);
    }
}
