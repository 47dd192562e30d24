//! A store that is a plain map under a lock, and that a test can make fail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use thermocline::Doorbell;
use thermocline::SeqNo;
use thermocline::sync::locks::{Condvar, Mutex};

use super::cold::Cold;
use crate::store::session::StoreSession;
use crate::store::{Change, DbIndex, Durable, Found, Step, Store, StoreError, Visit};

pub(super) type Map = BTreeMap<(DbIndex, Vec<u8>), Vec<u8>>;

/// The map, and a record of the calls.
#[derive(Default)]
pub(crate) struct MapStore {
    pub(super) map: Arc<Mutex<Map>>,
    numbers: Arc<Numbers>,
    /// Keys whose values only a lookup finds.
    pub(super) cold: Arc<Cold>,
    /// The largest number that a caller has waited for.
    pub(super) waited: AtomicU64,
    /// From now on no write becomes durable, and once that was noticed none is taken.
    pub(super) broken: AtomicBool,
    /// Writes are refused for now, like writes of an engine without room.
    pub(super) refuses_writes: AtomicBool,
    is_hashed: AtomicBool,
    /// Bytes that one write may bring; 0 is without limit.
    pub(super) write_room: AtomicU64,
    /// The most keys in one call.
    pub(super) asked_at_once: AtomicU64,
    /// The device: a walk, a read of several keys or of a cold one, a clearing, a save and the
    /// figures wait while a test has this.
    pub(super) walking: Mutex<()>,
    /// A save waits while a test has this.
    pub(super) saving: Mutex<()>,
    /// Databases that have to be made before something is written to them.
    pub(super) absent: Mutex<BTreeSet<DbIndex>>,
    pub(super) reads: Reads,
    pub(super) room: Arc<Rooms>,
    /// A write of several keys waits after each of them while a test has this.
    pub(super) writing: Mutex<()>,
    /// Keys that event loops have asked for or changed, and bytes of values that they got.
    pub(super) keys_on_loops: AtomicU64,
    pub(super) bytes_on_loops: AtomicU64,
    /// Pairs that walks have met, in all, and in the one that met the most.
    pub(super) met: AtomicU64,
    pub(super) met_by_one: AtomicU64,
}

/// The reads of several keys, which can be made to wait when they have read.
#[derive(Default)]
pub(super) struct Reads {
    /// How many have read, and how many of them may end if a test has said so.
    state: Mutex<(u64, Option<u64>)>,
    changed: Condvar,
}

impl Reads {
    fn end_one(&self) {
        let mut state = self.state.lock();
        state.0 += 1;
        let number = state.0;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |(_, most)| most.is_some_and(|most| number > most));
    }

    /// Lets `most` of all reads end.
    pub(super) fn let_end(&self, most: Option<u64>) {
        self.state.lock().1 = most;
        self.changed.notify_all();
    }

    /// How many have read.
    pub(super) fn count(&self) -> u64 {
        self.state.lock().0
    }

    /// Waits until `count` have read.
    pub(super) fn wait_for(&self, count: u64) {
        let mut state = self.state.lock();
        let late = std::time::Duration::from_secs(10);
        let timed = self.changed.wait_while_for(&mut state, |(read, _)| *read < count, late);
        assert!(!timed.timed_out(), "only {} have read", state.0);
    }
}

/// The parts of the store that a write changes.
pub(super) struct Written {
    pub(super) map: Arc<Mutex<Map>>,
    pub(super) numbers: Arc<Numbers>,
    pub(super) room: Arc<Rooms>,
}

/// Databases that have no room for writes, until a test makes some.
#[derive(Default)]
pub(super) struct Rooms {
    state: Mutex<RoomState>,
    changed: Condvar,
}

#[derive(Default)]
struct RoomState {
    full: BTreeSet<DbIndex>,
    /// Writes that have waited, writes that wait now, and the most of them at one time.
    waits: u64,
    waiting: u64,
    most_waiting: u64,
}

impl Rooms {
    pub(super) fn fill(&self, db: DbIndex) {
        self.state.lock().full.insert(db);
    }

    pub(super) fn make(&self, db: DbIndex) {
        self.state.lock().full.remove(&db);
        self.changed.notify_all();
    }

    pub(super) fn is_full(&self, db: DbIndex) -> bool {
        self.state.lock().full.contains(&db)
    }

    fn wait(&self, db: DbIndex) {
        let mut state = self.state.lock();
        if !state.full.contains(&db) {
            return;
        }
        state.waits += 1;
        state.waiting += 1;
        state.most_waiting = state.most_waiting.max(state.waiting);
        self.changed.notify_all();
        // A test that has failed makes no room.
        let late = std::time::Duration::from_secs(15);
        self.changed.wait_while_for(&mut state, |state| state.full.contains(&db), late);
        state.waiting -= 1;
    }

