//! The session of a thread at one keyspace: gets and read-modify-writes, many of them in flight.
//!
//! 1. If memory knows the result, the operation is complete immediately, as by a blocking call.
//! 2. Otherwise the lookup of the value is in flight, and no lock is held meanwhile.
//! 3. Once the lookup has ended, a get is complete. A read-modify-write continues with the value
//!    under its key's lock, unless another write of the key came first: then it begins again
//!    ([`crate::rmw`]).
//! 4. A user that has an operator of its own can have old values looked up alone, and continue with
//!    them when they are reported ([`ReadForUpdate`]).
//! 5. [`Session::complete`] waits once for the durability of all commits that it made, and reports
//!    them then.
//!
//! # Invariants
//! - T1. A pending operation has changed nothing. The exception is an update that was committed
//!   within the running call of [`Session::complete`]; it is reported as soon as it has reached the
//!   durability of the handle.
//! - T2. No lock is held during a callback.
//! - T3. Every operation is reported once, unless it is cancelled. A panic of a callback or an
//!   operator loses that one operation. The next call reports the commits before it.
//! - T4. A session keeps no engine open. A pending lookup keeps the files that it reads, until it
//!   ends. If its engine was closed because the keyspace was cleared, the operation begins again
//!   with the engine that fills the keyspace now.

pub(crate) mod async_reader;
mod future;
mod many;
mod read_for_update;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use codec::SeqNo;
use device::{Doorbell, OfProcess};
use engine::{At, Lookup, Operator, PendingLookup};
use journal::Durability;
use reads::InFlightReads;

use crate::database::{Inner, OpenGuard};
use crate::error::{Error, Result};
use crate::expiry::{ClockReading, ValueForm};
use crate::keyspace::Keyspace;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::rmw::{Advance, Old, PendingOld};

pub use future::AsyncGet;
pub use many::AsyncMultiGet;
pub use read_for_update::ReadForUpdate;

/// The result of [`Session::begin_get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionGet {
    /// The key has a value, which replaced the content of the buffer.
    Found,
    /// The key has no value.
    Absent,
    /// The device is read; [`Session::complete`] will report the value.
    Pending,
    /// There is no room for another lookup: nothing was begun.
    Full,
}

/// The result of [`Session::lookup_for_update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupForUpdate {
    /// Memory knows the value now: [`Keyspace::try_rmw`] suffices. Nothing was begun.
    InMemory,
    /// The device is read; [`Session::complete`] will report the value.
    Pending,
    /// There is no room for another lookup: nothing was begun.
    Full,
}

