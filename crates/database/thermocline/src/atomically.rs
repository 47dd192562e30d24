//! Read, decide and write over several keys that are known beforehand, as one write.

use std::borrow::Cow;
use std::sync::Arc;

use codec::SeqNo;
use engine::Op;

use crate::database::{Db, Inner};
use crate::error::{Error, Result};
use crate::expiry::Moment;
use crate::keyspace::Keyspace;
use crate::slot::Generation;
use crate::write::{check_op, in_parts};

/// The argument of the closure of [`Db::atomically`]: the declared keys, which no other thread
/// writes meanwhile.
#[derive(Debug)]
pub struct Section<'a> {
    inner: &'a Inner,
    keys: &'a [(&'a Keyspace, &'a [u8])],
    /// By which values have ended or have not, for all of it.
    moment: Moment,
    /// One per declared key.
    generations: Vec<Arc<Generation>>,
    /// One per declared key: what the closure made of it, if it did.
    writes: Vec<Option<Write>>,
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
    pub fn atomically<T>(
        &self,
        keys: &[(&Keyspace, &[u8])],
        body: impl FnOnce(&mut Section<'_>) -> Result<T>,
    ) -> Result<T> {
        let inner = &*self.inner;
        inner.check_open()?;
        for (space, key) in keys {
            if !Arc::ptr_eq(&space.inner, &self.inner) {
                return Err(Error::NoKeyspace { name: space.name().to_owned() });
            }
            engine::check_key(key)?;
        }
        for (space, key) in keys {
            inner.wait_like_a_write(&space.slot, key)?;
        }
        let held = inner.locks.many(keys.iter().map(|(space, key)| (space.slot.lock_id, *key)));
        let generations =
            keys.iter().map(|(space, _)| space.slot.generation()).collect::<Result<_>>()?;
        let writes = keys.iter().map(|_| None).collect();
        // With the keys locked [E1 of `expiry`].
        let moment = Moment::now(&inner.options.environment);
        let mut section = Section { inner, keys, moment, generations, writes };
        let outcome = body(&mut section)?;
        let written = section.commit()?;
        drop(held);
        if let Some(seqno) = written {
            inner.settle(seqno, section.is_journaled(), self.durability)?;
        }
        Ok(outcome)
    }
}

impl Section<'_> {
    fn check(&self, index: usize) -> Result<()> {
        if index < self.keys.len() { Ok(()) } else { Err(Error::UndeclaredKey) }
    }

    /// The value of the declared key of this index, as this section has it.
    ///
    /// # Errors
    /// [`Error::UndeclaredKey`].
    pub fn get(&self, index: usize) -> Result<Option<Vec<u8>>> {
        self.check(index)?;
        // A key may be declared twice; the last write to it counts.
        let same = |other: usize| self.is_same_key(index, other);
        let last = (0..self.keys.len()).rev().find(|&at| same(at) && self.writes[at].is_some());
        match last.and_then(|at| self.writes[at].as_ref()) {
            Some(Write::Put(stored)) => Ok(Some(self.keys[index].0.shown(stored).to_vec())),
            Some(Write::Delete) => Ok(None),
            None => {
                let (space, key) = self.keys[index];
                let (generation, mut value) = (&self.generations[index], Vec::new());
                let is_there = generation.get_at(space.form, self.moment, key, &mut value)?;
                Ok(is_there.then_some(value))
            }
        }
    }

    /// Gives the declared key of this index a value.
    pub fn put(&mut self, index: usize, value: Vec<u8>) -> Result<()> {
        self.check(index)?;
        let stored = match self.keys[index].0.stored(&value)? {
            Cow::Owned(stored) => Some(stored),
            Cow::Borrowed(_) => None,
        };
        self.put_stored(index, stored.unwrap_or(value))
    }

    /// Gives the declared key of this index a value that ends, as [`Keyspace::put_until`] does.
    ///
    /// # Errors
    /// [`Error::UndeclaredKey`], [`Error::NoEnds`].
    pub fn put_until(&mut self, index: usize, value: &[u8], end_ms: u64) -> Result<()> {
        self.check(index)?;
        self.put_stored(index, self.keys[index].0.stored_until(value, end_ms)?)
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
    pub fn delete(&mut self, index: usize) -> Result<()> {
        self.check(index)?;
        self.set(index, Write::Delete);
        Ok(())
    }

    fn is_same_key(&self, one: usize, other: usize) -> bool {
        let (space, key) = self.keys[one];
        let (other_space, other_key) = self.keys[other];
        key == other_key && space.slot.lock_id == other_space.slot.lock_id
    }

    fn set(&mut self, index: usize, write: Write) {
        for other in 0..self.keys.len() {
            if other != index && self.is_same_key(index, other) {
                self.writes[other] = None;
            }
        }
        self.writes[index] = Some(write);
    }

    fn is_journaled(&self) -> bool {
        self.generations.iter().any(|generation| generation.journaled)
    }

    fn commit(&self) -> Result<Option<SeqNo>> {
        let mut steps = Vec::new();
        for (index, write) in self.writes.iter().enumerate() {
            let key = self.keys[index].1;
            let op = match write {
                Some(Write::Put(value)) => Op::Put { key, value },
                Some(Write::Delete) => Op::Delete { key },
                None => continue,
            };
            check_op(&op)?;
            steps.push((&*self.generations[index], op));
        }
        if steps.is_empty() {
            return Ok(None);
        }
        in_parts(steps, |parts| self.inner.commit(parts)).map(Some)
    }
}
