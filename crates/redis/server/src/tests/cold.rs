//! Keys of a map whose values need a lookup, which ends when the test lets it.

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline::Doorbell;
use thermocline::SeqNo;
use thermocline::environment::Environment;
use thermocline::sync::locks::{Condvar, Mutex};

use super::map_store::Written;
use crate::store::session::{OldValue, OnLookup, Purpose, StoreLookup, StoreRead, StoreSession};
use crate::store::{Change, DbIndex, StoreError};

/// The cold keys of a store, and the lookups of them.
#[derive(Default)]
pub(crate) struct Cold {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Default)]
struct State {
    keys: BTreeSet<Vec<u8>>,
    /// All keys are cold, and the next call of `complete` reports them.
    is_icy: bool,
    /// A lookup finds the value at its end, and not the one at its beginning.
    reports_newest: bool,
    /// Every lookup fails; the whole store session does.
    fails: bool,
    breaks: bool,
    has_no_sessions: bool,
    /// Store sessions that were ever taken, and store sessions that were dropped.
    store_sessions: u64,
    sessions_closed: u64,
    asked: Vec<Asked>,
    /// All that were ever asked for.
    log: Vec<String>,
    most_under_way: usize,
}

struct Asked {
    store_session: u64,
    tag: u64,
    place: (DbIndex, Vec<u8>),
    purpose: Purpose,
    /// Its value when the lookup began.
    value: Option<Vec<u8>>,
    is_released: bool,
    bell: Arc<Doorbell>,
}

impl Cold {
    /// Makes keys cold.
    pub(super) fn freeze(&self, keys: &[&str]) {
        self.state.lock().keys.extend(keys.iter().map(|key| key.as_bytes().to_vec()));
    }

    /// Makes all keys cold, and lets every lookup end immediately.
    pub(super) fn freeze_all(&self) {
        self.state.lock().is_icy = true;
    }

    /// Makes a key warm. Lookups that are under way find the values at their end.
    pub(super) fn thaw(&self, key: &str) {
        let mut state = self.state.lock();
        state.keys.remove(key.as_bytes());
        state.reports_newest = true;
    }

    pub(super) fn fail(&self) {
        self.state.lock().fails = true;
    }

    pub(super) fn break_sessions(&self) {
        let mut state = self.state.lock();
        state.breaks = true;
        state.asked.iter().for_each(|asked| asked.bell.ring());
    }

    pub(super) fn refuse_sessions(&self) {
        self.state.lock().has_no_sessions = true;
    }

    /// Returns whether the value of `key` needs a lookup.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        let state = self.state.lock();
        state.is_icy || state.keys.contains(key)
    }

    /// Waits until `count` lookups were begun in all; returns them.
    pub(super) fn await_asked(&self, count: usize) -> Vec<String> {
        let deadline = std::time::Duration::from_secs(10);
        let begun = Environment::real().now();
        let mut state = self.state.lock();
        while state.log.len() < count {
            let waited = Environment::real().now() - begun;
            assert!(waited < deadline, "only {:?} were asked for", state.log);
            self.asked.wait_for(&mut state, deadline - waited);
        }
        state.log.clone()
    }

    pub(super) fn most_under_way(&self) -> usize {
        self.state.lock().most_under_way
    }

    /// Returns the number of lookups begun in all.
    pub(super) fn asked_count(&self) -> usize {
        self.state.lock().log.len()
    }

    /// How many store sessions there are.
    pub(super) fn store_sessions(&self) -> u64 {
        let state = self.state.lock();
        state.store_sessions - state.sessions_closed
    }

    /// Lets the lookups of `key` end.
    pub(super) fn release(&self, key: &str) {
        let mut state = self.state.lock();
        let of = state.asked.iter_mut().filter(|asked| asked.place.1 == key.as_bytes());
        let mut count = 0;
        for asked in of {
            asked.is_released = true;
            asked.bell.ring();
            count += 1;
        }
        assert!(count > 0, "nobody asks for {key}");
    }

    pub(super) fn store_session(
        self: &Arc<Self>,
        db: DbIndex,
        depth: usize,
        bell: &Arc<Doorbell>,
        written: Written,
    ) -> Result<ColdSession, StoreError> {
        let mut state = self.state.lock();
        if state.has_no_sessions {
            return Err(StoreError::Refused("no queue is left".to_owned()));
        }
        state.store_sessions += 1;
        let (id, cold, bell) = (state.store_sessions, Arc::clone(self), Arc::clone(bell));
        Ok(ColdSession { id, db, depth, cold, bell, written })
    }
}