/// The session of a thread at one [`Keyspace`]: reads of the device overlap, so that one thread
/// keeps it busy. With an engine in memory every operation is complete immediately.
///
/// Each get is linearizable: it reports the value of the key at some moment between
/// [`Session::begin_get`] and [`Session::complete`]. Each read-modify-write is atomic, as
/// [`Keyspace::rmw_with`] is, and happens at some moment between. Pending operations happen in any
/// order, also those of one key. Dropping the session cancels them, with nothing changed, and waits
/// for the reads that the device has. A session keeps no memory and no files of a keyspace that is
/// cleared or dropped, once its lookups have ended.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use thermocline::{Change, Completed, Db, EngineKind, KeyspaceOptions, Options};
/// use thermocline::{SessionGet, SessionRmw};
/// let db = Db::open(dir.path(), Options::default())?;
/// let options = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
/// let years = db.keyspace("years", options)?;
/// years.put(b"ada", b"1815")?;
/// let mut session = years.session(64)?;
/// let (mut value, mut told) = (Vec::new(), Vec::new());
/// for (tag, name) in [b"ada", b"bob"].into_iter().enumerate() {
///     match session.begin_get(tag as u64, name, &mut value)? {
///         SessionGet::Found => told.push((tag as u64, value.clone())),
///         SessionGet::Absent => {}
///         SessionGet::Pending => {} // reported below
///         SessionGet::Full => unreachable!("two of 64"),
///     }
/// }
/// let century = |year: Option<&[u8]>| match year {
///     Some(year) => Change::Put(year[..2].to_vec()),
///     None => Change::Keep,
/// };
/// match session.begin_rmw(2, b"ada", Box::new(century))? {
///     SessionRmw::Done(seqno) => assert!(seqno.is_some()),
///     SessionRmw::Pending => {} // reported below
///     SessionRmw::Full(_) => unreachable!("three of 64"),
/// }
/// while session.pending() > 0 {
///     session.complete(true, &mut |tag, outcome| match outcome {
///         Ok(Completed::Value(Some(value))) => told.push((tag, value.to_vec())),
///         Ok(Completed::Value(None)) => {}
///         Ok(Completed::Updated(seqno)) => assert!(seqno.is_some()),
///         Ok(Completed::Old(_)) => unreachable!("lookup_for_update was not called"),
///         Err(error) => panic!("{error}"),
///     })?;
/// }
/// assert_eq!(told, [(0, b"1815".to_vec())]);
/// assert_eq!(years.get(b"ada")?.as_deref(), Some(&b"18"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    /// Keeps the database open; none for a user that must not.
    _open: Option<Arc<OpenGuard>>,
    target: Target,
    reads: OfProcess<InFlightReads<Pending>>,
    depth: usize,
    /// Updates whose key another write changed first.
    overtaken: VecDeque<(Vec<u8>, Update)>,
    /// Tags and keys of gets whose keyspace was cleared.
    cleared: VecDeque<(u64, Vec<u8>)>,
    /// Read-modify-writes that are complete, and not reported yet.
    over: VecDeque<Over>,
}

/// The keyspace of a session, which it does not keep open.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) inner: Arc<Inner>,
    pub(crate) entry: Arc<KeyspaceEntry>,
    /// The durability that [`Session::complete`] waits for before it reports.
    pub(crate) durability: Durability,
    pub(crate) form: ValueForm,
}

/// The result of [`Session::begin_rmw`].
pub enum SessionRmw {
    /// It is complete, visible to all, and has reached the handle's durability. With its number, or
    /// none if it changed nothing.
    Done(Option<SeqNo>),
    /// The device is read; [`Session::complete`] will report the update.
    Pending,
    /// There is no room for another lookup, and this one needs the device. Returns the operator.
    Full(Box<dyn Operator + Send>),
}

/// The result of a pending operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<'a> {
    /// Of a get: the key's value, without a copy, if it had one.
    Value(Option<&'a [u8]>),
    /// Of a read-modify-write: its number, or none if it changed nothing.
    Updated(Option<SeqNo>),
    /// Of [`Session::lookup_for_update`].
    Old(ReadForUpdate<'a>),
}

/// The callback of [`Session::complete`], called with the tag of each operation that is complete.
pub type OnDone<'a> = dyn FnMut(u64, Result<Completed<'_>>) + 'a;

/// The owner of a lookup in flight.
struct Pending {
    /// The engine that it reads.
    instance: Weak<KeyspaceInstance>,
    purpose: Purpose,
}

/// The operation that needs a lookup.
enum Purpose {
    /// A get; with the clock when it began, if its value depends on it.
    Get { tag: u64, moment: Option<ClockReading> },
    /// A read-modify-write of the session's own.
    Update(Update),
    /// An old value for the user of the session.
    Old { tag: u64 },
}

/// A read-modify-write that is not complete.
struct Update {
    tag: u64,
    form: ValueForm,
    operator: Box<dyn Operator + Send>,
}

/// The tag and the result of a read-modify-write that is complete.
type Over = (u64, Result<Option<SeqNo>>);

impl Keyspace {
    /// Returns a session for gets and read-modify-writes, of which up to `depth`, at least one, are
    /// in flight. There are fewer if their reads would take more than a 64th of the keyspace's
    /// memory (at least 256 KiB, at most 8 MiB). It makes a queue of the device when it needs one.
    ///
    /// # Errors
    /// The database is closed; the keyspace was dropped.
    pub fn session(&self, depth: usize) -> Result<Session> {
        let Self { inner, entry, durability, form } = self.clone();
        let target = Target { inner: Arc::clone(&inner.0), entry, durability, form };
        Session::new(Some(inner), target, depth)
    }
}

