//! How handlers reach keys: expiry, counting and WATCH included.

use super::{Call, Failure};

use crate::protocol::Reply;
use crate::store::Change;
use crate::store::value::{self, Stored};

/// The error for stored bytes that are no value.
fn damaged(key: &[u8], error: &codec::Corruption) -> Failure {
    Failure::Quoted(format!("ERR damaged value of key '{}': {error}", key.escape_ascii()))
}

impl Call<'_> {
    /// Shows `found` the live value of `key`, and the reply to write to. Counts a hit or a miss.
    pub(crate) fn read<R>(
        &mut self,
        key: &[u8],
        found: impl FnOnce(Option<Stored<'_>>, &mut Reply<'_>) -> R,
    ) -> Result<R, Failure> {
        let (result, present) = self.peek(key, found)?;
        if present {
            self.tally.hits += 1;
        } else {
            self.tally.misses += 1;
        }
        Ok(result)
    }

    /// The same without counting; also tells whether there was a value.
    pub(crate) fn peek<R>(
        &mut self,
        key: &[u8],
        found: impl FnOnce(Option<Stored<'_>>, &mut Reply<'_>) -> R,
    ) -> Result<(R, bool), Failure> {
        if !self.store.get(self.session.db, key, self.scratch)? {
            return Ok((found(None, &mut self.reply), false));
        }
        let stored = Stored::decode(self.scratch).map_err(|error| damaged(key, &error))?;
        if !stored.is_expired(self.now_ms) {
            return Ok((found(Some(stored), &mut self.reply), true));
        }
        let result = found(None, &mut self.reply);
        self.reap(key);
        Ok((result, false))
    }

    /// Removes `key` if it has expired. A store that cannot is left as it is: the key stays
    /// invisible.
    pub(crate) fn reap(&mut self, key: &[u8]) {
        let (now_ms, db) = (self.now_ms, self.session.db);
        let mut gone = false;
        let removed = self.store.update(db, key, &mut |bytes| {
            let stored = bytes.and_then(|bytes| Stored::decode(bytes).ok());
            gone = stored.is_some_and(|stored| stored.is_expired(now_ms));
            if gone { Change::Delete } else { Change::Keep }
        });
        if gone && removed.is_ok() {
            self.tally.expired += 1;
            self.shared.watches.touch(db, key);
        }
    }

    /// Whether `key` is live.
    pub(crate) fn exists(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.read(key, |stored, _| stored.is_some())
    }

    /// Sets `key`, whatever it was.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        payload: &[u8],
    ) -> Result<(), Failure> {
        self.scratch.clear();
        Stored { expiry_ms, payload }.encode(self.scratch);
        let seqno = self.store.put(self.session.db, key, self.scratch)?;
        self.shared.watches.touch(self.session.db, key);
        self.written.note(seqno);
        if let Some(expiry_ms) = expiry_ms {
            self.shared.note_expiry(self.session.db, expiry_ms);
        }
        Ok(())
    }

    /// Changes `key` atomically: `decide` sees its live value and returns what becomes of it (as
    /// stored bytes) and a result. `decide` may run more than once.
    pub(crate) fn update<R>(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<Stored<'_>>) -> Result<(Change, R), Failure>,
    ) -> Result<R, Failure> {
        let (now_ms, db) = (self.now_ms, self.session.db);
        let mut result = Err(Failure::Text("ERR the store gave no answer"));
        let (mut changes, mut expiry_ms) = (false, None);
        let seqno = self.store.update(db, key, &mut |bytes| {
            changes = false;
            let stored = match bytes.map(Stored::decode).transpose() {
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
                    expiry_ms = match &change {
                        Change::Put(bytes) => value::expiry_ms(bytes),
                        Change::Keep | Change::Delete => None,
                    };
                    change
                }
            }
        })?;
        if changes {
            self.shared.watches.touch(db, key);
            self.written.note(seqno);
            if let Some(expiry_ms) = expiry_ms {
                self.shared.note_expiry(db, expiry_ms);
            }
        }
        result
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
