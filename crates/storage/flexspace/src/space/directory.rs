//! The directory that a space has for itself.

use std::sync::Arc;

use device::{Device, File};
use sync::Mutex;

/// The directory of a space, which is locked as long as the space is open.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) device: Arc<dyn Device>,
    lock: Mutex<Option<Arc<dyn File>>>,
}

impl Directory {
    pub(super) fn new(device: Arc<dyn Device>, lock: Arc<dyn File>) -> Self {
        Self { device, lock: Mutex::new(Some(lock)) }
    }

    /// Lets others open the space.
    pub(super) fn unlock(&self) {
        self.lock.lock().take();
    }
}
