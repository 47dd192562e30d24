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

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory_budget::{Account, MemoryBudget};

use crate::memory_split::MemorySplit;
use crate::options::MemoryPlan;
use crate::store::Shared;

/// The memory of a store: its split between the sides, and the bytes in addition to their pages.
pub(crate) struct StoreMemory {
    pub(crate) split: MemorySplit,
    /// Bytes charged for parts that take memory of their own.
    pub(crate) own: Account,
    /// Bytes reserved for buffers and for compactions.
    pub(crate) reserved_bytes: u64,
    /// Bytes that lookups in flight and others have in buffers.
    pub(crate) users: UserAccount,
}

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

impl StoreMemory {
    /// Returns the memory of a store by `plan`, of `budget`. Nothing is charged yet.
    pub(crate) fn new(plan: MemoryPlan, budget: &Arc<MemoryBudget>) -> Self {
        Self {
            own: Account::new(budget),
            reserved_bytes: plan.begin.work + plan.begin.buffers,
            users: UserAccount::default(),
            split: MemorySplit::new(plan),
        }
    }

    /// Charges the budget for parts that take `bytes` bytes now, and for the reserved bytes.
    fn charge_own(&self, bytes: u64) {
        self.own.set(bytes + self.reserved_bytes);
    }

    /// Notes the bytes of users: the `used` bytes of the budget, less the bytes charged here and
    /// the bytes of pages.
    fn note_users(&self, used: u64, paged: u64) {
        // A page that is charged meanwhile is soon forgotten.
        self.users.note(used.saturating_sub(self.own.bytes() + paged));
    }
}

impl Shared {
    /// Charges the budget for the parts that have memory of their own.
    pub(crate) fn charge_own_memory(&self) {
        let directory = self.cold.as_ref().map_or(0, |cold| cold.index.figures().directory_bytes);
        let digests = self.digest_figures();
        let grown = self.hot.index.figures().bytes + directory + self.cache.ghost_bytes();
        self.memory.charge_own(grown);
        let pages: u64 = self.logs().into_iter().flatten().map(|log| log.memory_bytes()).sum();
        let digests = digests.page_bytes + digests.slot_bytes;
        let paged = pages + self.cache.memory_bytes() + digests;
        self.memory.note_users(self.host.memory.used(), paged);
    }
}
