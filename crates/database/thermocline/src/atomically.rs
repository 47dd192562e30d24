//! Read, decide and write over several keys that are known beforehand, as one write.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use engine::Op;

use crate::database::{Db, Inner};
use crate::error::{Error, Result};
use crate::expiry::ClockReading;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;
use crate::old_values::OldValues;
use crate::rooms::{Rooms, USUAL_VALUE, in_groups};
use crate::try_write::Limits;
use crate::write::check_op;

/// The argument of the closure of [`Db::atomically`]: the declared keys, which no other thread
/// writes meanwhile.
#[derive(Debug)]
pub struct Section<'a> {
    keys: &'a [(&'a Keyspace, &'a [u8])],
    /// The clock reading that decides which values have expired, for all of it.
    moment: ClockReading,
    /// One per declared key.
    instances: &'a [Arc<KeyspaceInstance>],
    /// One per declared key: the change that the closure has made, if it has.
    writes: Vec<Option<Write>>,
    /// The values that were read for earlier runs of the closure, and the keys whose values this
    /// run needs.
    old: &'a mut OldValues,
}

/// The result of [`Db::try_atomically`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedSection<T> {
    /// The writes are made; with the result of the closure.
    Done(T),
    /// The device has to be read for a value; nothing has changed.
    NeedsRead,
    /// There is no room for the writes, or a lock of a key was not free; nothing has changed.
    NeedsRoom,
}

/// The new state of a key, in stored form.
#[derive(Debug)]
enum Write {
    Put(Vec<u8>),
    Delete,
}

