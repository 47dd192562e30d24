//! A handle to one keyspace.

use std::ops::ControlFlow;
use std::sync::Arc;

use codec::SeqNo;
use engine::{Change, Direction, Engine, InOrder, KeyRange, Op, Operator, Ranges};
use journal::Durability;

use crate::database::OpenGuard;
use crate::error::Result;
use crate::expiry::{ClockReading, ValueForm};
use crate::keyspace_entry::KeyspaceEntry;
use crate::options::KeyspaceOptions;
use crate::scan::Scan;

/// A keyspace: its own keys, in an engine of its own. Cheap to clone, `Send` and `Sync`; it keeps
/// the database open.
///
/// # Errors of all calls
///
/// A read or a write returns [`crate::Error::Closed`] once the database is closed, and
/// [`crate::Error::NoKeyspace`] once the keyspace is dropped. It returns
/// [`crate::Error::DamagedKeyspace`] if the keyspace's files were found damaged, and
/// [`crate::Error::Forked`] in a forked child. A write to a database that was opened to be read
/// returns [`crate::Error::OpenedReadOnly`]. If a write meets a failure of the storage that stops
/// writes, it returns that failure, and later writes return [`crate::Error::ReadOnly`]. That write
/// may or may not be there after the database is opened again, always as a whole.
#[derive(Clone, Debug)]
pub struct Keyspace {
    pub(crate) inner: Arc<OpenGuard>,
    pub(crate) entry: Arc<KeyspaceEntry>,
    pub(crate) durability: Durability,
    /// How values are shown and taken, if they may expire.
    pub(crate) form: ValueForm,
}

impl Keyspace {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Returns the options that it was made with, and its engine's own options as the last caller
    /// set them ([`KeyspaceOptions::settings`]). The latter are in force from the next opening on;
    /// no call returns the ones that are in force now.
    pub fn options(&self) -> KeyspaceOptions {
        match self.inner.lifecycle.check_process() {
            Ok(()) => self.entry.stored_options(),
            // Without the lock on the options that can change.
            Err(_forked) => self.entry.options,
        }
    }

    /// Returns the same keyspace by a handle whose writes wait for `durability`.
    #[must_use]
    pub fn durability(&self, durability: Durability) -> Self {
        Self { durability, ..self.clone() }
    }

