//! Old values for a write whose keys are locked: those on the device are read with nothing locked.
//!
//! 1. With its keys locked, the write takes the values that memory knows. If it needs others, it
//!    notes them, and unlocks.
//! 2. The others are read.
//! 3. With the keys locked again, a value that was read counts if no other write of the key was
//!    first. Otherwise step 1 follows again: memory usually knows the value of that other write.
//!
//! So no thread waits for the device while it holds the lock of a key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::{At, Lookup, PendingLookup};

use crate::error::Result;
use crate::keyspace_entry::KeyspaceInstance;
use crate::rmw::Old;

/// A key, after the lock id of its keyspace.
type Place = (u32, Vec<u8>);

/// The old values that one write needs.
#[derive(Default)]
pub(crate) struct OldValues {
    read: BTreeMap<Place, ReadValue>,
    /// The keys whose values have to be read, and their engines.
    missing: Vec<(Arc<KeyspaceInstance>, Place)>,
}

/// A value that was read, in its stored form.
struct ReadValue {
    instance: Arc<KeyspaceInstance>,
    value: Option<Vec<u8>>,
    /// None if memory knew the value when it was to be read: it is looked up again.
    lookup: Option<Box<dyn PendingLookup>>,
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
        match instance.lookup(key, At::ForUpdate, into)? {
            Lookup::Found => return Ok(Some(true)),
            Lookup::Absent => return Ok(Some(false)),
            Lookup::Pending(_) => {}
        }
        let place = (lock_id, key.to_vec());
        if let Some(read) = self.read.get(&place)
            && let Some(lookup) = &read.lookup
        {
            let (value, instance_read) = (read.value.as_deref(), Some(&read.instance));
            let old = Old { key, value, instance: instance_read, lookup: &**lookup };
            if old.is_newest_in(instance) {
                into.clear();
                into.extend_from_slice(old.value.unwrap_or_default());
                return Ok(Some(old.value.is_some()));
            }
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
        for (instance, place) in std::mem::take(&mut self.missing) {
            let mut value = Vec::new();
            let read = match instance.lookup(&place.1, At::ForUpdate, &mut value)? {
                // Memory knows it now, and most likely still does once the key is locked.
                Lookup::Found | Lookup::Absent => ReadValue { instance, value: None, lookup: None },
                Lookup::Pending(lookup) => {
                    let completed = instance.reads.complete_pending(lookup, &mut value);
                    let (is_found, lookup) = instance.placed(completed)?;
                    let value = is_found.then_some(value);
                    ReadValue { instance, value, lookup: Some(lookup) }
                }
            };
            self.read.insert(place, read);
        }
        Ok(())
    }
}

impl fmt::Debug for OldValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, missing } = self;
        f.debug_struct("OldValues")
            .field("read", &read.len())
            .field("missing", &missing.len())
            .finish()
    }
}
