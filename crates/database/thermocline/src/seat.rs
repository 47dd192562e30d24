//! A thread's seat at one keyspace: gets and read-modify-writes, many of them under way at once.
//!
//! 1. What memory can answer is done at once, as a blocking call does it.
//! 2. Otherwise the engine's seat looks the value up, and no lock is held meanwhile.
//! 3. Told of the value, a get is over. A read-modify-write goes on with it under its key's lock, unless
//!    another write of the key came first: then it begins anew ([`crate::rmw`]).
//! 4. A user that has an operator of its own may have old values looked up alone, and go on with them
//!    when it is told ([`Looked`]).
//! 5. What was committed meanwhile is waited for once, all of it together, and then told.
//!
//! # Invariants
//! - T1. What is pending has changed nothing, but for what was committed within the call of
//!   [`Seat::complete`] under way; that is told as soon as it has reached the durability of the handle.
//! - T2. No lock is held while anybody is told of anything.
//! - T3. Everything is told once, unless it is given up; a panic, of who is told or of an operator,
//!   loses that one operation. What was committed before it is told by the next call.

pub(crate) mod desk;
mod future;
mod looked;
mod many;
pub(crate) mod pool;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use codec::SeqNo;
use device::{Doorbell, OfProcess};
use engine::{Begun, BegunOld, Listener, Old, Operator, Seat as EngineSeat};
use journal::Durability;

use crate::database::{Inner, Opened};
use crate::error::{Error, Result};
use crate::expiry::{Form, Moment};
use crate::keyspace::Keyspace;
use crate::rmw::Tried;
use crate::slot::{Generation, Slot};

pub use future::AsyncGet;
pub use looked::Looked;
pub use many::AsyncMultiGet;

/// A thread's seat at one [`Keyspace`]: operations that need the device overlap, so that one thread
/// keeps it busy. An engine in memory answers all of them at once.
///
/// Each get is linearizable: what it tells is what the key had at some moment between
/// [`Seat::begin_get`] and [`Seat::complete`]. Each read-modify-write is atomic, as
/// [`Keyspace::rmw_with`] is, and takes place at some moment between. Those that are pending beside each
/// other take place in any order, also those of one key. Dropping the seat gives up what is pending,
/// which has changed nothing, and waits for what the device has in hand. A seat keeps the engine that it
/// was last used with, and that engine's memory and files, also when the keyspace is cleared or
/// dropped ([`Seat::is_outdated`]).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use thermocline::{Begun, BegunRmw, Change, Completed, Db, EngineKind, KeyspaceOptions, Options};
/// let db = Db::open(dir.path(), Options::default())?;
/// let options = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
/// let years = db.keyspace("years", options)?;
/// years.put(b"ada", b"1815")?;
/// let mut seat = years.seat(64)?;
/// let (mut value, mut told) = (Vec::new(), Vec::new());
/// for (tag, name) in [b"ada", b"bob"].into_iter().enumerate() {
///     match seat.begin_get(tag as u64, name, &mut value)? {
///         Begun::Found => told.push((tag as u64, value.clone())),
///         Begun::Absent => {}
///         Begun::Pending => {} // told of below
///         Begun::Full => unreachable!("two of 64"),
///     }
/// }
/// let century = |year: Option<&[u8]>| match year {
///     Some(year) => Change::Put(year[..2].to_vec()),
///     None => Change::Keep,
/// };
/// match seat.begin_rmw(2, b"ada", Box::new(century))? {
///     BegunRmw::Done(seqno) => assert!(seqno.is_some()),
///     BegunRmw::Pending => {} // told of below
///     BegunRmw::Full(_) => unreachable!("three of 64"),
/// }
/// while seat.pending() > 0 {
///     seat.complete(true, &mut |tag, outcome| match outcome {
///         Ok(Completed::Value(Some(value))) => told.push((tag, value.to_vec())),
///         Ok(Completed::Value(None)) => {}
///         Ok(Completed::Updated(seqno)) => assert!(seqno.is_some()),
///         Ok(Completed::Old(_)) => unreachable!("nobody asked with begin_old"),
///         Err(error) => panic!("{error}"),
///     })?;
/// }
/// assert_eq!(told, [(0, b"1815".to_vec())]);
/// assert_eq!(years.get(b"ada")?.as_deref(), Some(&b"18"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Seat {
    /// Keeps the database open; none for who must not.
    _open: Option<Arc<Opened>>,
    target: Target,
    depth: usize,
    place: OfProcess<Place>,
    /// Rung by the queues of the places.
    bell: Option<Arc<Doorbell>>,
    /// Whose old values are looked up, by the tags of the look-ups.
    updates: HashMap<u64, Whose>,
    /// The tags of gets of values that may have ended, and the clock when they began, by the tags of the
    /// look-ups.
    gets: HashMap<u64, (u64, Moment)>,
    look_ups: u64,
    /// Whose keys others have written first.
    overtaken: VecDeque<(Vec<u8>, Update)>,
    /// Read-modify-writes that are over, and not told yet.
    over: VecDeque<Over>,
    /// The failure of the device's queue that ended the seat.
    failure: Option<Error>,
}

