//! One moment of the whole database.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use device::OfProcess;
use engine::{Direction, InOrder, KeyRange, Pin};

use crate::database::{Db, Inner, OpenGuard};
use crate::error::{Error, Result};
use crate::expiry::ClockReading;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::scan::Scan;

/// A view of all ordered keyspaces at one moment. It has every write acknowledged before it was
/// taken and no part of one that was not finished. While it lives it holds back old versions. The
/// clock is stopped for it, too: a value that had not expired when it was taken stays in it.
#[derive(Debug)]
pub struct Snapshot {
    inner: Arc<OpenGuard>,
    pinned: OfProcess<PinnedEngines>,
}

impl Db {
    /// Takes a snapshot of every ordered keyspace. Keyspaces that keep no order are not in it, and
    /// reading them by it is refused. Waits for the writes that are being applied.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let words = db.keyspace("words", Default::default())?;
    /// words.put(b"a", b"old")?;
    /// let snapshot = db.snapshot()?;
    /// words.put(b"a", b"new")?;
    /// assert_eq!(snapshot.get(&words, b"a")?.as_deref(), Some(&b"old"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`]. A database that is read-only takes snapshots, too.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.inner.lifecycle.check_open()?;
        let ordered = |entry: &KeyspaceEntry| entry.options.engine.is_ordered();
        let pinned = OfProcess::new(self.inner.pin_engines(ordered)?);
        Ok(Snapshot { inner: Arc::clone(&self.inner), pinned })
    }
}

/// Engines of keyspaces, all in their state at one moment.
#[derive(Debug)]
pub(crate) struct PinnedEngines {
    pub(crate) pin: Arc<Pin>,
    /// The clock reading that decides which values have expired.
    pub(crate) moment: ClockReading,
    /// By the entry's lock id, which is a keyspace's for life.
    pub(crate) instances: Vec<(u32, Arc<KeyspaceInstance>)>,
}

impl Inner {
    /// Pins the present, and the engines that fill the entries that are `wanted`. Waits for the
    /// writes that are being applied, with nothing locked. Such a write may wait for a task of the
    /// pool, which reads the entries as well, and which would wait behind a thread that wants to
    /// change them.
    pub(crate) fn pin_engines(
        &self,
        wanted: impl Fn(&KeyspaceEntry) -> bool,
    ) -> Result<PinnedEngines> {
        let present = || -> Vec<(u32, Arc<KeyspaceInstance>)> {
            let entries = self.keyspaces.entries.read();
            let wanted = entries.values().filter(|entry| wanted(entry));
            wanted.map(|entry| (entry.lock_id, entry.last_instance())).collect()
        };
        let mut instances = present();
        loop {
            self.lifecycle.check_open()?;
            // Before the pin [E1 of `expiry`].
            let moment = ClockReading::now(&self.options.environment);
            let pin = self.order.sequence.pin();
            let after = present();
            // An engine that was there before and after was there at the pin: none of them returns.
            let is_same = |((_, one), (_, other)): (&(_, Arc<_>), &(_, _))| Arc::ptr_eq(one, other);
            if after.len() == instances.len() && after.iter().zip(&instances).all(is_same) {
                return Ok(PinnedEngines { pin, moment, instances });
            }
            instances = after;
        }
    }
}

impl Snapshot {
    /// Returns the newest write that it shows.
    pub fn seqno(&self) -> SeqNo {
        self.pinned.pin.seqno()
    }

    fn instance(&self, keyspace: &Keyspace, asked: InOrder) -> Result<&Arc<KeyspaceInstance>> {
        self.inner.lifecycle.check_open()?;
        let lock_id = keyspace.entry.lock_id;
        let found = self.pinned.instances.iter().find(|(id, _)| *id == lock_id);
        let missing = || Error::NoKeyspace { name: keyspace.name().to_owned() };
        if !Arc::ptr_eq(&keyspace.inner, &self.inner) {
            return Err(missing());
        }
        match found {
            Some((_, instance)) => Ok(instance),
            None => Err(keyspace.check_order(asked).err().unwrap_or_else(missing)),
        }
    }

    /// Returns the key's value at that moment.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`] if the keyspace was made later; [`crate::error::Engine::Unordered`] if
    /// it keeps no order; [`Error::Closed`]; damage or a failure of the device.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let instance = self.instance(keyspace, InOrder::Snapshot)?;
        let PinnedEngines { pin, moment, .. } = &*self.pinned;
        let is_there = instance.get_pinned(keyspace.form, (*moment, pin), key, &mut value)?;
        Ok(is_there.then_some(value))
    }

    /// Returns the pairs of `range` at that moment, in order.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan(&self, keyspace: &Keyspace, range: KeyRange) -> Result<Scan> {
        self.scan_in(keyspace, range, Direction::Forward)
    }

    /// The same in the order of `direction`.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan_in(
        &self,
        keyspace: &Keyspace,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        let instance = self.instance(keyspace, InOrder::Scan)?;
        let PinnedEngines { pin, moment, .. } = &*self.pinned;
        let at = (*moment, Arc::clone(pin));
        let cursor = instance.scan(keyspace.form, at, range, direction)?;
        Ok(Scan::new(cursor, Arc::clone(instance)))
    }
}