/// A store session at such a map.
pub(super) struct ColdSession {
    id: u64,
    db: DbIndex,
    depth: usize,
    cold: Arc<Cold>,
    bell: Arc<Doorbell>,
    written: Written,
}

impl StoreSession for ColdSession {
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        purpose: Purpose,
        into: &mut Vec<u8>,
    ) -> Result<StoreLookup, StoreError> {
        let place = (self.db, key.to_vec());
        let value = self.written.map.lock().get(&place).cloned();
        if !self.cold.has(key) {
            into.clear();
            into.extend_from_slice(value.as_deref().unwrap_or_default());
            return Ok(match purpose {
                Purpose::Read => StoreLookup::Known(value.is_some()),
                _ => StoreLookup::AtOnce,
            });
        }
        if self.pending() == self.depth {
            return Ok(StoreLookup::Full);
        }
        let mut state = self.cold.state.lock();
        state.log.push(String::from_utf8_lossy(key).into_owned());
        let (store_session, bell, is_released) = (self.id, Arc::clone(&self.bell), state.is_icy);
        state.asked.push(Asked { store_session, tag, place, purpose, value, is_released, bell });
        state.most_under_way = state.most_under_way.max(state.asked.len());
        if is_released {
            self.bell.ring();
        }
        self.cold.asked.notify_all();
        Ok(StoreLookup::Pending)
    }

    fn complete(&mut self, on_done: &mut OnLookup<'_>) -> Result<(), StoreError> {
        let mut state = self.cold.state.lock();
        let id = self.id;
        if std::mem::take(&mut state.breaks) {
            state.asked.retain(|asked| asked.store_session != id);
            return Err(StoreError::Refused("the queue broke".to_owned()));
        }
        let (fails, reports_newest) = (state.fails, state.reports_newest);
        let over: Vec<Asked> = state
            .asked
            .extract_if(.., |asked| asked.store_session == id && asked.is_released)
            .collect();
        drop(state);
        for mut asked in over {
            if reports_newest {
                asked.value = self.written.map.lock().get(&asked.place).cloned();
            }
            if fails {
                on_done(asked.tag, Err(StoreError::Refused("cannot read".to_owned())));
                continue;
            }
            match asked.purpose {
                Purpose::Read => on_done(asked.tag, Ok(StoreRead::Value(asked.value.as_deref()))),
                _ => {
                    let old = Old { asked: &asked, written: &self.written };
                    on_done(asked.tag, Ok(StoreRead::Old(&old)));
                }
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.cold.state.lock().asked.iter().filter(|asked| asked.store_session == self.id).count()
    }
}

impl Drop for ColdSession {
    fn drop(&mut self) {
        let id = self.id;
        let mut state = self.cold.state.lock();
        state.asked.retain(|asked| asked.store_session != id);
        state.sessions_closed += 1;
    }
}

struct Old<'a> {
    asked: &'a Asked,
    written: &'a Written,
}

impl OldValue for Old<'_> {
    fn update(
        &self,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        let mut map = self.written.map.lock();
        let Asked { place, value, .. } = self.asked;
        if map.get(place) != value.as_ref() {
            return Ok(None);
        }
        let change = decide(value.as_deref());
        if change == Change::Keep {
            return Ok(Some(SeqNo::ZERO));
        }
        if self.written.room.is_full(place.0) {
            return Err(StoreError::MustWait);
        }
        let seqno = self.written.numbers.next()?;
        match change {
            Change::Keep => {}
            Change::Put(value) => drop(map.insert(place.clone(), value)),
            Change::Delete => drop(map.remove(place)),
        }
        Ok(Some(seqno))
    }
}