impl Db {
    /// Runs `body` while no other thread writes `keys`. The writes of `body` are one atomic write,
    /// made when it returns `Ok`; if it returns an error, nothing is written. Other threads may
    /// read the old values meanwhile. `body` must not write to the database in any other way.
    ///
    /// `body` may run several times, and only its last run counts. It runs again if there was no
    /// room for its writes. It also runs again if it needs a value from the device, which is read
    /// with nothing locked: then [`Section::get`] returns [`Error::WouldWait`], which `body`
    /// returns in turn.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let names = db.keyspace("names", Default::default())?;
    /// names.put(b"a", b"1")?;
    /// let moved = db.atomically(&[(&names, b"a"), (&names, b"b")], |section| {
    ///     let Some(value) = section.get(0)? else { return Ok(false) };
    ///     section.delete(0)?;
    ///     section.put(1, value)?;
    ///     Ok(true)
    /// })?;
    /// assert!(moved);
    /// assert_eq!(names.get(b"b")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that `body` returned, and a failed read of an old value: nothing was written then.
    /// [`crate::error::Engine::KeyTooLong`] for a declared key; otherwise as [`Db::write`].
    pub fn atomically<T>(
        &self,
        keys: &[(&Keyspace, &[u8])],
        mut body: impl FnMut(&mut Section<'_>) -> Result<T>,
    ) -> Result<T> {
        let inner = &*self.inner;
        self.check_declared(keys)?;
        let mut wanted: Option<Vec<Option<Write>>> = None;
        let mut old = OldValues::default();
        loop {
            let instances = instances_of(keys)?;
            if instances.iter().any(|instance| instance.journaled) {
                inner.wait_for_journal();
            }
            let rooms = reserve(keys, &instances, wanted.as_deref())?;
            let held =
                inner.locks.many(keys.iter().map(|(space, key)| (space.entry.lock_id, *key)));
            inner.lifecycle.check_writable()?;
            if !are_filled_by(keys, &instances)? {
                continue;
            }
            let mut section = Section::new(inner, keys, &instances, &mut old);
            let outcome = body(&mut section);
            if section.old.are_missing() {
                drop((held, rooms));
                old.read_missing()?;
                continue;
            }
            let outcome = outcome?;
            let steps = section.steps()?;
            if steps.is_empty() {
                return Ok(outcome);
            }
            let Some(seqno) = in_groups(steps, |groups| inner.commit_in(groups, rooms))? else {
                wanted = Some(section.writes);
                continue;
            };
            drop(held);
            let journaled = instances.iter().any(|instance| instance.journaled);
            inner.acknowledge(seqno, journaled, self.durability)?;
            return Ok(outcome);
        }
    }

    /// [`Db::atomically`] without waiting for the device, for room, for locks of keys or for the
    /// handle's durability ([`Db::wait`] does). If it would have to wait, nothing has changed, and
    /// a thread that may wait calls [`Db::atomically`]. A [`Section::get`] that needs the device
    /// returns [`Error::WouldWait`], which `body` returns in turn.
    ///
    /// # Errors
    /// As [`Db::atomically`].
    pub fn try_atomically<T>(
        &self,
        keys: &[(&Keyspace, &[u8])],
        body: impl FnOnce(&mut Section<'_>) -> Result<T>,
    ) -> Result<TriedSection<T>> {
        let inner = &*self.inner;
        self.check_declared(keys)?;
        let places = keys.iter().map(|(space, key)| (space.entry.lock_id, *key));
        let held = inner.locks.try_many(places, Duration::ZERO);
        let Some(_held) = held else { return Ok(TriedSection::NeedsRoom) };
        inner.lifecycle.check_writable()?;
        let instances = instances_of(keys)?;
        let mut old = OldValues::default();
        let mut section = Section::new(inner, keys, &instances, &mut old);
        let outcome = body(&mut section);
        if section.old.are_missing() {
            return Ok(TriedSection::NeedsRead);
        }
        let outcome = outcome?;
        let steps = section.steps()?;
        if steps.is_empty() {
            return Ok(TriedSection::Done(outcome));
        }
        let written = in_groups(steps, |groups| inner.try_commit(groups, Limits::CALL))?;
        Ok(match written {
            Some(_) => TriedSection::Done(outcome),
            None => TriedSection::NeedsRoom,
        })
    }

    fn check_declared(&self, keys: &[(&Keyspace, &[u8])]) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        for (space, key) in keys {
            if !Arc::ptr_eq(&space.inner, &self.inner) {
                return Err(Error::NoKeyspace { name: space.name().to_owned() });
            }
            engine::check_key(key)?;
        }
        Ok(())
    }
}

fn instances_of(keys: &[(&Keyspace, &[u8])]) -> Result<Vec<Arc<KeyspaceInstance>>> {
    keys.iter().map(|(space, _)| space.entry.instance()).collect()
}

fn are_filled_by(keys: &[(&Keyspace, &[u8])], instances: &[Arc<KeyspaceInstance>]) -> Result<bool> {
    for ((space, _), instance) in keys.iter().zip(instances) {
        if !space.entry.is_filled_by(instance)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reserves room for the writes that have found none, or for a value of a usual length for each
/// key. If such values are refused, nothing is reserved: the closure may write something else.
fn reserve<'g>(
    keys: &[(&Keyspace, &[u8])],
    instances: &'g [Arc<KeyspaceInstance>],
    wanted: Option<&[Option<Write>]>,
) -> Result<Rooms<'g>> {
    let each = keys.iter().zip(instances).enumerate();
    let steps = each.filter_map(|(index, ((_, key), instance))| {
        let op = match wanted {
            Some(writes) => writes.get(index)?.as_ref()?.op(key),
            None => Op::Put { key, value: &USUAL_VALUE },
        };
        Some((&**instance, op))
    });
    match in_groups(steps.collect(), Rooms::reserve) {
        Err(_) if wanted.is_none() => Ok(Rooms::default()),
        reserved => reserved,
    }
}

impl Write {
    fn op<'a>(&'a self, key: &'a [u8]) -> Op<'a> {
        match self {
            Self::Put(value) => Op::Put { key, value },
            Self::Delete => Op::Delete { key },
        }
    }
}

impl<'a> Section<'a> {
    /// Begins a section, with its keys locked [E1 of `expiry`].
    fn new(
        inner: &Inner,
        keys: &'a [(&'a Keyspace, &'a [u8])],
        instances: &'a [Arc<KeyspaceInstance>],
        old: &'a mut OldValues,
    ) -> Self {
        let moment = ClockReading::now(&inner.options.environment);
        let writes = keys.iter().map(|_| None).collect();
        Self { keys, moment, instances, writes, old }
    }
}

impl<'a> Section<'a> {
    fn check(&self, index: usize) -> Result<()> {
        if index < self.keys.len() { Ok(()) } else { Err(Error::UndeclaredKey) }
    }