/// What a seat is at, without keeping it open.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) inner: Arc<Inner>,
    pub(crate) slot: Arc<Slot>,
    /// What [`Seat::complete`] waits for before it tells.
    pub(crate) durability: Durability,
    pub(crate) form: Form,
}

/// How a read-modify-write began.
pub enum BegunRmw {
    /// It is done, visible to all, and has reached the handle's durability. With its number, or none if
    /// it changed nothing.
    Done(Option<SeqNo>),
    /// The device is asked; [`Seat::complete`] will tell.
    Pending,
    /// As many are under way as there may be, and this one needs the device: here is the operator back.
    Full(Box<dyn Operator + Send>),
}

/// What a pending operation has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<'a> {
    /// A get's: the key's value, where it lies, if it had one.
    Value(Option<&'a [u8]>),
    /// A read-modify-write's: its number, or none if it changed nothing.
    Updated(Option<SeqNo>),
    /// What [`Seat::begin_old`] asked for.
    Old(Looked<'a>),
}

/// Who is told of each pending operation that is over: by its tag.
pub type Told<'a> = dyn FnMut(u64, Result<Completed<'_>>) + 'a;

/// Who wants to know an old value.
enum Whose {
    /// A read-modify-write of the seat's own.
    Update(Update),
    /// The user of the seat, by the tag.
    User(u64),
}

/// A read-modify-write that is not over.
struct Update {
    tag: u64,
    form: Form,
    operator: Box<dyn Operator + Send>,
}

/// A read-modify-write that is over: its tag, and what it came to.
type Over = (u64, Result<Option<SeqNo>>);

/// A seat in the engine that filled the keyspace when it was taken, which it keeps.
struct Place {
    /// None in an engine that does everything at once.
    seat: Option<Box<dyn EngineSeat>>,
    generation: Arc<Generation>,
}

impl Place {
    fn new(generation: Arc<Generation>, depth: usize) -> Result<Self> {
        Ok(Self { seat: generation.engine.seat(depth)?, generation })
    }
}

impl Keyspace {
    /// A seat for gets and read-modify-writes, of which up to `depth`, at least one, are under way at
    /// once.
    ///
    /// # Errors
    /// The device has no queue left; the database is closed.
    pub fn seat(&self, depth: usize) -> Result<Seat> {
        let Self { inner, slot, durability, form } = self.clone();
        let target = Target { inner: Arc::clone(&inner.0), slot, durability, form };
        Seat::new(Some(inner), target, depth)
    }
}

impl Seat {
    /// A seat for who closes the database in the end, which it does not keep open.
    ///
    /// # Errors
    /// As [`Keyspace::seat`].
    pub(crate) fn unheld(target: Target, depth: usize) -> Result<Self> {
        Self::new(None, target, depth)
    }

    fn new(open: Option<Arc<Opened>>, target: Target, depth: usize) -> Result<Self> {
        target.inner.check_open()?;
        let place = OfProcess::new(Place::new(target.slot.generation()?, depth)?);
        let (bell, updates, gets, look_ups, overtaken, over, failure) = Default::default();
        Ok(Self {
            _open: open,
            target,
            depth,
            place,
            bell,
            updates,
            gets,
            look_ups,
            overtaken,
            over,
            failure,
        })
    }

