//! Removes tables that the manifest does not name any more, once no reader uses them.
//!
//! The last reader of a table is often a get, and a file system that tells the device which blocks
//! are free takes milliseconds for a file. So a task removes it. Jobs also do it at their end: if
//! space is short, the next job may need it.

use std::sync::Arc;

use sync::locks::Mutex;

use crate::background::on_demand::OnDemandTask;
use crate::store::Shared;
use lsm_tree::table::{ObsoleteFiles, TableStore};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct ObsoleteTables {
    tables: Arc<dyn TableStore>,
    left: Mutex<Vec<u64>>,
    task: Arc<OnDemandTask>,
}

impl ObsoleteTables {
    /// Returns the obsolete tables of these tables.
    pub(crate) fn of(tables: &Arc<dyn TableStore>) -> Arc<Self> {
        let task =
            OnDemandTask::new("lsm remove tables", |store: &Shared| store.tables.obsolete.run());
        Arc::new(Self { tables: Arc::clone(tables), left: Mutex::default(), task: Arc::new(task) })
    }

    /// From now on tasks of this store remove tables.
    pub(crate) fn begin(&self, store: &Arc<Shared>) {
        self.task.begin(store);
    }

    /// Removes the tables that were left. A table that cannot be removed now is an orphan, and is
    /// removed when the store is opened.
    pub(crate) fn run(&self) {
        let left = std::mem::take(&mut *self.left.lock());
        for number in left {
            let _ = self.tables.remove(number);
        }
    }
}

impl ObsoleteFiles for ObsoleteTables {
    /// A task removes the table, or this call does if there is no task.
    fn note_left(&self, number: u64) {
        self.left.lock().push(number);
        if !self.task.ask() {
            self.run();
        }
    }
}
