//! How handlers reach keys: expiry, counting and WATCH included.

use thermocline::Expiring;
use thermocline::SeqNo;

use super::call::ReadMode;
use super::{Call, Failure, Outcome};
use crate::key_marks::Encoding;
use crate::protocol::Reply;
use crate::store::session::{Purpose, StoreRead};
use crate::store::{Change, DbIndex, Store, StoreError};

/// The error for stored bytes that are no value.
fn damaged(key: &[u8], error: &thermocline::Corruption) -> Failure {
    Failure::made(format!("ERR damaged value of key '{}': {error}", key.escape_ascii()))
}

/// The stored value of `key`, by the means that there are.
#[inline]
fn bytes_of<'s>(
    read_mode: ReadMode<'s>,
    store: &dyn Store,
    db: DbIndex,
    key: &[u8],
    scratch: &'s mut Vec<u8>,
) -> Result<Option<&'s [u8]>, Failure> {
    let is_there = match read_mode {
        ReadMode::StoreRead(StoreRead::Value(value)) => return Ok(value),
        ReadMode::AtOnce => store.try_get(db, key, scratch)?,
        ReadMode::Follows => None,
        ReadMode::Blocking
        | ReadMode::Walked(_)
        | ReadMode::Alone(_)
        | ReadMode::StoreRead(StoreRead::Old(_)) => Some(store.get(db, key, scratch)?),
    };
    match is_there {
        None => Err(Failure::Parked(Purpose::Read)),
        Some(is_there) => Ok(is_there.then_some(scratch.as_slice())),
    }
}

/// Keys that are looked up together: enough to keep a device busy, and the most that a client may
/// make the server hold for the sake of their order.
pub(crate) const SLICE_KEYS: usize = 64;

impl<'a> Call<'a> {
    /// Shows `found` the live value of `key`, and the reply to write to. Counts a hit or a miss,
    /// and notes a use of the key.
    pub(crate) fn read<R>(
        &mut self,
        key: &[u8],
        found: impl FnOnce(Option<Expiring<'_>>, &mut Reply<'_>) -> R,
    ) -> Result<R, Failure> {
        let result = self.read_quietly(key, found)?;
        self.note_use(key);
        Ok(result)
    }

    /// The same for a command that is no use of the key, such as EXISTS and TTL.
    pub(crate) fn read_quietly<R>(
        &mut self,
        key: &[u8],
        found: impl FnOnce(Option<Expiring<'_>>, &mut Reply<'_>) -> R,
    ) -> Result<R, Failure> {
        let (result, present) = self.peek(key, found)?;
        self.count_read(present);
        Ok(result)
    }

    /// Does the same without counting; also returns whether there was a value.
    pub(crate) fn peek<R>(
        &mut self,
        key: &[u8],
        found: impl FnOnce(Option<Expiring<'_>>, &mut Reply<'_>) -> R,
    ) -> Result<(R, bool), Failure> {
        let (db, scratch) = (self.session.db, &mut *self.scratch);
        let Some(bytes) = bytes_of(self.read_mode, self.store, db, key, scratch)? else {
            return Ok((found(None, &mut self.reply), false));
        };
        let stored = Expiring::decode(bytes).map_err(|error| damaged(key, &error))?;
        if !stored.is_expired(self.now_ms) {
            return Ok((found(Some(stored), &mut self.reply), true));
        }
        let result = found(None, &mut self.reply);
        self.reap(key);
        Ok((result, false))
    }

    /// Whether the command may wait for the store.
    fn may_wait(&self) -> bool {
        matches!(self.read_mode, ReadMode::Blocking | ReadMode::Walked(_) | ReadMode::Alone(_))
    }

    /// Changes `key` as [`Store::update`] does, by the means that there are; `None`, and nothing
    /// has changed, if they do not suffice.
    fn update_by_means(
        &self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        let db = self.session.db;
        match self.read_mode {
            _ if self.may_wait() => self.store.update(db, key, decide).map(Some),
            ReadMode::StoreRead(StoreRead::Old(old)) => old.update(decide),
            _ => self.store.try_update(db, key, decide),
        }
    }