    /// Returns the key's present value. Reads nothing from the device if memory has the pair.
    /// Otherwise the number of reads depends on the engine: see its page in `docs/`.
    ///
    /// # Errors
    /// [`crate::error::Engine::Corruption`] if stored bytes are damaged; device errors.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// The same, into a buffer that is used again: `false`, and the buffer in any state, if the
    /// key has no value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.inner.lifecycle.check_open()?;
        Ok(self.entry.current()?.get(self.form, key, value)?)
    }

    /// Returns whether the key has a value. Has the cost of [`Keyspace::get`]: the value is read
    /// and dropped.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let users = db.keyspace("users", Default::default())?;
    /// users.put(b"ada", b"")?;
    /// assert!(users.contains_key(b"ada")? && !users.contains_key(b"alan")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.get_into(key, &mut Vec::new())
    }

    /// The same without waiting for the device: returns `None` if it would have to wait.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn try_get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>> {
        self.inner.lifecycle.check_open()?;
        Ok(self.entry.current()?.try_get(self.form, key, value)?)
    }

    /// Returns the values of many keys, with their reads overlapped if the engine is on a disk.
    ///
    /// # Errors
    /// As [`Keyspace::get`], of any of the keys: then no value is returned.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        self.multi_get_with(keys, &mut |index, value| {
            values[index] = value.map(<[u8]>::to_vec);
        })?;
        Ok(values)
    }

    /// The same without a copy: `found` is called once for each key, in any order, with its index
    /// and its value.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `found` may already have been called for some keys.
    pub fn multi_get_with(
        &self,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        Ok(self.entry.current()?.multi_get(self.form, keys, found)?)
    }

    /// Gives `key` the value `value`. When this returns the write is visible to every later read
    /// and has reached this handle's durability.
    ///
    /// # Errors
    /// A refused write has changed nothing. [`crate::error::Engine::KeyTooLong`],
    /// [`crate::error::Engine::ValueTooLong`] and, from `f2`,
    /// [`crate::error::Engine::RecordTooLong`] refuse a pair that is too long.
    /// [`crate::error::Engine::WriteTooLarge`] refuses a pair that is larger than the keyspace's
    /// memory. [`crate::error::Engine::OutOfMemory`] means that the memory is used up, above all
    /// of a keyspace of `memory`. [`crate::error::Engine::NoSpace`] means that a keyspace of
    /// `hashkv` has reached its `disk_bytes_max`. [`crate::error::Engine::SpaceUsedUp`] means that
    /// background work fails that frees room, for example on a full device.
    ///
    /// [`crate::Error::WriteTooLarge`] refuses a pair that is longer than a record of the journal
    /// ([`crate::WRITE_BYTES_MAX`]). [`crate::Error::Journal`] with
    /// [`crate::error::Journal::NoRoom`] means that the journal has no room for another record.
    ///
    /// One error is no refusal: after [`crate::Error::NotYetDurable`] the write is applied.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<SeqNo> {
        let stored = self.stored(value)?;
        self.inner.write_one(&self.entry, self.put_op(key, &stored), self.durability)
    }

    /// Removes `key`, if it is there. A full keyspace of `memory` accepts deletes, and one of
    /// `hashkv` keeps space for them. Both also accept deletes in batches and transactions, updates
    /// that delete ([`Keyspace::rmw`]), and [`Keyspace::clear`]; `memory` also
    /// [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// As [`Keyspace::put`], except the errors of values.
    pub fn delete(&self, key: &[u8]) -> Result<SeqNo> {
        self.inner.write_one(&self.entry, Op::Delete { key }, self.durability)
    }

    /// Removes every key in `range` as one write, which later snapshots and reads see whole. Engine
    /// `lsm` notes the range, whatever is in it, and gives the space back as it compacts; `memory`
    /// removes key by key. Other writes of the database wait meanwhile.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, KeyRange, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let events = db.keyspace("events", Default::default())?;
    /// for day in ["2026-01-30", "2026-01-31", "2026-02-01"] {
    ///     events.put(day.as_bytes(), b"")?;
    /// }
    /// events.delete_range(&KeyRange::prefix(b"2026-01-"))?;
    /// assert_eq!(events.scan(KeyRange::all())?.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::error::Engine::Unordered`] from an engine that keeps no order, and
    /// [`crate::error::Engine::NoRangeDeletes`] from `flexdb` and `hashkv`; otherwise as
    /// [`Keyspace::delete`].
    pub fn delete_range(&self, range: &KeyRange) -> Result<SeqNo> {
        match range.half_open() {
            Some((start, end)) => {
                let op = Op::DeleteRange { start: &start, end: end.as_deref() };
                self.inner.write_one(&self.entry, op, self.durability)
            }
            None => {
                self.inner.lifecycle.check_writable()?;
                Ok(self.inner.order.sequence.visible())
            }
        }
    }

    /// Atomically replaces the key's value by the result of `update` for the present one. Returns
    /// the write's number, or `None` if nothing changed. `update` may be called several times; the
    /// last result counts. It must not write to the database itself.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Change, Db, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let hits = db.keyspace("hits", Default::default())?;
    /// let count = |value: Option<&[u8]>| -> u64 {
    ///     value.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    /// };
    /// for _ in 0..3 {
    ///     hits.rmw(b"page", |old| Change::Put((count(old) + 1).to_le_bytes().to_vec()))?;
    /// }
    /// assert_eq!(count(hits.get(b"page")?.as_deref()), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`] for the read of the old value: nothing has changed then. As
    /// [`Keyspace::put`] for the write of the new value.
    pub fn rmw(
        &self,
        key: &[u8],
        mut update: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>> {
        self.rmw_with(key, &mut update)
    }

    /// The same with an [`Operator`], which may also change a value in place.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn rmw_with(&self, key: &[u8], operator: &mut dyn Operator) -> Result<Option<SeqNo>> {
        self.inner.rmw(&self.entry, self.form, key, operator, self.durability)
    }

    /// Returns the pairs of `range` in key order, in their present state; later writes do not show.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, KeyRange, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let users = db.keyspace("users", Default::default())?;
    /// users.put(b"ada", b"1815")?;
    /// users.put(b"alan", b"1912")?;
    /// users.put(b"grace", b"1906")?;
    /// let names: Vec<_> = users.scan(KeyRange::prefix(b"a"))?.collect::<Result<_, _>>()?;
    /// assert_eq!(users.scan(KeyRange::prefix(b"a"))?.count(), 2);
    /// assert_eq!(names.len(), 2);
    /// assert_eq!(names[0], (b"ada".to_vec(), b"1815".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::error::Engine::Unordered`] from an engine that keeps no order: [`Keyspace::walk`]
    /// visits its pairs. Each step of the scan may fail ([`Scan::next_ref`]).
    pub fn scan(&self, range: KeyRange) -> Result<Scan> {
        self.scan_in(range, Direction::Forward)
    }

    /// The same as [`Keyspace::scan`] from the last pair to the first.
    ///
    /// # Errors
    /// As [`Keyspace::scan`].
    pub fn scan_reverse(&self, range: KeyRange) -> Result<Scan> {
        self.scan_in(range, Direction::Backward)
    }

    /// Returns the pairs of `range` in the order of `direction`.
    ///
    /// # Errors
    /// As [`Keyspace::scan`].
    pub fn scan_in(&self, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.inner.lifecycle.check_open()?;
        let instance = self.entry.instance()?;
        self.check_order(InOrder::Scan)?;
        // Before the pin [E1 of `expiry`].
        let moment = ClockReading::now(&self.inner.options.environment);
        let at = (moment, self.inner.order.sequence.pin());
        let cursor = instance.scan(self.form, at, range, direction)?;
        Ok(Scan::new(cursor, instance))
    }

    /// Returns whether it keeps its keys in order, so that it can be scanned; any keyspace can be
    /// walked.
    pub fn is_ordered(&self) -> bool {
        self.entry.options.engine.is_ordered()
    }

    /// Returns the engine's refusal of a call that needs an order, if it keeps none.
    pub(crate) fn check_order(&self, asked: InOrder) -> Result<()> {
        let engine = self.entry.options.engine;
        match engine.is_ordered() {
            true => Ok(()),
            false => Err(engine::Error::Unordered { engine: engine.name(), asked }.into()),
        }
    }

    /// Visits pairs in the engine's own order until `visit` breaks. In an ordered engine this is
    /// the order of keys. The walk starts at the beginning, or at the position of the key `from`,
    /// itself included. The key need not be there (any more), and the order stays until the
    /// keyspace is cleared. So a walk that is broken off can be begun again at the key that it had
    /// reached.
    ///
    /// A pair that is there all the while is visited exactly once. A pair that is written meanwhile
    /// is visited with one of its values, or not at all if it is added or removed. Over an ordered
    /// engine a walk is a scan, of one moment. Over `f2` it costs one read of the device for each
    /// record on disk, sequentially.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::ops::ControlFlow::{Break, Continue};
    /// use thermocline::{Db, EngineKind, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    /// let hits = db.keyspace("hits", options)?;
    /// for page in [b"a", b"b", b"c"] {
    ///     hits.put(page, b"1")?;
    /// }
    /// let (mut pages, mut rest) = (Vec::new(), None);
    /// hits.walk(None, |page, _| {
    ///     if pages.len() == 2 {
    ///         rest = Some(page.to_vec());
    ///         return Break(());
    ///     }
    ///     pages.push(page.to_vec());
    ///     Continue(())
    /// })?;
    /// hits.walk(rest.as_deref(), |page, _| {
    ///     pages.push(page.to_vec());
    ///     Continue(())
    /// })?;
    /// pages.sort();
    /// assert_eq!(pages, [b"a", b"b", b"c"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Damage or a failure of the device; earlier visits remain valid.
    pub fn walk(
        &self,
        from: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        // A reference to keep: a long walk does not hold up a thread that clears the keyspace.
        Ok(self.entry.instance()?.walk(self.form, from, &mut visit)?)
    }

    /// Returns the position of `key` in the order of [`Keyspace::walk`]: pairs come by ascending
    /// position, and by key if positions are equal (all are, in an ordered keyspace). It stays
    /// until the keyspace is cleared, whether the key is there or not. Costs a hash of the key.
    pub fn position(&self, key: &[u8]) -> Result<u64> {
        self.inner.lifecycle.check_process()?;
        Ok(self.entry.current()?.engine.position(key))
    }

    /// Writes everything that was written so far to the engine's own files, and makes it durable.
    ///
    /// # Errors
    /// The device or the memory budget has no room, or the process has too many open files. Then
    /// nothing is lost, and a later flush may succeed ([`crate::Error::is_retryable`]). After any
    /// other failure of the storage, later writes return [`crate::Error::ReadOnly`].
    pub fn flush(&self) -> Result<()> {
        self.inner.lifecycle.check_writable()?;
        let instance = self.entry.current()?;
        let flushed = self.inner.flush_with_room(&instance, || instance.engine.flush());
        flushed.map_err(|error| self.inner.lifecycle.fail(error.into()))
    }

    /// Flushes the keyspace and rewrites its files. Afterwards nothing that was deleted or
    /// overwritten in `range` before the call takes space in them, unless a snapshot or a scan
    /// shows it; the journal is trimmed. The new files are durable when it returns. Other reads and
    /// writes continue meanwhile. Engines do the same work by themselves if it frees more than it
    /// costs; see `docs/lsm.md` and `docs/flexdb.md`.
    ///
    /// `lsm` merges each level's tables that overlap with the range into the next level, one table
    /// at a time. `flexdb` commits, rewrites intervals of the range that are in pieces, and
    /// collects the whole space. `hashkv` compacts the range of its index and collects the garbage
    /// of all keys. `memory` writes a snapshot of the whole keyspace. `f2` keeps no order and takes
    /// only the range of all keys; it does the compactions that are due. Costs reads and writes of
    /// up to all bytes of the range on each level.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, EngineKind, KeyRange, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { engine: EngineKind::Lsm, ..Default::default() };
    /// let events = db.keyspace("events", options)?;
    /// for day in 0..100_u32 {
    ///     events.put(&day.to_be_bytes(), &[7; 1000])?;
    /// }
    /// db.flush()?;
    /// let before = events.approximate_bytes(&KeyRange::all())?;
    /// for day in 0..100_u32 {
    ///     events.delete(&day.to_be_bytes())?;
    /// }
    /// events.compact_range(&KeyRange::all())?;
    /// assert!(before > 0 && events.approximate_bytes(&KeyRange::all())? == 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::error::Engine::Unordered`] for a part of the keys of a keyspace of `f2`;
    /// [`crate::error::Engine::NoRanges`] from an engine that has no compaction on demand;
    /// otherwise as [`Keyspace::flush`]. An error leaves the files that were rewritten before it.
    pub fn compact_range(&self, range: &KeyRange) -> Result<()> {
        self.inner.lifecycle.check_writable()?;
        let instance = self.entry.instance()?;
        let compacted = ranges(&*instance.engine)?.compact(range);
        compacted.map_err(|error| match error.is_refused() {
            true => error.into(),
            false => self.inner.lifecycle.fail(error.into()),
        })?;
        self.inner.trim_journal()
    }

    /// Estimates the bytes that `range` takes in the keyspace's own files. Writes that no flush has
    /// written yet do not count. `lsm` sums its tables, those at the ends of the range by their
    /// indexes; `flexdb` sums intervals by the index in memory; `hashkv` adds to the range's part
    /// of its index the same part of the bytes of all segments; `memory` visits the keys of the
    /// range, and sums the bytes of their pairs; `f2` takes only the range of all keys, and returns
    /// the bytes of its files. Dead bytes count in `lsm`, `hashkv` and `f2`.
    ///
    /// # Errors
    /// [`crate::error::Engine::Unordered`] for a part of the keys of a keyspace of `f2`; damage or
    /// a failure of the device.
    pub fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        self.inner.lifecycle.check_open()?;
        let instance = self.entry.instance()?;
        Ok(ranges(&*instance.engine)?.approximate_bytes(range)?)
    }

    /// Removes every pair in one step, at a cost that does not depend on their number. Durable when
    /// this returns, together with everything written before. Snapshots keep their pairs. Files are
    /// removed immediately, unless a [`crate::Session`] or a scan keeps them; the journal's files
    /// too, as far as no other keyspace needs them. Waits for a backup or a checkpoint that copies
    /// the database.
    ///
    /// # Errors
    /// Those of every write, and failures of the device, a lack of room among them.
    pub fn clear(&self) -> Result<()> {
        self.inner.clear(&self.entry)
    }

    /// Returns the number of live keys, if the engine counts them; cheap. Keys whose values have
    /// expired count until they are removed.
    pub fn live_keys(&self) -> Result<Option<u64>> {
        self.inner.lifecycle.check_process()?;
        let instance = self.entry.current()?;
        let counts = instance.engine.capabilities().counts_keys;
        Ok(if counts { instance.engine.stats().live_keys } else { None })
    }

    /// Returns the figures of this keyspace's engine. May visit all of the engine's data in memory.
    pub fn stats(&self) -> Result<engine::Stats> {
        self.inner.lifecycle.check_process()?;
        Ok(self.entry.current()?.engine.stats())
    }
}

/// Returns an engine's part for ranges on its device.
fn ranges(engine: &dyn Engine) -> Result<&dyn Ranges> {
    engine.ranges().ok_or_else(|| {
        let engine = engine.capabilities().name;
        engine::Error::NoRanges { engine }.into()
    })
}
