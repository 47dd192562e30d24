//! The files of one engine of a keyspace, which the last holder removes if the catalog no longer
//! names them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use device::Device;

use crate::owner;

/// The directory of one engine, on the database's device.
pub(crate) struct InstanceFiles {
    /// Its path, relative to the database's device.
    pub(crate) dir: String,
    device: Arc<dyn Device>,
    /// Set once the catalog no longer names it: the last holder that drops it removes its files.
    delete_on_drop: AtomicBool,
}

impl InstanceFiles {
    pub(crate) fn new(dir: String, device: Arc<dyn Device>) -> Self {
        Self { dir, device, delete_on_drop: AtomicBool::new(false) }
    }

    /// Returns the same directory for an instance that does not use it.
    pub(super) fn unused(&self) -> Self {
        Self::new(self.dir.clone(), Arc::clone(&self.device))
    }

    /// Lets the last holder remove the files.
    pub(super) fn delete_on_drop(&self) {
        self.delete_on_drop.store(true, Relaxed);
    }

    /// Removes the files, if the catalog no longer names them. Their engine is closed.
    pub(super) fn remove_if_unnamed(&self) {
        if self.delete_on_drop.load(Relaxed) {
            // No caller is left to get a failure here; files that stay are swept at the next open.
            let _ = owner::remove_dropped(&*self.device, &self.dir);
        }
    }
}
