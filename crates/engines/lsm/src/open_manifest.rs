//! The manifest of an open store.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

use codec::SeqNo;
use edits::Chain;
use lsm_tree::edit::Edit;
use sync::{Mutex, MutexGuard};

/// The chain of edits of a store's tables.
pub(crate) type Manifest = Chain<Edit>;

/// The manifest, and the number up to which it says that writes are persisted.
pub(crate) struct OpenManifest {
    /// Held by a thread that changes the version. `None` once the store is closed.
    chain: Mutex<Option<Manifest>>,
    /// Everything up to this is in tables, durably.
    persisted: AtomicU64,
}

impl OpenManifest {
    /// Makes the part of a store that has found or begun this manifest.
    pub(crate) fn new(manifest: Manifest) -> Self {
        let persisted = AtomicU64::new(manifest.persisted().get());
        Self { chain: Mutex::new(Some(manifest)), persisted }
    }

    /// Locks the manifest, for a thread that changes the version.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Manifest>> {
        self.chain.lock()
    }

    /// Returns the number up to which everything is in tables, durably.
    pub(crate) fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(Acquire))
    }

    /// Notes that everything up to `persisted` is in tables, as the manifest has it.
    pub(crate) fn note_persisted(&self, persisted: SeqNo) {
        self.persisted.fetch_max(persisted.get(), Release);
    }

    /// Closes the manifest: from now on nothing is committed.
    pub(crate) fn close(&self) {
        *self.chain.lock() = None;
    }
}