    /// Waits until `count` writes have waited in all.
    pub(super) fn await_waits(&self, count: u64) {
        let mut state = self.state.lock();
        let late = std::time::Duration::from_secs(10);
        let timed = self.changed.wait_while_for(&mut state, |state| state.waits < count, late);
        assert!(!timed.timed_out(), "only {} writes have waited", state.waits);
    }

    pub(super) fn most_waiting(&self) -> u64 {
        self.state.lock().most_waiting
    }
}

/// The numbers of its writes.
#[derive(Default)]
pub(super) struct Numbers {
    last: AtomicU64,
    read_only: AtomicBool,
}

impl Numbers {
    /// The next write's, if writes are taken.
    pub(super) fn next(&self) -> Result<SeqNo, StoreError> {
        if self.read_only.load(SeqCst) {
            return Err(StoreError::ReadOnly("the store is read-only: no space".to_owned()));
        }
        Ok(SeqNo::new(self.last.fetch_add(1, SeqCst) + 1))
    }
}

impl MapStore {
    /// A map that walks by the hashes of its keys, of which some are equal, and does not count.
    pub(crate) fn hashed() -> Self {
        Self { is_hashed: AtomicBool::new(true), ..Self::default() }
    }

    fn place(&self, key: &[u8]) -> u64 {
        if self.is_hashed.load(SeqCst) { thermocline::hash64(7, key) >> 60 << 60 } else { 0 }
    }

    fn check_database(&self, db: DbIndex) -> Result<(), StoreError> {
        if self.exists(db) { Ok(()) } else { Err(StoreError::NoDatabase) }
    }

    /// Counts keys of a call if an event loop makes it.
    fn count(&self, keys: u64, bytes: usize) {
        let thread = std::thread::current();
        if thread.name().is_some_and(|name| name.starts_with("serve-")) {
            self.keys_on_loops.fetch_add(keys, SeqCst);
            self.bytes_on_loops.fetch_add(bytes as u64, SeqCst);
        }
    }

    fn set(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.check_database(db)?;
        let mut map = self.map.lock();
        let seqno = self.next()?;
        self.count(1, 0);
        map.insert((db, key.to_vec()), value.to_vec());
        Ok(seqno)
    }

    fn change(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        self.check_database(db)?;
        let mut map = self.map.lock();
        let place = (db, key.to_vec());
        match decide(map.get(&place).map(Vec::as_slice)) {
            Change::Keep => Ok(SeqNo::ZERO),
            Change::Put(value) => {
                let seqno = self.next()?;
                map.insert(place, value);
                Ok(seqno)
            }
            Change::Delete => {
                let seqno = self.next()?;
                map.remove(&place);
                Ok(seqno)
            }
        }
    }

    fn next(&self) -> Result<SeqNo, StoreError> {
        if self.refuses_writes.load(SeqCst) {
            return Err(StoreError::ReadOnly("no space left".to_owned()));
        }
        self.numbers.next()
    }
}

