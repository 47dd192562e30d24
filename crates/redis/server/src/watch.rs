//! WATCH: which connections want to know that a key changed.
//!
//! # Invariants
//! I1. A writer calls [`Watches::touch`] while still inside the gate: after its change, or before
//!     the commit if it is a transaction.
//! I2. WATCH and EXEC run alone in the gate, so a key is registered before any change that EXEC
//!     must notice, and every such change has been noted when EXEC looks. A thread that registers
//!     keys outside of the gate waits for the turns of all loops before it reads them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use thermocline::sync::locks::Mutex;

use crate::store::DbIndex;

/// Set once a watched key changed. One per connection that watches.
pub(crate) type Changed = Arc<AtomicBool>;

/// A key of a database.
type Place = (DbIndex, Vec<u8>);

/// The keys that are watched, by any connection.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Registered keys. Relaxed is enough for it: the gate's locks order it against writers (I2).
    count: AtomicUsize,
    by_key: Mutex<HashMap<Place, Vec<Changed>>>,
}

impl Watches {
    /// Notifies the watchers of `key` that it changed. One load when nothing is watched.
    #[inline]
    pub(crate) fn touch(&self, db: DbIndex, key: &[u8]) {
        if self.count.load(Relaxed) > 0 {
            self.touch_watched(db, key);
        }
    }

    #[cold]
    fn touch_watched(&self, db: DbIndex, key: &[u8]) {
        if let Some(watchers) = self.by_key.lock().get(&(db, key.to_vec())) {
            watchers.iter().for_each(|changed| changed.store(true, Relaxed));
        }
    }

    /// Returns the watched keys of `db`, for a flush, which touches the ones that exist.
    pub(crate) fn keys(&self, db: DbIndex) -> Vec<Vec<u8>> {
        let by_key = self.by_key.lock();
        by_key.keys().filter(|(of, _)| *of == db).map(|(_, key)| key.clone()).collect()
    }

    /// Registers `changed` for `key`.
    pub(crate) fn add(&self, db: DbIndex, key: &[u8], changed: &Changed) {
        let mut by_key = self.by_key.lock();
        by_key.entry((db, key.to_vec())).or_default().push(Arc::clone(changed));
        self.count.store(by_key.len(), Relaxed);
    }

    /// Takes `changed` off `key`.
    pub(crate) fn remove(&self, db: DbIndex, key: &[u8], changed: &Changed) {
        let mut by_key = self.by_key.lock();
        let place = (db, key.to_vec());
        if let Some(watchers) = by_key.get_mut(&place) {
            watchers.retain(|other| !Arc::ptr_eq(other, changed));
            if watchers.is_empty() {
                by_key.remove(&place);
            }
        }
        self.count.store(by_key.len(), Relaxed);
    }
}