    /// Removes `key` if it has expired. If the store cannot remove it without the device, the key
    /// stays, and stays invisible. Transactions and commands on threads remove no such key, since
    /// their reads write nothing. Nor does any command while another one is alone.
    pub(crate) fn reap(&mut self, key: &[u8]) {
        if matches!(self.read_mode, ReadMode::Blocking) || !self.shared.gate.is_open() {
            return;
        }
        let now_ms = self.now_ms;
        let mut gone = false;
        let removed = self.update_by_means(key, &mut |bytes| {
            let stored = bytes.and_then(|bytes| Expiring::decode(bytes).ok());
            gone = stored.is_some_and(|stored| stored.is_expired(now_ms));
            if gone { Change::Delete } else { Change::Keep }
        });
        if gone && matches!(removed, Ok(Some(_))) {
            // To its watchers it has not changed: EXEC looks at the clock.
            self.tally.expired += 1;
        }
    }

    /// [`Call::read`] for each of `keys` in their order, with the reads of the device overlapped.
    pub(crate) fn read_many(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
        mut found: impl FnMut(Option<Expiring<'_>>, &mut Reply<'_>) -> Outcome,
    ) -> Outcome {
        self.peek_many(keys, |_, stored, call| {
            call.count_read(stored.is_some());
            found(stored, &mut call.reply)
        })
    }

    fn count_read(&mut self, is_present: bool) {
        if is_present {
            self.tally.hits += 1;
        } else {
            self.tally.misses += 1;
        }
    }

    /// Does the same without counting. [`SLICE_KEYS`] are looked up together, and their values held
    /// until `found` has seen all of them: changes by `found` show in the next slice.
    pub(crate) fn peek_many(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
        mut found: impl FnMut(&'a [u8], Option<Expiring<'_>>, &mut Self) -> Outcome,
    ) -> Outcome {
        let mut keys = keys.peekable();
        let (mut slice, mut places) = (Vec::new(), Vec::new());
        while keys.peek().is_some() {
            slice.clear();
            slice.extend(keys.by_ref().take(SLICE_KEYS));
            let mut values = std::mem::take(self.scratch);
            let outcome = self.lookup_many(&slice, &mut values, &mut places).and_then(|held| {
                for (key, place) in slice.iter().zip(&places) {
                    let stored = place.and_then(|(begin, end)| values.get(begin..end));
                    let stored = stored.map(Expiring::decode).transpose();
                    let stored = stored.map_err(|error| damaged(key, &error))?;
                    // One that has expired is left to the store, which removes it in the
                    // background.
                    found(key, stored.filter(|stored| !stored.is_expired(self.now_ms)), self)?;
                    self.check_room()?;
                }
                self.room.release(held);
                Ok(())
            });
            *self.scratch = values;
            outcome?;
        }
        Ok(())
    }

    /// Puts the stored values of `keys` into `values`, and the place of each into `places`. The
    /// room holds the number of bytes that it returns.
    fn lookup_many(
        &self,
        keys: &[&[u8]],
        values: &mut Vec<u8>,
        places: &mut Vec<Option<(usize, usize)>>,
    ) -> Result<usize, Failure> {
        values.clear();
        places.clear();
        places.resize(keys.len(), None);
        let mut refused = Ok(());
        self.store.multi_get(self.session.db, keys, &mut |index, value| {
            let Some(value) = value.filter(|_| refused.is_ok()) else { return };
            refused = self.room.hold(value.len());
            let begin = values.len();
            values.extend_from_slice(value);
            if let Some(place) = places.get_mut(index) {
                *place = Some((begin, values.len()));
            }
        })?;
        refused.map(|()| values.len())
    }

