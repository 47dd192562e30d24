//! What the store takes beside the pages of its logs and its cache, which are charged one by one: it is
//! summed up every now and then, and the budget is told of the difference.
//!
//! | part | charged |
//! |---|---|
//! | pages of logs, read cache and digests | as they are taken (`page_ring`) |
//! | slots of digests | as their table grows (`cold_index/digests`) |
//! | hot index, directory of chunks, ghosts of the read cache | their whole length, here |
//! | buffers of sessions and of many gets at once | as they are made (`ops/look_up/flight`); log and cache make room for them |
//! | buffers of flushes and scans, work memory of compactions | what is set aside for them, here |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::MemoryBudget;
use sync::locks::Mutex;

use crate::store::Shared;

/// Bytes charged for something whose size is looked at now and then; given back on drop.
pub(crate) struct Charge {
    bytes: Mutex<u64>,
    memory: Arc<MemoryBudget>,
}

impl Charge {
    pub(crate) fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { bytes: Mutex::new(0), memory }
    }

    /// It takes so much now.
    pub(crate) fn set(&self, bytes: u64) {
        let mut charged = self.bytes.lock();
        if bytes >= *charged {
            self.memory.charge_anyway(bytes - *charged);
        } else {
            self.memory.release(*charged - bytes);
        }
        *charged = bytes;
    }

    /// What is charged.
    pub(crate) fn get(&self) -> u64 {
        *self.bytes.lock()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.release(*self.bytes.get_mut());
    }
}

/// What those who use the store have in buffers, at most, not long ago.
#[derive(Default)]
pub(crate) struct UserBytes(AtomicU64);

/// By so much of it what is remembered becomes less at each look.
const FORGOTTEN_SHARE: u64 = 128;

impl UserBytes {
    /// They have so much now.
    fn note(&self, bytes: u64) {
        let remembered = self.get();
        self.0.store(bytes.max(remembered - remembered.div_ceil(FORGOTTEN_SHARE)), Relaxed);
    }

    /// What to keep free for them.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Shared {
    /// Tells the budget what the parts take that have memory of their own.
    pub(crate) fn charge_own_memory(&self) {
        let directory = self.cold.as_ref().map_or(0, |cold| cold.index.figures().directory_bytes);
        let digests = self.digest_figures();
        let grown = self.index.figures().bytes + directory + self.cache.ghost_bytes();
        self.own_memory.set(grown + self.set_aside_bytes);
        // Whatever else is charged. A page that comes meanwhile is soon forgotten.
        let pages: u64 = self.logs().into_iter().flatten().map(|log| log.memory_bytes()).sum();
        let digests = digests.page_bytes + digests.slot_bytes;
        let known = self.own_memory.get() + pages + self.cache.memory_bytes() + digests;
        self.user_bytes.note(self.host.memory.used().saturating_sub(known));
    }
}
