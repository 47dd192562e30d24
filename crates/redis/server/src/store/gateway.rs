//! Numbered databases in a cluster: database `n` is the keyspace `redis-n`, which is made at the
//! first write to it.
//!
//! Event loops read single keys by store sessions, and a thread runs the commands that write
//! ([`crate::event_loop`]). The other calls wait for the cluster, and are for threads that may.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use client::{Cluster, Error, Keyspace, Outcome, Pair, RangeReply, Write};
use thermocline::sync::locks::Mutex;
use thermocline::{Doorbell, KeyRange, SeqNo};

use super::session::{OnLookup, Purpose, StoreLookup, StoreRead, StoreSession};
use super::{
    Change, Commit, DB_COUNT, DbIndex, Durable, Found, OnCommitted, OnRead, Remote, Step, Store,
    StoreError, Visit,
};

/// Bytes that a transaction may change.
const WRITE_ROOM: u64 = 64 << 20;
/// Memory for values that are looked up: other processes have the data.
const MEMORY_BYTES: u64 = 256 << 20;

/// The databases of a cluster.
pub(crate) struct Gateway {
    cluster: Cluster,
    keyspaces: Vec<Keyspace>,
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::NoKeyspace(_) => Self::NoDatabase,
            Error::Full(_) => Self::Full(text),
            _ => Self::Refused(text),
        }
    }
}

/// Returns the name of the keyspace of a database.
fn name(db: DbIndex) -> String {
    format!("redis-{db}")
}

/// Returns values, none for a database that is not there.
fn or_absent(
    values: client::Result<Vec<Option<Vec<u8>>>>,
    count: usize,
) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    match values {
        Err(Error::NoKeyspace(_)) => Ok(vec![None; count]),
        values => Ok(values?),
    }
}

fn pair((key, value): (Vec<u8>, Option<Vec<u8>>)) -> Pair {
    Pair { key, value }
}

impl Gateway {
    /// Returns the databases of a cluster.
    pub(crate) fn new(cluster: Cluster) -> Self {
        let keyspaces = (0..DB_COUNT).map(|db| cluster.keyspace_unchecked(&name(db))).collect();
        Self { cluster, keyspaces }
    }

    fn keyspace(&self, db: DbIndex) -> Result<&Keyspace, StoreError> {
        let keyspace = self.keyspaces.get(usize::from(db));
        keyspace.ok_or_else(|| StoreError::Refused("no such database".to_owned()))
    }

    /// Writes, and waits.
    fn write_now(&self, db: DbIndex, write: &Write) -> Result<bool, StoreError> {
        let keyspace = self.keyspace(db)?;
        let written = match keyspace.write(write.clone()) {
            Err(Error::NoKeyspace(_)) => {
                self.make(db)?;
                keyspace.write(write.clone())
            }
            written => written,
        };
        Ok(written? == Outcome::Written)
    }

    fn set(&self, db: DbIndex, key: &[u8], value: Option<&[u8]>) -> Result<SeqNo, StoreError> {
        let steps = vec![pair((key.to_vec(), value.map(<[u8]>::to_vec)))];
        self.write_now(db, &Write { expects: Vec::new(), steps })?;
        Ok(SeqNo::ZERO)
    }
}

impl Store for Gateway {
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        let value = or_absent(self.keyspace(db)?.get_stored(&[key]), 1)?.pop().flatten();
        into.clear();
        into.extend_from_slice(value.as_deref().unwrap_or_default());
        Ok(value.is_some())
    }

    fn try_get(
        &self,
        _db: DbIndex,
        _key: &[u8],
        _into: &mut Vec<u8>,
    ) -> Result<Option<bool>, StoreError> {
        Ok(None)
    }

    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        let values = or_absent(self.keyspace(db)?.get_stored(keys), keys.len())?;
        values.iter().enumerate().for_each(|(index, value)| found(index, value.as_deref()));
        Ok(())
    }

    fn put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.set(db, key, Some(value))
    }

    fn try_put(&self, _db: DbIndex, _key: &[u8], _value: &[u8]) -> Result<SeqNo, StoreError> {
        Err(StoreError::MustWait)
    }

    fn delete(&self, db: DbIndex, key: &[u8]) -> Result<SeqNo, StoreError> {
        self.set(db, key, None)
    }

    fn update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        loop {
            let old = or_absent(self.keyspace(db)?.get_stored(&[key]), 1)?.pop().flatten();
            let new = match decide(old.as_deref()) {
                Change::Keep => return Ok(SeqNo::ZERO),
                Change::Put(value) => Some(value),
                Change::Delete => None,
            };
            let (expects, steps) =
                (vec![pair((key.to_vec(), old))], vec![pair((key.to_vec(), new))]);
            if self.write_now(db, &Write { expects, steps })? {
                return Ok(SeqNo::ZERO);
            }
        }
    }

    fn try_update(
        &self,
        _db: DbIndex,
        _key: &[u8],
        _decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        Ok(None)
    }

    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let range = match from {
            Some(from) => KeyRange::of(from.to_vec()..),
            None => KeyRange::all(),
        };
        for pair in self.keyspace(db)?.scan_stored(&range) {
            let (key, value) = match pair {
                Err(Error::NoKeyspace(_)) => return Ok(()),
                pair => pair?,
            };
            if visit(&key, &value).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_ordered(&self, _db: DbIndex) -> bool {
        true
    }

    fn position(&self, _db: DbIndex, _key: &[u8]) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn counted_keys(&self, _db: DbIndex) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        match self.keyspace(db)?.clear() {
            Ok(()) | Err(Error::NoKeyspace(_)) => Ok(SeqNo::ZERO),
            Err(error) => Err(error.into()),
        }
    }
}