impl Store for MapStore {
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        into.clear();
        if self.cold.has(key) {
            drop(self.walking.lock());
        }
        let map = self.map.lock();
        let value = map.get(&(db, key.to_vec()));
        self.count(1, value.map_or(0, Vec::len));
        into.extend_from_slice(value.map(Vec::as_slice).unwrap_or_default());
        Ok(value.is_some())
    }

    fn try_get(
        &self,
        db: DbIndex,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>, StoreError> {
        if self.cold.has(key) { Ok(None) } else { self.get(db, key, into).map(Some) }
    }

    fn try_update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        if self.cold.has(key) {
            return Ok(None);
        }
        // A change is made before it is known that there is no room for it.
        let (is_full, mut changes) = (self.room.is_full(db), false);
        let updated = self.change(db, key, &mut |old| {
            let change = decide(old);
            changes = change != Change::Keep;
            if is_full { Change::Keep } else { change }
        })?;
        if is_full && changes { Err(StoreError::MustWait) } else { Ok(Some(updated)) }
    }

    fn try_put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        if self.room.is_full(db) { Err(StoreError::MustWait) } else { self.set(db, key, value) }
    }

    fn wait_to_write(&self, db: DbIndex) {
        self.room.wait(db);
    }

    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        drop(self.walking.lock());
        self.asked_at_once.fetch_max(keys.len() as u64, SeqCst);
        // In another order than that of the keys, as a device has it.
        let map = self.map.lock();
        for (index, key) in keys.iter().enumerate().rev() {
            let value = map.get(&(db, key.to_vec())).map(Vec::as_slice);
            self.count(1, value.map_or(0, <[u8]>::len));
            found(index, value);
        }
        drop(map);
        self.reads.end_one();
        Ok(())
    }

    fn delete(&self, db: DbIndex, key: &[u8]) -> Result<SeqNo, StoreError> {
        let mut map = self.map.lock();
        let seqno = self.next()?;
        map.remove(&(db, key.to_vec()));
        Ok(seqno)
    }

    fn put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.room.wait(db);
        self.set(db, key, value)
    }

    fn update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        self.room.wait(db);
        self.change(db, key, decide)
    }

    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        drop(self.walking.lock());
        let mut met = 0;
        let mut visit = |key: &[u8], value: &[u8]| {
            met += 1;
            self.met.fetch_add(1, SeqCst);
            self.met_by_one.fetch_max(met, SeqCst);
            visit(key, value)
        };
        let map = self.map.lock();
        if self.is_ordered(db) {
            let begin = (db, from.unwrap_or_default().to_vec());
            for ((_, key), value) in map.range(begin..(db + 1, Vec::new())) {
                if visit(key, value) == ControlFlow::Break(()) {
                    break;
                }
            }
            return Ok(());
        }
        let pairs = map.range((db, Vec::new())..(db + 1, Vec::new()));
        let mut pairs: Vec<_> =
            pairs.map(|((_, key), value)| (self.place(key), key, value)).collect();
        pairs.sort_unstable();
        let begin = from.map(|key| (self.place(key), key));
        for (at, key, value) in pairs {
            let is_before = begin.is_some_and(|begin| (at, key.as_slice()) < begin);
            if !is_before && visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn exists(&self, db: DbIndex) -> bool {
        !self.absent.lock().contains(&db)
    }

    fn is_ordered(&self, _db: DbIndex) -> bool {
        !self.is_hashed.load(SeqCst)
    }

    fn position(&self, _db: DbIndex, key: &[u8]) -> Result<u64, StoreError> {
        Ok(self.place(key))
    }

    fn counted_keys(&self, db: DbIndex) -> Result<Option<u64>, StoreError> {
        let map = self.map.lock();
        let count = map.range((db, Vec::new())..(db + 1, Vec::new())).count() as u64;
        Ok(self.is_ordered(db).then_some(count))
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        drop(self.walking.lock());
        let mut map = self.map.lock();
        let seqno = self.next()?;
        map.retain(|(of, _), _| *of != db);
        Ok(seqno)
    }
}

impl Durable for MapStore {
    fn store_session(
        &self,
        db: DbIndex,
        depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Box<dyn StoreSession>, StoreError> {
        let (map, numbers) = (Arc::clone(&self.map), Arc::clone(&self.numbers));
        let written = Written { map, numbers, room: Arc::clone(&self.room) };
        Ok(Box::new(self.cold.store_session(db, depth, bell, written)?))
    }

    fn write(
        &self,
        steps: &mut dyn Iterator<Item = Step>,
        has_room: Option<&dyn Fn()>,
    ) -> Result<SeqNo, StoreError> {
        let steps: Vec<Step> = steps.collect();
        let mut databases = steps.iter().map(|step| step.db);
        if let Some(has_room) = has_room {
            databases.for_each(|db| self.room.wait(db));
            has_room();
        } else if databases.any(|db| self.room.is_full(db)) {
            return Err(StoreError::MustWait);
        }
        let seqno = self.next()?;
        for step in steps {
            self.count(1, 0);
            let place = (step.db, step.key);
            let mut map = self.map.lock();
            match step.value {
                Some(value) => map.insert(place, value),
                None => map.remove(&place),
            };
            drop(map);
            drop(self.writing.lock());
        }
        Ok(seqno)
    }

    fn make(&self, db: DbIndex) -> Result<(), StoreError> {
        if !self.exists(db) {
            drop(self.walking.lock());
            self.absent.lock().remove(&db);
        }
        Ok(())
    }

    fn write_room(&self) -> u64 {
        match self.write_room.load(SeqCst) {
            0 => u64::MAX,
            room => room,
        }
    }

    fn wait(&self, seqno: SeqNo) -> Result<(), StoreError> {
        if self.waited.load(SeqCst) >= seqno.get() {
            return Ok(());
        }
        if self.broken.load(SeqCst) {
            self.numbers.read_only.store(true, SeqCst);
            return Err(StoreError::ReadOnly("the store is read-only: no space".to_owned()));
        }
        self.waited.fetch_max(seqno.get(), SeqCst);
        Ok(())
    }

    fn last(&self) -> SeqNo {
        SeqNo::new(self.numbers.last.load(SeqCst))
    }

    fn save(&self) -> Result<(), StoreError> {
        drop(self.walking.lock());
        drop(self.saving.lock());
        self.wait(self.last())
    }

    fn backup(&self, _into: &Path) -> Result<(), StoreError> {
        self.save()
    }

    fn figures(&self) -> Vec<(String, u64)> {
        drop(self.walking.lock());
        Vec::new()
    }

    fn refresh_metrics(&self) {}

    fn memory(&self) -> (u64, u64) {
        (0, 0)
    }

    fn commands(&self) -> &dyn Store {
        self
    }
}