    /// Reads `key`; the value replaces what is in `into` if it is known at once. Never waits for the
    /// device. [`Begun::Full`] also if the keyspace was cleared and something from before is pending.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; nothing is pending then.
    pub fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        self.target.inner.check_open()?;
        if !self.is_current()? {
            return Ok(Begun::Full);
        }
        let Place { seat, generation } = &mut *self.place;
        let form = self.target.form;
        let Some(seat) = seat else {
            let is_there = generation.get(form, key, into)?;
            return Ok(if is_there { Begun::Found } else { Begun::Absent });
        };
        let Some(moment) = generation.moment(form) else {
            return Ok(generation.placed(seat.begin_get(tag, key, into))?);
        };
        Ok(match generation.placed(seat.begin_get(self.look_ups, key, into))? {
            Begun::Found if !moment.trim(into)? => Begun::Absent,
            Begun::Pending => {
                self.gets.insert(self.look_ups, (tag, moment));
                self.look_ups += 1;
                Begun::Pending
            }
            begun => begun,
        })
    }

    /// Atomically replaces the key's value by what `operator` makes of it, as [`Keyspace::rmw_with`]
    /// does: at once where memory knows the old value, and then it waits for what a
    /// [`Keyspace::put`] waits for, the durability too. Pending where the old value is on disk, and
    /// then another operation of the same key may come first. [`BegunRmw::Full`] as
    /// [`Seat::begin_get`] says.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; nothing is pending then, and the operator is gone.
    pub fn begin_rmw(
        &mut self,
        tag: u64,
        key: &[u8],
        operator: Box<dyn Operator + Send>,
    ) -> Result<BegunRmw> {
        let begun = self.begin_unsettled(tag, key, self.target.form, operator)?;
        let BegunRmw::Done(seqno) = begun else { return Ok(begun) };
        let Target { inner, slot, durability, .. } = &self.target;
        inner.settle_rmw(slot, seqno, *durability).map(BegunRmw::Done)
    }

    /// The same with an operator of values in a form of its own; what is done has not reached the handle's
    /// durability.
    pub(crate) fn begin_unsettled(
        &mut self,
        tag: u64,
        key: &[u8],
        form: Form,
        operator: Box<dyn Operator + Send>,
    ) -> Result<BegunRmw> {
        Ok(match self.advance(key, Update { tag, form, operator })? {
            Advanced::Done(seqno) => BegunRmw::Done(seqno),
            Advanced::Pending => BegunRmw::Pending,
            Advanced::Full(update) => BegunRmw::Full(update.operator),
        })
    }

    /// Looks up the value that a read-modify-write of `key` is to change, after
    /// [`Keyspace::try_rmw`] could not do it, and reports it as [`Completed::Old`]. Never waits for
    /// the device. [`BegunOld::Full`] as [`Seat::begin_get`] says.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; nothing is pending then.
    pub fn begin_old(&mut self, tag: u64, key: &[u8]) -> Result<BegunOld> {
        self.target.inner.check_open()?;
        if !self.is_current()? {
            return Ok(BegunOld::Full);
        }
        if self.place.seat.is_none() {
            return Ok(BegunOld::AtOnce);
        }
        self.look_up(key, Whose::User(tag)).map(|(begun, _)| begun)
    }

    /// Has `bell` rung from now on whenever [`Seat::complete`] may have something to tell of what was
    /// begun before its last call: for a thread that waits for other things too. It may be rung for
    /// nothing.
    ///
    /// # Errors
    /// The device's queue failed.
    ///
    /// # Panics
    /// If something is pending.
    pub fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        assert_eq!(self.pending(), 0, "the bell is hung up first");
        self.target.inner.check_process()?;
        if let Some(seat) = &mut self.place.seat {
            seat.ring(bell)?;
        }
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }

    /// Goes on with what is pending, and tells `told` of each operation that is over. Where `waits`,
    /// does not return before there was one, if any is pending. Answers how many there were.
    ///
    /// # Errors
    /// The device's queue failed, or the database is closed. The seat has ended then: the error is
    /// returned once, nothing is pending any more, and each operation that begins later gets the
    /// error. A failure of one operation is reported for that one alone; a read-modify-write has
    /// changed nothing then, unless the journal failed.
    pub fn complete(&mut self, waits: bool, told: &mut Told<'_>) -> Result<usize> {
        self.target.inner.check_process()?;
        // What a panic has left [T3].
        self.restart_overtaken();
        let mut count = self.tell_over(told);
        loop {
            let gets = self.go_on(waits && count == 0, told);
            self.restart_overtaken();
            count += self.tell_over(told);
            count += gets.inspect_err(|error| self.failure = Some(error.clone()))?;
            if !waits || count > 0 || self.pending() == 0 {
                return Ok(count);
            }
        }
    }

    /// Operations that are pending.
    pub fn pending(&self) -> usize {
        let seat = self.place.seat.as_ref().filter(|_| self.failure.is_none());
        let looked_up = seat.map_or(0, |seat| seat.pending());
        looked_up + self.overtaken.len() + self.over.len()
    }

    /// Whether the keyspace was cleared or dropped since the seat was last used. With nothing
    /// pending, the next use moves the seat, and dropping it lets go of the old engine: the last
    /// one to do so closes that, which may take its time, and removes its files.
    pub fn is_outdated(&self) -> bool {
        let current = self.target.slot.current();
        !current.is_ok_and(|current| Arc::ptr_eq(&*current, &self.place.generation))
    }

    /// Whether the seat is in the engine that fills the keyspace now; it moves there if nothing is
    /// pending.
    fn is_current(&mut self) -> Result<bool> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let is_current = Arc::ptr_eq(&*self.target.slot.current()?, &self.place.generation);
        if !is_current && self.pending() == 0 {
            let mut place = Place::new(self.target.slot.generation()?, self.depth)?;
            if let (Some(seat), Some(bell)) = (&mut place.seat, &self.bell) {
                seat.ring(bell)?;
            }
            self.place = OfProcess::new(place);
            return Ok(true);
        }
        Ok(is_current)
    }

    /// A read-modify-write up to its end, or to where its old value is looked up.
    fn advance(&mut self, key: &[u8], mut update: Update) -> Result<Advanced> {
        loop {
            let Target { inner, slot, .. } = &self.target;
            let tried = inner.rmw_at_once(slot, update.form, key, &mut *update.operator)?;
            if let Tried::Done(seqno) = tried {
                return Ok(Advanced::Done(seqno));
            }
            if !self.is_current()? {
                return Ok(Advanced::Full(update));
            }
            update = match self.look_up(key, Whose::Update(update))? {
                (BegunOld::Pending, _) => return Ok(Advanced::Pending),
                (BegunOld::Full, Some(Whose::Update(update))) => {
                    return Ok(Advanced::Full(update));
                }
                (BegunOld::AtOnce, Some(Whose::Update(update))) => update,
                _ => unreachable!("who is not pending is handed back"),
            };
        }
    }

    /// Begins to look an old value up; who wants it comes back if it is not pending.
    fn look_up(&mut self, key: &[u8], whose: Whose) -> Result<(BegunOld, Option<Whose>)> {
        let Place { seat, generation } = &mut *self.place;
        let Some(seat) = seat else {
            unreachable!("an engine without seats does everything at once")
        };
        let begun = generation.placed(seat.begin_old(self.look_ups, key))?;
        if begun != BegunOld::Pending {
            return Ok((begun, Some(whose)));
        }
        self.updates.insert(self.look_ups, whose);
        self.look_ups += 1;
        Ok((begun, None))
    }

    /// Goes on with the look-ups that have ended. Answers of how many their user was told.
    fn go_on(&mut self, waits: bool, told: &mut Told<'_>) -> Result<usize> {
        if self.failure.is_some() {
            return Ok(0);
        }
        let Self { target, place, updates, gets: begun, overtaken, over, .. } = self;
        let Place { seat, generation } = &mut **place;
        let Some(seat) = seat else { return Ok(0) };
        let gets = 0;
        let mut ended = Ended { target, generation, updates, begun, overtaken, over, told, gets };
        generation.placed(seat.complete(waits, &mut ended))?;
        Ok(ended.gets)
    }

    /// Begins those anew whose keys others have written first: most of them find the value in memory.
    fn restart_overtaken(&mut self) {
        while let Some((key, update)) = self.overtaken.pop_front() {
            let tag = update.tag;
            let outcome = match self.advance(&key, update) {
                Ok(Advanced::Pending) => continue,
                Ok(Advanced::Done(seqno)) => Ok(seqno),
                // The keyspace was cleared in the meantime, and others are pending in what it was.
                Ok(Advanced::Full(mut update)) => {
                    let Target { inner, slot, durability, .. } = &self.target;
                    inner.rmw(slot, update.form, &key, &mut *update.operator, *durability)
                }
                Err(error) => Err(error),
            };
            self.over.push_back((tag, outcome));
        }
    }

    /// Waits for the durability of the read-modify-writes that are over, and tells of them.
    fn tell_over(&mut self, told: &mut Told<'_>) -> usize {
        let Target { inner, slot, durability, .. } = &self.target;
        let numbers = self.over.iter().filter_map(|(_, outcome)| *outcome.as_ref().ok()?);
        let settled = inner.settle_rmw(slot, numbers.max(), *durability);
        let mut count = 0;
        while let Some((tag, outcome)) = self.over.pop_front() {
            let outcome = match &settled {
                Err(error) if matches!(outcome, Ok(Some(_))) => Err(error.clone()),
                _ => outcome,
            };
            told(tag, outcome.map(Completed::Updated));
            count += 1;
        }
        count
    }
}