    /// Sets `key`, over any old value.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        payload: &[u8],
    ) -> Result<(), Failure> {
        self.scratch.clear();
        Expiring { value: payload, expiry_ms }.encode(self.scratch);
        let (db, store) = (self.session.db, self.store);
        let seqno = if self.may_wait() {
            store.put(db, key, self.scratch)
        } else {
            store.try_put(db, key, self.scratch)
        }?;
        self.shared.keys.watches.touch(db, key);
        self.written.note(seqno);
        self.note_value(key, Encoding::Shortest);
        Ok(())
    }

    /// Changes `key` atomically: `decide` sees its live value and returns its new value (as stored
    /// bytes) and a result. `decide` may run more than once.
    pub(crate) fn update<R>(
        &mut self,
        key: &[u8],
        decide: impl FnMut(Option<Expiring<'_>>) -> Result<(Change, R), Failure>,
    ) -> Result<R, Failure> {
        let (result, changes) = self.change(key, decide)?;
        if changes {
            self.note_value(key, Encoding::Shortest);
        }
        Ok(result)
    }

    /// [`Call::update`] of the expiry alone: the value stays the one that an earlier command made.
    pub(crate) fn change_expiry<R>(
        &mut self,
        key: &[u8],
        decide: impl FnMut(Option<Expiring<'_>>) -> Result<(Change, R), Failure>,
    ) -> Result<R, Failure> {
        let (result, _) = self.change(key, decide)?;
        self.note_use(key);
        Ok(result)
    }

    /// Notes that `key` has a new value.
    pub(crate) fn note_value(&self, key: &[u8], encoding: Encoding) {
        self.shared.keys.marks.note_value(self.session.db, key, self.now_ms, encoding);
    }

    /// Notes a use of `key` that leaves its value unchanged.
    #[inline]
    pub(crate) fn note_use(&self, key: &[u8]) {
        if !self.session.no_touch {
            self.shared.keys.marks.note_use(self.session.db, key, self.now_ms);
        }
    }

    /// Returns the encoding in which Redis would keep the value of `key`.
    pub(crate) fn encoding(&self, key: &[u8]) -> Encoding {
        self.shared.keys.marks.encoding(self.session.db, key)
    }

    /// Changes `key`; also returns whether it changed.
    fn change<R>(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<Expiring<'_>>) -> Result<(Change, R), Failure>,
    ) -> Result<(R, bool), Failure> {
        let (now_ms, db) = (self.now_ms, self.session.db);
        let mut result = Err(Failure::Text("ERR the store gave no answer"));
        let (mut changes, mut is_seen) = (false, false);
        let updated = self.update_by_means(key, &mut |bytes| {
            (changes, is_seen) = (false, false);
            let stored = match bytes.map(Expiring::decode).transpose() {
                Ok(stored) => stored,
                Err(error) => {
                    result = Err(damaged(key, &error));
                    return Change::Keep;
                }
            };
            let has_expired = stored.is_some_and(|stored| stored.is_expired(now_ms));
            match decide(stored.filter(|_| !has_expired)) {
                Err(failure) => {
                    result = Err(failure);
                    Change::Keep
                }
                Ok((change, value)) => {
                    result = Ok(value);
                    let change = match change {
                        Change::Keep if has_expired => Change::Delete,
                        Change::Delete if stored.is_none() => Change::Keep,
                        change => change,
                    };
                    changes = change != Change::Keep;
                    // A key that had expired is absent before and after.
                    is_seen = changes && !(has_expired && change == Change::Delete);
                    change
                }
            }
        })?;
        let seqno = updated.ok_or(Failure::Parked(Purpose::Update))?;
        if is_seen {
            self.shared.keys.watches.touch(db, key);
        }
        if changes {
            self.written.note(seqno);
        }
        result.map(|result| (result, changes))
    }

    /// Removes `key`, which is there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Outcome {
        let seqno = self.store.delete(self.session.db, key)?;
        self.shared.keys.watches.touch(self.session.db, key);
        self.written.note(seqno);
        Ok(())
    }

    /// Removes `key`; whether it was live.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.update(key, |stored| Ok((Change::Delete, stored.is_some())))
    }

    /// The largest value allowed, in bytes.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.shared.value_bytes_max()
    }
}
