//! Removes tables that the manifest does not name any more, once nobody reads in them.
//!
//! Whoever leaves a table last is often a get, and a file system that tells the device what is free takes
//! milliseconds for a file. So a task removes it. Jobs do it at their end, too: where room is short the next one may need it.

use std::sync::Arc;

use sync::locks::Mutex;

use crate::background::soon::Soon;
use crate::store::Shared;
use crate::table::TableStore;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Removals {
    tables: Arc<dyn TableStore>,
    left: Mutex<Vec<u64>>,
    soon: Arc<Soon>,
}

impl Removals {
    /// Of these tables.
    pub(crate) fn of(tables: &Arc<dyn TableStore>) -> Arc<Self> {
        let soon = Soon::new("lsm remove tables", |store: &Shared| store.removals.run());
        Arc::new(Self { tables: Arc::clone(tables), left: Mutex::default(), soon: Arc::new(soon) })
    }

    /// Tasks of this store do it from now on.
    pub(crate) fn begin(&self, store: &Arc<Shared>) {
        self.soon.begin(store);
    }

    /// Nobody reads in this table any more: it is removed by a task, or at once where there is none.
    pub(crate) fn note_left(&self, number: u64) {
        self.left.lock().push(number);
        if !self.soon.ask() {
            self.run();
        }
    }

    /// Removes the tables that were left. What cannot be removed now is an orphan, and goes when the store is opened.
    pub(crate) fn run(&self) {
        let left = std::mem::take(&mut *self.left.lock());
        for number in left {
            let _ = self.tables.remove(number);
        }
    }
}