impl Session {
    /// Returns a session that does not keep the database open, for a user that closes it.
    ///
    /// # Errors
    /// As [`Keyspace::session`].
    pub(crate) fn unheld(target: Target, depth: usize) -> Result<Self> {
        Self::new(None, target, depth)
    }

    fn new(open: Option<Arc<OpenGuard>>, target: Target, depth: usize) -> Result<Self> {
        target.inner.lifecycle.check_open()?;
        let depth = depth.max(1);
        let reads = InFlightReads::new(depth, target.entry.current()?.reads.budget());
        let (overtaken, cleared, over) = Default::default();
        let reads = OfProcess::new(reads);
        Ok(Self { _open: open, target, reads, depth, overtaken, cleared, over })
    }

    /// Reads `key`. Never waits for the device.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; nothing is pending then.
    pub fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<SessionGet> {
        self.target.inner.lifecycle.check_open()?;
        let instance = self.target.entry.current()?;
        let moment = instance.moment(self.target.form);
        Ok(match instance.lookup(key, At::Newest, into)? {
            Lookup::Absent => SessionGet::Absent,
            Lookup::Found => match moment {
                Some(moment) if !moment.trim(into)? => SessionGet::Absent,
                _ => SessionGet::Found,
            },
            Lookup::Pending(lookup) => {
                let instance = Arc::downgrade(&instance);
                match self.start(lookup, instance, Purpose::Get { tag, moment }) {
                    Ok(()) => SessionGet::Pending,
                    Err(_) => SessionGet::Full,
                }
            }
        })
    }

    /// Takes a lookup, or returns its purpose if there is no room for it.
    fn start(
        &mut self,
        lookup: Box<dyn PendingLookup>,
        instance: Weak<KeyspaceInstance>,
        purpose: Purpose,
    ) -> std::result::Result<(), Purpose> {
        if self.pending() >= self.depth {
            return Err(purpose);
        }
        let started = self.reads.start(lookup, Pending { instance, purpose });
        started.map_err(|(_, Pending { purpose, .. })| purpose)
    }

    /// Atomically replaces the key's value by the result of `operator`, as [`Keyspace::rmw_with`]
    /// does. If memory knows the old value, the update is complete, and has waited like a
    /// [`Keyspace::put`], also for its durability. If the old value is on the device, the update is
    /// pending, and another operation of the same key may come first.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; nothing is pending then, and the operator is dropped.
    pub fn begin_rmw(
        &mut self,
        tag: u64,
        key: &[u8],
        operator: Box<dyn Operator + Send>,
    ) -> Result<SessionRmw> {
        let begun = self.begin_not_durable(tag, key, self.target.form, operator)?;
        let SessionRmw::Done(seqno) = begun else { return Ok(begun) };
        let Target { inner, entry, durability, .. } = &self.target;
        inner.wait_rmw_durable(entry, seqno, *durability).map(SessionRmw::Done)
    }

    /// The same with an operator for values in another form. An update that is complete has not
    /// reached the handle's durability.
    pub(crate) fn begin_not_durable(
        &mut self,
        tag: u64,
        key: &[u8],
        form: ValueForm,
        operator: Box<dyn Operator + Send>,
    ) -> Result<SessionRmw> {
        Ok(match self.advance(key, Update { tag, form, operator })? {
            Advanced::Done(seqno) => SessionRmw::Done(seqno),
            Advanced::Pending => SessionRmw::Pending,
            Advanced::Full(update) => SessionRmw::Full(update.operator),
        })
    }

