//! Memory of the store in addition to the pages of its logs and its cache, which are charged one by
//! one. It is summed up from time to time, and the difference is charged to the budget.
//!
//! | part | charged |
//! |---|---|
//! | pages of logs, read cache and digests | when a page is taken (`page_ring`) |
//! | slots of digests | when their table grows (`cold_index/digests`) |
//! | hot index, directory of chunks, ghosts of the read cache | their whole length, here |
//! | buffers of lookups in flight | when made (crate `reads`); log and cache make room |
//! | buffers of flushes and scans, work memory of compactions | the bytes reserved for them, here |

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::store::Shared;

/// Most bytes that the store's users have recently had in buffers.
#[derive(Default)]
pub(crate) struct UserAccount(AtomicU64);

/// Share of the remembered bytes, as a divisor, that is forgotten at each look.
const FORGOTTEN_SHARE: u64 = 128;

impl UserAccount {
    /// Notes the bytes that they have now.
    fn note(&self, bytes: u64) {
        let remembered = self.get();
        self.0.store(bytes.max(remembered - remembered.div_ceil(FORGOTTEN_SHARE)), Relaxed);
    }

    /// Returns the bytes to keep free for them.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Shared {
    /// Charges the budget for the parts that have memory of their own.
    pub(crate) fn charge_own_memory(&self) {
        let directory = self.cold.as_ref().map_or(0, |cold| cold.index.figures().directory_bytes);
        let digests = self.digest_figures();
        let grown = self.index.figures().bytes + directory + self.cache.ghost_bytes();
        self.own_memory.set(grown + self.reserved_bytes);
        // All other charged bytes. A page that is charged meanwhile is soon forgotten.
        let pages: u64 = self.logs().into_iter().flatten().map(|log| log.memory_bytes()).sum();
        let digests = digests.page_bytes + digests.slot_bytes;
        let known = self.own_memory.bytes() + pages + self.cache.memory_bytes() + digests;
        self.user_bytes.note(self.host.memory.used().saturating_sub(known));
    }
}
