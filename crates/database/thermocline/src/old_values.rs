//! Old values for a write whose keys are locked: those on the device are read with nothing locked.
//!
//! 1. With its keys locked, the write takes the values that memory knows. If it needs others, it
//!    notes them, and unlocks.
//! 2. The others are read.
//! 3. With the keys locked again, a value that was read counts if no other write of the key was
//!    first. Otherwise step 1 follows again: memory usually knows the value of that other write.
//!
//! So no thread waits for the device while it holds the lock of a key. An engine may not know of
//! one key whether it was written, after a flush for example, and then reports all values as old.
//! So a write with very many old values may need many rounds. After [`ROUNDS_MAX`] of them it reads
//! the rest with its keys locked, which ends it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::{At, Lookup, PendingLookup};
use reads::{Done, InFlightReads};

use crate::error::Result;
use crate::keyspace_entry::KeyspaceInstance;
use crate::rmw::Old;

/// Rounds of reads with nothing locked.
const ROUNDS_MAX: u32 = 16;
/// Lookups that are under way at a time.
const DEPTH: usize = 64;

/// A key, after the lock id of its keyspace.
type Place = (u32, Vec<u8>);

/// The old values that one write needs.
#[derive(Default)]
pub(crate) struct OldValues {
    read: BTreeMap<Place, ReadValue>,
    /// The keys whose values have to be read, and their engines.
    missing: Vec<(Arc<KeyspaceInstance>, Place)>,
    rounds: u32,
}

/// A value that was read, in its stored form.
struct ReadValue {
    instance: Arc<KeyspaceInstance>,
    value: Option<Vec<u8>>,
    lookup: Box<dyn PendingLookup>,
}

impl OldValues {
    /// Returns whether the key has a value, which replaces the content of `into`, in its stored
    /// form. Returns none if the value has to be read first. The key is locked.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn get(
        &mut self,
        instance: &Arc<KeyspaceInstance>,
        (lock_id, key): (u32, &[u8]),
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let pending = match instance.lookup(key, At::ForUpdate, into)? {
            Lookup::Found => return Ok(Some(true)),
            Lookup::Absent => return Ok(Some(false)),
            Lookup::Pending(pending) => pending,
        };
        let place = (lock_id, key.to_vec());
        if let Some(read) = self.read.get(&place) {
            let (value, instance_read) = (read.value.as_deref(), Some(&read.instance));
            let old = Old { key, value, instance: instance_read, lookup: &*read.lookup };
            if old.is_newest_in(instance) {
                into.clear();
                into.extend_from_slice(old.value.unwrap_or_default());
                return Ok(Some(old.value.is_some()));
            }
            self.read.remove(&place);
        }
        if self.rounds >= ROUNDS_MAX {
            let completed = instance.reads.complete_pending(pending, into);
            return Ok(Some(instance.placed(completed)?.0));
        }
        if self.missing.iter().all(|(_, missing)| *missing != place) {
            self.missing.push((Arc::clone(instance), place));
        }
        Ok(None)
    }

    /// Returns whether values have to be read.
    pub(crate) fn are_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Reads the missing values. Nothing is locked.
    ///
    /// # Errors
    /// The engines', of reads.
    pub(crate) fn read_missing(&mut self) -> Result<()> {
        self.rounds += 1;
        let mut missing = std::mem::take(&mut self.missing);
        missing.sort_by_key(|(instance, _)| Arc::as_ptr(instance));
        for of_one in missing.chunk_by(|one, other| Arc::ptr_eq(&one.0, &other.0)) {
            match of_one {
                [(instance, place)] => self.read_one(instance, place)?,
                [(instance, _), ..] => self.read_many(instance, of_one)?,
                [] => {}
            }
        }
        Ok(())
    }

    fn read_one(&mut self, instance: &Arc<KeyspaceInstance>, place: &Place) -> Result<()> {
        let mut value = Vec::new();
        // Memory may know it now, and most likely still does once the key is locked.
        if let Lookup::Pending(lookup) = instance.lookup(&place.1, At::ForUpdate, &mut value)? {
            let completed = instance.reads.complete_pending(lookup, &mut value);
            let (is_found, lookup) = instance.placed(completed)?;
            let (value, instance) = (is_found.then_some(value), Arc::clone(instance));
            self.read.insert(place.clone(), ReadValue { instance, value, lookup });
        }
        Ok(())
    }

    /// Reads values of one engine. Their reads overlap.
    fn read_many(
        &mut self,
        instance: &Arc<KeyspaceInstance>,
        missing: &[(Arc<KeyspaceInstance>, Place)],
    ) -> Result<()> {
        let mut table = InFlightReads::new(DEPTH, instance.reads.budget());
        let (mut failed, mut spare) = (Vec::new(), Vec::new());
        let mut done = |number: usize, done: Done<'_>| {
            let Some((_, place)) = missing.get(number) else { return };
            match done.value {
                Ok(value) => {
                    let value = value.map(std::mem::take);
                    let (instance, lookup) = (Arc::clone(instance), done.lookup);
                    self.read.insert(place.clone(), ReadValue { instance, value, lookup });
                }
                Err(error) => failed.push((number, error)),
            }
        };
        for (number, (_, place)) in missing.iter().enumerate() {
            let mut lookup = match instance.lookup(&place.1, At::ForUpdate, &mut spare)? {
                Lookup::Pending(lookup) => lookup,
                Lookup::Found | Lookup::Absent => continue,
            };
            while let Err((refused, _)) = table.start(lookup, number) {
                table.complete(true, &mut done);
                lookup = refused;
            }
        }
        while !table.is_empty() {
            table.complete(true, &mut done);
        }
        for (number, error) in failed {
            // Without a descriptor for a queue, a value is read alone.
            match missing.get(number) {
                Some((_, place)) if error.is_retryable() => self.read_one(instance, place)?,
                _ => instance.placed(Err(error))?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for OldValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, missing, rounds } = self;
        let (read, missing) = (read.len(), missing.len());
        let mut shown = f.debug_struct("OldValues");
        shown.field("read", &read).field("missing", &missing).field("rounds", rounds).finish()
    }
}