impl Durable for Gateway {
    fn store_session(
        &self,
        db: DbIndex,
        _depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Box<dyn StoreSession>, StoreError> {
        let keyspace = self.keyspace(db)?.clone();
        let shared = Arc::new(Lookups { bell: Arc::clone(bell), done: Mutex::default() });
        Ok(Box::new(GatewaySession { keyspace, shared, pending: 0 }))
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }

    fn are_apart(&self) -> bool {
        true
    }

    fn write(
        &self,
        steps: &mut dyn Iterator<Item = Step>,
        _has_room: Option<&dyn Fn()>,
    ) -> Result<SeqNo, StoreError> {
        let all: Vec<Step> = steps.collect();
        let Some(db) = all.first().map(|step| step.db) else { return Ok(SeqNo::ZERO) };
        let steps = all.into_iter().map(|Step { key, value, .. }| pair((key, value))).collect();
        self.write_now(db, &Write { expects: Vec::new(), steps })?;
        Ok(SeqNo::ZERO)
    }

    fn make(&self, db: DbIndex) -> Result<(), StoreError> {
        self.cluster.make_keyspace(&name(db), &[])?;
        Ok(())
    }

    fn write_room(&self) -> u64 {
        WRITE_ROOM
    }

    /// A reply leaves the thread of commits when its writes are durable.
    fn wait(&self, _seqno: SeqNo) -> Result<(), StoreError> {
        Ok(())
    }

    fn last(&self) -> SeqNo {
        SeqNo::ZERO
    }

    fn save(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn backup(&self, _into: &Path) -> Result<(), StoreError> {
        Err(StoreError::Refused("databases of a cluster have no backups yet".to_owned()))
    }

    fn figures(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn refresh_metrics(&self) {}

    fn memory(&self) -> (u64, u64) {
        (0, MEMORY_BYTES)
    }

    fn commands(&self) -> &dyn Store {
        self
    }
}

/// Reads of several ranges that are under way.
struct Reading {
    values: Mutex<Vec<Option<Vec<u8>>>>,
    left: AtomicUsize,
    on_read: Mutex<Option<OnRead>>,
}

impl Reading {
    /// Takes the values of one range. The last range, or an error, ends the read.
    fn take(&self, places: &[usize], reply: client::Result<RangeReply>) {
        let values = match reply {
            Ok(RangeReply::Values(values)) if values.len() == places.len() => Ok(values),
            Ok(_) => Err(Error::Unavailable("the reply is for another request".to_owned())),
            Err(error) => Err(error),
        };
        match or_absent(values, places.len()) {
            Ok(values) => {
                let mut all = self.values.lock();
                for (place, value) in places.iter().zip(values) {
                    if let Some(into) = all.get_mut(*place) {
                        *into = value;
                    }
                }
                drop(all);
                if self.left.fetch_sub(1, SeqCst) == 1 {
                    let values = std::mem::take(&mut *self.values.lock());
                    self.end(Ok(values));
                }
            }
            Err(error) => self.end(Err(error)),
        }
    }

    fn end(&self, result: Result<Vec<Option<Vec<u8>>>, StoreError>) {
        let on_read = self.on_read.lock().take();
        if let Some(on_read) = on_read {
            on_read(result);
        }
    }
}

impl Remote for Gateway {
    fn read(&self, db: DbIndex, keys: Vec<Vec<u8>>, on_read: OnRead) {
        let keyspace = match self.keyspace(db) {
            Ok(keyspace) => keyspace,
            Err(error) => return on_read(Err(error)),
        };
        let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let of_ranges = keyspace.by_ranges(&borrowed);
        let reading = Arc::new(Reading {
            values: Mutex::new(vec![None; keys.len()]),
            left: AtomicUsize::new(of_ranges.len()),
            on_read: Mutex::new(Some(on_read)),
        });
        for places in of_ranges {
            let reading = Arc::clone(&reading);
            let keys = places.iter().filter_map(|place| keys.get(*place).cloned()).collect();
            keyspace.send_get(keys, Box::new(move |reply| reading.take(&places, reply)));
        }
    }

    fn commit(&self, Commit { db, expects, steps }: Commit, on_committed: OnCommitted) {
        let keyspace = match self.keyspace(db) {
            Ok(keyspace) => keyspace,
            Err(error) => return on_committed(Err(error)),
        };
        let expects: Vec<Pair> = expects.into_iter().map(pair).collect();
        let steps: Vec<Pair> =
            steps.into_iter().map(|Step { key, value, .. }| pair((key, value))).collect();
        let keys: Vec<&[u8]> =
            steps.iter().chain(&expects).map(|pair| pair.key.as_slice()).collect();
        if keyspace.by_ranges(&keys).len() > 1 {
            let first = keys.first().and_then(|key| keyspace.range_of(key));
            let others = keys.iter().map(|key| keyspace.range_of(key));
            let other = others.filter(|range| *range != first).flatten().next();
            let (Some(first), Some(other)) = (first, other) else {
                return on_committed(Ok(false));
            };
            let error = Error::SeveralRanges { first, other };
            return on_committed(Err(error.into()));
        }
        let on_done = move |reply: client::Result<RangeReply>| {
            on_committed(match reply {
                Ok(RangeReply::Written) => Ok(true),
                Ok(_) => Ok(false),
                Err(error) => Err(error.into()),
            });
        };
        keyspace.send_write(Write { expects, steps }, Box::new(on_done));
    }

    fn databases(&self) -> Result<Vec<DbIndex>, StoreError> {
        self.cluster.refresh()?;
        Ok((0..DB_COUNT).filter(|db| self.is_known(*db)).collect())
    }

    fn is_known(&self, db: DbIndex) -> bool {
        self.keyspace(db).is_ok_and(|keyspace| keyspace.ranges() > 0)
    }

    fn places(&self, db: DbIndex, keys: &[&[u8]]) -> Vec<Vec<usize>> {
        self.keyspace(db).map(|keyspace| keyspace.by_ranges(keys)).unwrap_or_default()
    }
}

/// The tag of a lookup that has ended, and the value.
type Ended = (u64, Result<Option<Vec<u8>>, StoreError>);

/// Lookups that have ended.
struct Lookups {
    bell: Arc<Doorbell>,
    done: Mutex<VecDeque<Ended>>,
}

/// A store session at a keyspace of the cluster.
struct GatewaySession {
    keyspace: Keyspace,
    shared: Arc<Lookups>,
    pending: usize,
}

impl StoreSession for GatewaySession {
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        _purpose: Purpose,
        _into: &mut Vec<u8>,
    ) -> Result<StoreLookup, StoreError> {
        let shared = Arc::clone(&self.shared);
        let on_done = move |reply| {
            let value = match reply {
                Ok(RangeReply::Values(mut values)) => Ok(values.pop().flatten()),
                Ok(_) => Err(StoreError::Refused("the reply is for another request".to_owned())),
                Err(Error::NoKeyspace(_)) => Ok(None),
                Err(error) => Err(error.into()),
            };
            shared.done.lock().push_back((tag, value));
            shared.bell.ring();
        };
        self.keyspace.send_get(vec![key.to_vec()], Box::new(on_done));
        self.pending += 1;
        Ok(StoreLookup::Pending)
    }

    fn complete(&mut self, on_done: &mut OnLookup<'_>) -> Result<(), StoreError> {
        let done = std::mem::take(&mut *self.shared.done.lock());
        for (tag, value) in done {
            self.pending -= 1;
            match value {
                Ok(value) => on_done(tag, Ok(StoreRead::Value(value.as_deref()))),
                Err(error) => on_done(tag, Err(error)),
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.pending
    }
}
