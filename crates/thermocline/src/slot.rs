//! A keyspace's place in the database, and the engine that fills it at the moment.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use codec::SeqNo;
use device::Device;
use engine::Engine;

use crate::options::KeyspaceOptions;

/// A keyspace that is open. It lives as long as a handle to it does.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) options: KeyspaceOptions,
    /// What its keys are locked under; stays the same when it is cleared.
    pub(crate) lock_id: u32,
    /// Swapped when the keyspace is cleared, under all key locks.
    pub(crate) current: ArcSwap<Generation>,
    /// Set when it is dropped, under all key locks; its handles are dead from then on.
    pub(crate) dropped: AtomicBool,
}

/// One engine of a keyspace, from its creation (or the last clearing) on. Snapshots and scans hold
/// it, so that what they show outlives a clearing.
pub(crate) struct Generation {
    /// Its id in the catalog and in journal records.
    pub(crate) id: u32,
    pub(crate) journaled: bool,
    pub(crate) engine: Box<dyn Engine>,
    /// The newest write that was given to it.
    last_written: AtomicU64,
    /// Its files, relative to the database's device.
    pub(crate) dir: String,
    device: Arc<dyn Device>,
    /// Set once the catalog no longer names it: the last one to let go removes its files.
    doomed: AtomicBool,
}

impl Generation {
    pub(crate) fn new(
        id: u32,
        journaled: bool,
        engine: Box<dyn Engine>,
        dir: String,
        device: Arc<dyn Device>,
    ) -> Self {
        let last_written = AtomicU64::new(engine.persisted().get());
        Self { id, journaled, engine, last_written, dir, device, doomed: AtomicBool::new(false) }
    }

    /// Notes that write `seqno` goes to this engine; before the write's ticket is finished.
    pub(crate) fn note_write(&self, seqno: SeqNo) {
        self.last_written.fetch_max(seqno.get(), Relaxed);
    }

    /// Whether everything that was written to it is in its own files.
    pub(crate) fn is_persisted(&self) -> bool {
        self.last_written.load(Relaxed) <= self.engine.persisted().get()
    }

    /// Lets the last holder remove the files.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Relaxed);
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure here; files that stay are swept at the next open.
        let _ = self.engine.close();
        if self.doomed.load(Relaxed) {
            let _ = self.device.remove_dir(&self.dir);
        }
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("id", &self.id).field("dir", &self.dir).finish()
    }
}