    /// Looks up the value that a read-modify-write of `key` is to change, after
    /// [`Keyspace::try_rmw`] could not do it, and reports it as [`Completed::Old`]. Never waits for
    /// the device.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; nothing is pending then.
    pub fn lookup_for_update(&mut self, tag: u64, key: &[u8]) -> Result<LookupForUpdate> {
        let Target { inner, entry, .. } = &self.target;
        inner.lifecycle.check_open()?;
        let Some(PendingOld { instance, lookup }) = inner.lookup_old(entry, key)? else {
            return Ok(LookupForUpdate::InMemory);
        };
        let instance = Arc::downgrade(&instance);
        Ok(match self.start(lookup, instance, Purpose::Old { tag }) {
            Ok(()) => LookupForUpdate::Pending,
            Err(_) => LookupForUpdate::Full,
        })
    }

    /// Has `bell` rung from now on whenever [`Session::complete`] may have something to report of
    /// operations that began before its last call: for a thread that also waits for other events.
    /// It may be rung without need.
    ///
    /// # Errors
    /// The device's queue failed.
    ///
    /// # Panics
    /// If something is pending.
    pub fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        assert_eq!(self.pending(), 0, "the bell is set first");
        self.target.inner.lifecycle.check_process()?;
        Ok(self.reads.ring(bell)?)
    }

    /// Continues pending operations, and calls `on_done` for each that is complete. If it `waits`,
    /// it does not return before there was one, if any is pending. Returns the number of calls.
    ///
    /// # Errors
    /// [`Error::Forked`]. A failure of one operation is reported for that one alone, and a failure
    /// of the device's queue for each operation that it concerns; the next operation makes another
    /// queue. A read-modify-write that failed has changed nothing, unless the journal failed.
    pub fn complete(&mut self, waits: bool, on_done: &mut OnDone<'_>) -> Result<usize> {
        self.target.inner.lifecycle.check_process()?;
        // Work that a panic has left [T3].
        let mut count = self.restart(on_done);
        loop {
            count += self.complete_reads(waits && count == 0, on_done);
            count += self.restart(on_done);
            if !waits || count > 0 || self.pending() == 0 {
                return Ok(count);
            }
        }
    }

    /// Returns the number of pending operations.
    pub fn pending(&self) -> usize {
        self.reads.len() + self.overtaken.len() + self.cleared.len() + self.over.len()
    }

    /// Continues a read-modify-write until it is complete, or its old value is looked up.
    fn advance(&mut self, key: &[u8], mut update: Update) -> Result<Advanced> {
        let Target { inner, entry, .. } = &self.target;
        let (form, operator) = (update.form, &mut *update.operator);
        match inner.advance_rmw(entry, form, key, operator)? {
            Advance::Done(seqno) => Ok(Advanced::Done(seqno)),
            Advance::Pending(PendingOld { instance, lookup }) => {
                let instance = Arc::downgrade(&instance);
                match self.start(lookup, instance, Purpose::Update(update)) {
                    Ok(()) => Ok(Advanced::Pending),
                    Err(Purpose::Update(update)) => Ok(Advanced::Full(update)),
                    Err(_) => unreachable!("the purpose comes back"),
                }
            }
        }
    }

    /// Completes lookups, and continues with their values. Returns the number of calls of
    /// `on_done`.
    fn complete_reads(&mut self, waits: bool, on_done: &mut OnDone<'_>) -> usize {
        let Self { target, reads, overtaken, cleared, over, .. } = self;
        let target = &*target;
        let Target { inner, entry, .. } = target;
        let mut count = 0;
        reads.complete(waits, &mut |Pending { instance, purpose }, done| {
            let (key, lookup) = (done.lookup.key(), &*done.lookup);
            let value = done.value.map(|value| value.map(|value| value.as_slice()));
            let is_cleared = matches!(value, Err(engine::Error::Closed)) && {
                let current = entry.current();
                !current.is_ok_and(|now| std::ptr::eq(Arc::as_ptr(&now), instance.as_ptr()))
            };
            let instance = instance.upgrade();
            let value = match &instance {
                Some(instance) => instance.placed(value),
                None => value,
            };
            // An update of a value that is not the newest looks it up again.
            let value = if is_cleared { Ok(None) } else { value };
            let old = |value| {
                let instance = instance.as_ref().filter(|_| !is_cleared);
                Old { key, value, instance, lookup }
            };
            match purpose {
                Purpose::Get { tag, .. } if is_cleared => cleared.push_back((tag, key.to_vec())),
                Purpose::Get { tag, moment } => {
                    count += 1;
                    let shown = value.and_then(|stored| match moment {
                        Some(moment) => moment.show(stored),
                        None => Ok(stored),
                    });
                    on_done(tag, shown.map(Completed::Value).map_err(Error::from));
                }
                Purpose::Old { tag } => {
                    count += 1;
                    let looked = |value| Completed::Old(ReadForUpdate { target, old: old(value) });
                    on_done(tag, value.map(looked).map_err(Error::from));
                }
                Purpose::Update(mut update) => {
                    let (form, operator) = (update.form, &mut *update.operator);
                    let outcome = value
                        .map_err(Error::from)
                        .and_then(|value| inner.rmw_with_old(entry, form, &old(value), operator));
                    match outcome {
                        Ok(Some(seqno)) => over.push_back((update.tag, Ok(seqno))),
                        Ok(None) => overtaken.push_back((key.to_vec(), update)),
                        Err(error) => over.push_back((update.tag, Err(error))),
                    }
                }
            }
        });
        count
    }

    /// Begins operations again if they must, and reports complete operations. Returns the number of
    /// calls of `on_done`.
    fn restart(&mut self, on_done: &mut OnDone<'_>) -> usize {
        let mut count = 0;
        while let Some((tag, key)) = self.cleared.pop_front() {
            let mut value = Vec::new();
            let outcome = match self.begin_get(tag, &key, &mut value) {
                Ok(SessionGet::Pending) => continue,
                Ok(SessionGet::Found) => Ok(true),
                Ok(SessionGet::Absent) => Ok(false),
                // The reads of others are long.
                Ok(SessionGet::Full) => {
                    let Target { entry, form, .. } = &self.target;
                    let current = entry.current();
                    current.and_then(|now| Ok(now.get(*form, &key, &mut value)?))
                }
                Err(error) => Err(error),
            };
            count += 1;
            let value = outcome.map(|is_found| Completed::Value(is_found.then_some(&value)));
            on_done(tag, value);
        }
        // Memory knows most of the values.
        while let Some((key, update)) = self.overtaken.pop_front() {
            let tag = update.tag;
            let outcome = match self.advance(&key, update) {
                Ok(Advanced::Pending) => continue,
                Ok(Advanced::Done(seqno)) => Ok(seqno),
                Ok(Advanced::Full(mut update)) => {
                    let Target { inner, entry, durability, .. } = &self.target;
                    inner.rmw(entry, update.form, &key, &mut *update.operator, *durability)
                }
                Err(error) => Err(error),
            };
            self.over.push_back((tag, outcome));
        }
        count + self.report_completed(on_done)
    }

    /// Waits for the durability of the read-modify-writes that are complete, and reports them.
    fn report_completed(&mut self, on_done: &mut OnDone<'_>) -> usize {
        let Target { inner, entry, durability, .. } = &self.target;
        let numbers = self.over.iter().filter_map(|(_, outcome)| *outcome.as_ref().ok()?);
        let durable = inner.wait_rmw_durable(entry, numbers.max(), *durability);
        let mut count = 0;
        while let Some((tag, outcome)) = self.over.pop_front() {
            let outcome = match (&durable, outcome) {
                (Err(error), Ok(Some(seqno))) => Err(error.clone().of_applied(seqno)),
                (_, outcome) => outcome,
            };
            on_done(tag, outcome.map(Completed::Updated));
            count += 1;
        }
        count
    }
}

/// The progress of a read-modify-write.
enum Advanced {
    Done(Option<SeqNo>),
    Pending,
    Full(Update),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionRmw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(seqno) => f.debug_tuple("Done").field(seqno).finish(),
            Self::Pending => f.write_str("Pending"),
            Self::Full(_) => f.write_str("Full"),
        }
    }
}
