//! Ingestion: sorted pairs become an engine's own files next to all other work, and are then put
//! into the keyspace as one write.
//!
//! 1. Pairs are pushed. No other work waits for that, nothing of it is journaled, and no read sees
//!    it.
//! 2. The keyspace is flushed, so that little is left to be flushed in 4.
//! 3. No copy of the database is under way, and all key locks are taken: no other write is. The
//!    engine does the work that needs room: if there is none that costs this ingestion, and nothing
//!    else.
//! 4. The write takes its number, is journaled as a record of no steps, and the engine puts the
//!    pairs in ([`engine::Ingestion::commit`]).
//!
//! # Invariants
//! - I1. The journal has every earlier write, durably, before the pairs are in the keyspace (prefix
//!   recovery). So it is durable itself, whatever the handle's durability.
//! - I2. A copy has the pairs, or no write that came after them: it copies the keyspaces one by one
//!   and then the journal, which does not have them.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use device::OfProcess;

use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;

/// Pairs that are being ingested into a keyspace. Dropped before [`Ingestion::commit`], they leave
/// nothing. It keeps the database open.
pub struct Ingestion {
    /// Dropped before the instance, whose files it writes.
    pairs: OfProcess<(Box<dyn engine::Ingestion>, Arc<KeyspaceInstance>)>,
    keyspace: Keyspace,
    /// The smallest and the largest key.
    bounds: Option<(Vec<u8>, Vec<u8>)>,
}

impl Keyspace {
    /// Writes many pairs, in ascending order of their keys and each key once. This is much faster
    /// than one by one: they are written to tables directly, without a journal, memtables and the
    /// compactions that follow. They replace the values of their keys in the keyspace; other keys
    /// do not change.
    ///
    /// It is one write: every read and snapshot sees all of it or nothing, and so does a recovery
    /// from a crash. On return it is durable on the device. Putting it in takes some syncs and a
    /// flush of the data in memory; all other writes of the database wait meanwhile. It waits
    /// itself for a backup or a checkpoint that is under way.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, EngineKind, KeyRange, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let lsm = KeyspaceOptions { engine: EngineKind::Lsm, ..Default::default() };
    /// let squares = db.keyspace("squares", lsm)?;
    /// squares.ingest((0..1000_u64).map(|n| (n.to_be_bytes(), (n * n).to_string())))?;
    /// assert_eq!(squares.get(&12_u64.to_be_bytes())?.as_deref(), Some(&b"144"[..]));
    /// assert_eq!(squares.scan(KeyRange::all())?.count(), 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::error::Engine::NoIngestion`] from engines other than `lsm`; those of
    /// [`Ingestion::push`] and [`Ingestion::commit`]: then none of the pairs is there.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<SeqNo> {
        let mut ingestion = self.ingestion()?;
        for (key, value) in pairs {
            ingestion.push(key.as_ref(), value.as_ref())?;
        }
        ingestion.commit()
    }

    /// The same, pair by pair.
    ///
    /// # Errors
    /// As [`Keyspace::ingest`].
    pub fn ingestion(&self) -> Result<Ingestion> {
        self.inner.lifecycle.check_writable()?;
        let instance = self.entry.instance()?;
        let pairs = instance.engine.ingestion()?;
        let pairs = OfProcess::new((pairs, instance));
        Ok(Ingestion { pairs, keyspace: self.clone(), bounds: None })
    }
}

impl Ingestion {
    /// Adds a pair. One that is refused for its key or its value changes nothing.
    ///
    /// # Errors
    /// [`crate::error::Engine::NotAscending`], [`crate::error::Engine::KeyTooLong`],
    /// [`crate::error::Engine::ValueTooLong`]; the storage's, which end the ingestion.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let stored = self.keyspace.stored(value)?;
        self.push_stored(key, &stored)
    }

    /// Adds a pair whose value expires, as [`crate::ExpiringKeyspace::put`] does. If the expiry is
    /// past, the key has no value afterwards.
    ///
    /// # Errors
    /// [`Error::NotExpiring`]; otherwise as [`Ingestion::push`].
    pub fn push_with_expiry(&mut self, key: &[u8], value: &[u8], expiry_ms: u64) -> Result<()> {
        let stored = self.keyspace.stored_with_expiry(value, expiry_ms)?;
        self.push_stored(key, &stored)
    }

    fn push_stored(&mut self, key: &[u8], stored: &[u8]) -> Result<()> {
        self.keyspace.inner.lifecycle.check_process()?;
        let (pairs, instance) = &mut *self.pairs;
        instance.placed(pairs.push(key, stored))?;
        self.note_key(key);
        Ok(())
    }

    fn note_key(&mut self, key: &[u8]) {
        match &mut self.bounds {
            None => self.bounds = Some((key.to_vec(), key.to_vec())),
            Some((_, last)) => {
                last.clear();
                last.extend_from_slice(key);
            }
        }
    }

    /// Puts all pairs in; see [`Keyspace::ingest`]. Nothing is done if there are none.
    ///
    /// # Errors
    /// [`Error::Cleared`]; failures of the storage and of the journal.
    pub fn commit(self) -> Result<SeqNo> {
        let Self { pairs, keyspace, bounds } = self;
        let (mut pairs, instance) = pairs.into_inner()?;
        let inner = &*keyspace.inner;
        let Some((first, mut end)) = bounds else { return Ok(inner.order.sequence.visible()) };
        end.push(0);
        inner.lifecycle.check_writable()?;
        instance.placed(pairs.finish())?;
        keyspace.flush()?;

        let _uncopied = inner.keyspaces.copying.write();
        let _held = inner.locks.all();
        inner.lifecycle.check_writable()?;
        if !Arc::ptr_eq(&*keyspace.entry.current()?, &instance) {
            return Err(Error::Cleared { name: keyspace.name().to_owned() });
        }
        instance.placed(pairs.prepare()).map_err(|error| inner.lifecycle.fail(error.into()))?;
        let ticket = inner.number(instance.journaled, |_| ())?;
        let seqno = ticket.seqno();
        if inner.order.recent.is_watched() {
            inner.order.recent.note_range(instance.id, &first, Some(&end), seqno);
        }
        instance.placed(pairs.commit(seqno)).map_err(|error| inner.lifecycle.fail(error.into()))?;
        instance.note_applied(seqno);
        if let Some(expiry) = &instance.expiry {
            expiry.note_unknown();
        }
        drop(ticket);
        Ok(seqno)
    }
}

impl std::fmt::Debug for Ingestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingestion").field("keyspace", &self.keyspace.name()).finish_non_exhaustive()
    }
}