/// How far a read-modify-write came.
enum Advanced {
    Done(Option<SeqNo>),
    Pending,
    Full(Update),
}

/// What becomes of the look-ups of a seat that end.
struct Ended<'a, 't> {
    target: &'a Target,
    generation: &'a Arc<Generation>,
    updates: &'a mut HashMap<u64, Whose>,
    begun: &'a mut HashMap<u64, (u64, Moment)>,
    overtaken: &'a mut VecDeque<(Vec<u8>, Update)>,
    over: &'a mut VecDeque<Over>,
    told: &'a mut Told<'t>,
    gets: usize,
}

impl Listener for Ended<'_, '_> {
    fn value(&mut self, tag: u64, value: engine::Result<Option<&[u8]>>) {
        self.gets += 1;
        // Those that do not depend on the clock have their users' tags.
        let (tag, value) = match self.begun.remove(&tag) {
            Some((tag, moment)) => (tag, value.and_then(|stored| moment.show(stored))),
            None => (tag, value),
        };
        let value = self.generation.placed(value);
        (self.told)(tag, value.map(Completed::Value).map_err(Error::from));
    }

    fn old(&mut self, tag: u64, old: engine::Result<Old<'_>>) {
        let Some(whose) = self.updates.remove(&tag) else {
            unreachable!("the engine tells of what was looked up, once")
        };
        let old = self.generation.placed(old);
        let mut update = match whose {
            Whose::Update(update) => update,
            Whose::User(tag) => {
                self.gets += 1;
                let (target, generation) = (self.target, self.generation);
                let looked = old.map(|old| Completed::Old(Looked { target, generation, old }));
                return (self.told)(tag, looked.map_err(Error::from));
            }
        };
        let Target { inner, slot, .. } = self.target;
        let (form, operator) = (update.form, &mut *update.operator);
        let outcome = match old {
            Err(error) => Err(Error::from(error)),
            Ok(old) => match inner.rmw_of_old(slot, form, self.generation, &old, operator) {
                Ok(Tried::Done(seqno)) => Ok(seqno),
                Ok(Tried::NeedsDevice | Tried::MustWait) => {
                    self.overtaken.push_back((old.key.to_vec(), update));
                    return;
                }
                Err(error) => Err(error),
            },
        };
        self.over.push_back((update.tag, outcome));
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl fmt::Debug for BegunRmw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(seqno) => f.debug_tuple("Done").field(seqno).finish(),
            Self::Pending => f.write_str("Pending"),
            Self::Full(_) => f.write_str("Full"),
        }
    }
}