    /// The value of the declared key of this index, as this section has it.
    ///
    /// # Errors
    /// [`Error::UndeclaredKey`]; [`Error::WouldWait`] if the device has to be read first.
    pub fn get(&mut self, index: usize) -> Result<Option<Vec<u8>>> {
        self.check(index)?;
        // A key may be declared twice; the last write to it counts.
        let same = |other: usize| self.is_same_key(index, other);
        let last = (0..self.keys.len()).rev().find(|&at| same(at) && self.writes[at].is_some());
        match last.and_then(|at| self.writes[at].as_ref()) {
            Some(Write::Put(stored)) => Ok(Some(self.keys[index].0.shown(stored).to_vec())),
            Some(Write::Delete) => Ok(None),
            None => {
                let (space, key) = self.keys[index];
                let (instance, mut value) = (&self.instances[index], Vec::new());
                let found = self.old.get(instance, (space.entry.lock_id, key), &mut value)?;
                let is_there = found.ok_or(Error::WouldWait)?;
                let is_there = instance.trim_at(space.form, self.moment, is_there, &mut value)?;
                Ok(is_there.then_some(value))
            }
        }
    }

    /// Gives the declared key of this index a value.
    ///
    /// # Errors
    /// [`Error::UndeclaredKey`], [`crate::error::Engine::ValueTooLong`].
    pub fn put(&mut self, index: usize, value: Vec<u8>) -> Result<()> {
        self.check(index)?;
        let stored = match self.keys[index].0.stored(&value)? {
            Cow::Owned(stored) => Some(stored),
            Cow::Borrowed(_) => None,
        };
        self.put_stored(index, stored.unwrap_or(value))
    }

    /// Gives the declared key of this index a value that expires, as
    /// [`crate::ExpiringKeyspace::put`] does.
    ///
    /// # Errors
    /// [`Error::UndeclaredKey`], [`Error::NotExpiring`].
    pub fn put_with_expiry(&mut self, index: usize, value: &[u8], expiry_ms: u64) -> Result<()> {
        self.check(index)?;
        self.put_stored(index, self.keys[index].0.stored_with_expiry(value, expiry_ms)?)
    }

    fn put_stored(&mut self, index: usize, stored: Vec<u8>) -> Result<()> {
        engine::check_value(&stored)?;
        let (space, key) = self.keys[index];
        let write = match space.put_op_at(self.moment, key, &stored) {
            Op::Put { .. } => Write::Put(stored),
            Op::Delete { .. } | Op::DeleteRange { .. } => Write::Delete,
        };
        self.set(index, write);
        Ok(())
    }

    /// Removes the declared key of this index.
    ///
    /// # Errors
    /// [`Error::UndeclaredKey`].
    pub fn delete(&mut self, index: usize) -> Result<()> {
        self.check(index)?;
        self.set(index, Write::Delete);
        Ok(())
    }

    fn is_same_key(&self, one: usize, other: usize) -> bool {
        let (space, key) = self.keys[one];
        let (other_space, other_key) = self.keys[other];
        key == other_key && space.entry.lock_id == other_space.entry.lock_id
    }

    fn set(&mut self, index: usize, write: Write) {
        for other in 0..self.keys.len() {
            if other != index && self.is_same_key(index, other) {
                self.writes[other] = None;
            }
        }
        self.writes[index] = Some(write);
    }

    /// Returns its writes, each with its engine.
    fn steps(&self) -> Result<Vec<(&'a KeyspaceInstance, Op<'_>)>> {
        let mut steps = Vec::new();
        for (index, write) in self.writes.iter().enumerate() {
            let Some(write) = write else { continue };
            let op = write.op(self.keys[index].1);
            check_op(&op)?;
            steps.push((&*self.instances[index], op));
        }
        Ok(steps)
    }
}
