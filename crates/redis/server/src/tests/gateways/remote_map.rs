//! A store of other processes: a map that several servers share.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use thermocline::sync::locks::Mutex;
use thermocline::{Doorbell, SeqNo};

use crate::store::session::{OnLookup, Purpose, StoreLookup, StoreRead, StoreSession};
use crate::store::{
    Change, Commit, DbIndex, Durable, Found, OnCommitted, OnRead, Remote, Step, Store, StoreError,
    Visit,
};
use crate::tests::map_store::MapStore;

/// A map of other processes. Keys from `n` on are at another place.
#[derive(Default)]
pub(super) struct RemoteMap {
    pub(super) map: Arc<MapStore>,
    /// One commit at a time.
    committing: Mutex<()>,
    /// Whether reads fail.
    pub(super) is_away: AtomicBool,
    /// Whether reads wait, and the ones that do.
    pub(super) holds: AtomicBool,
    pub(super) held: Mutex<Vec<OnRead>>,
    /// Commits so far, and calls that make a database.
    pub(super) commits: AtomicU64,
    pub(super) makes: AtomicU64,
}

/// Returns the place of a key.
fn place(key: &[u8]) -> usize {
    usize::from(key.first().is_some_and(|first| *first >= b'n'))
}

pub(super) fn value_of(map: &MapStore, db: DbIndex, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    map.get(db, key, &mut value).is_ok_and(|is_there| is_there).then_some(value)
}

impl Store for RemoteMap {
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.map.get(db, key, into)
    }

    fn try_get(&self, _: DbIndex, _: &[u8], _: &mut Vec<u8>) -> Result<Option<bool>, StoreError> {
        Ok(None)
    }

    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        self.map.multi_get(db, keys, found)
    }

    fn put(&self, _: DbIndex, _: &[u8], _: &[u8]) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn delete(&self, _: DbIndex, _: &[u8]) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn update(
        &self,
        _: DbIndex,
        _: &[u8],
        _: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn try_update(
        &self,
        _: DbIndex,
        _: &[u8],
        _: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        Ok(None)
    }

    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.map.walk(db, from, visit)
    }

    fn is_ordered(&self, _: DbIndex) -> bool {
        true
    }

    fn position(&self, _: DbIndex, _: &[u8]) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn counted_keys(&self, _: DbIndex) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        let _committing = self.committing.lock();
        self.map.clear(db)
    }
}

impl Durable for RemoteMap {
    fn store_session(
        &self,
        db: DbIndex,
        _depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Box<dyn StoreSession>, StoreError> {
        let (map, bell, asked) = (Arc::clone(&self.map), Arc::clone(bell), VecDeque::new());
        Ok(Box::new(RemoteSession { map, db, bell, asked }))
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }

    fn are_apart(&self) -> bool {
        true
    }

    fn write(
        &self,
        _: &mut dyn Iterator<Item = Step>,
        _: Option<&dyn Fn()>,
    ) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn make(&self, db: DbIndex) -> Result<(), StoreError> {
        self.makes.fetch_add(1, SeqCst);
        self.map.make(db)
    }

    fn write_room(&self) -> u64 {
        1 << 20
    }

    fn wait(&self, _: SeqNo) -> Result<(), StoreError> {
        Ok(())
    }

    fn last(&self) -> SeqNo {
        SeqNo::ZERO
    }

    fn save(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn backup(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn figures(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn refresh_metrics(&self) {}

    fn memory(&self) -> (u64, u64) {
        (0, 1 << 30)
    }

    fn commands(&self) -> &dyn Store {
        self
    }
}

impl Remote for RemoteMap {
    fn read(&self, db: DbIndex, keys: Vec<Vec<u8>>, on_read: OnRead) {
        let value = |key: &Vec<u8>| {
            // Other commands may be committed between two keys.
            thread::yield_now();
            value_of(&self.map, db, key)
        };
        if self.is_away.load(SeqCst) {
            return on_read(Err(StoreError::Refused("the cluster is away".to_owned())));
        }
        if self.holds.load(SeqCst) {
            return self.held.lock().push(on_read);
        }
        on_read(Ok(keys.iter().map(value).collect()));
    }

    fn commit(&self, Commit { db, expects, steps }: Commit, on_committed: OnCommitted) {
        let _committing = self.committing.lock();
        self.commits.fetch_add(1, SeqCst);
        let keys = expects.iter().map(|(key, _)| key).chain(steps.iter().map(|step| &step.key));
        let mut places: Vec<usize> = keys.map(|key| place(key)).collect();
        places.dedup();
        if places.len() > 1 {
            return on_committed(Err(StoreError::Refused("two places".to_owned())));
        }
        if !self.map.exists(db) {
            return on_committed(Err(StoreError::NoDatabase));
        }
        let is_present =
            |(key, value): &(Vec<u8>, Option<Vec<u8>>)| value_of(&self.map, db, key) == *value;
        let holds = expects.iter().all(is_present);
        let written = match holds {
            true => self.map.write(&mut steps.into_iter(), Some(&|| ())).map(drop),
            false => Ok(()),
        };
        on_committed(written.map(|()| holds));
    }

    fn databases(&self) -> Result<Vec<DbIndex>, StoreError> {
        Ok((0..16).filter(|db| self.map.exists(*db)).collect())
    }

    fn is_known(&self, _: DbIndex) -> bool {
        true
    }

    fn places(&self, _: DbIndex, keys: &[&[u8]]) -> Vec<Vec<usize>> {
        let of = |wanted: usize| {
            let keys = keys.iter().enumerate().filter(move |(_, key)| place(key) == wanted);
            keys.map(|(index, _)| index).collect::<Vec<_>>()
        };
        [of(0), of(1)].into_iter().filter(|keys| !keys.is_empty()).collect()
    }
}

/// Lookups that are made when the bell has rung.
struct RemoteSession {
    map: Arc<MapStore>,
    db: DbIndex,
    bell: Arc<Doorbell>,
    asked: VecDeque<(u64, Vec<u8>)>,
}

impl StoreSession for RemoteSession {
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        _purpose: Purpose,
        _into: &mut Vec<u8>,
    ) -> Result<StoreLookup, StoreError> {
        self.asked.push_back((tag, key.to_vec()));
        self.bell.ring();
        Ok(StoreLookup::Pending)
    }

    fn complete(&mut self, on_done: &mut OnLookup<'_>) -> Result<(), StoreError> {
        for (tag, key) in std::mem::take(&mut self.asked) {
            let value = value_of(&self.map, self.db, &key);
            on_done(tag, Ok(StoreRead::Value(value.as_deref())));
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }
}
