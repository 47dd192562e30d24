//! The memory of the memtables of a store, and reservations of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use engine::{Reservation, Room};
use memory_budget::{Account, MemoryBudget};

use crate::arena_pool::ArenaPool;

/// The bytes of all memtables that are referenced, of reservations, and of spare chunks.
#[derive(Debug)]
pub struct MemtableMemory {
    /// Of memtables and reservations.
    account: Arc<Account>,
    /// Reservations that are not dropped.
    reservations: AtomicU64,
    pub(crate) spare: ArenaPool,
}

impl MemtableMemory {
    /// Returns a memory that nothing uses, in a budget.
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        let (account, spare) = (Arc::new(Account::new(budget)), Account::new(budget));
        Self { account, reservations: AtomicU64::new(0), spare: ArenaPool::new(spare) }
    }

    /// Returns the account of memtables and reservations.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Returns the bytes of memtables and of reservations.
    pub fn bytes(&self) -> u64 {
        self.account.bytes()
    }

    /// Returns the number of reservations that are not dropped.
    pub fn reservations(&self) -> u64 {
        self.reservations.load(SeqCst)
    }

    /// Returns whether a write has a reservation that it has not filled yet.
    pub fn has_reservations(&self) -> bool {
        self.reservations() > 0
    }

    /// Reserves `bytes` for a write, if the sum of all is then not above `max`. The rest returns to
    /// `room`, which calls [`MemtableMemory::end_reservation`]. (M8)
    pub fn try_reserve<'a>(
        &self,
        bytes: u64,
        max: u64,
        room: &'a dyn Room,
    ) -> Option<Reservation<'a>> {
        // Before it counts: a thread that finds no reservation finds all writes in memtables.
        self.reservations.fetch_add(1, SeqCst);
        let Some(sum) = self.account.try_add(bytes, max) else {
            self.reservations.fetch_sub(1, SeqCst);
            return None;
        };
        if sum + self.spare_bytes() > max {
            self.shrink_spare(max - sum);
        }
        Some(Reservation::new(room, bytes, 0))
    }

    /// Reserves `bytes`, whatever the sum is then.
    pub fn reserve_anyway<'a>(&self, bytes: u64, room: &'a dyn Room) -> Reservation<'a> {
        self.reservations.fetch_add(1, SeqCst);
        self.account.add(bytes);
        Reservation::new(room, bytes, 0)
    }

    /// Takes back the rest of a reservation.
    pub fn end_reservation(&self, bytes: u64) {
        self.account.release(bytes);
        self.reservations.fetch_sub(1, SeqCst);
    }

    /// From now on counts `bytes` of the reservation as a memtable's. Bytes beyond it are charged.
    pub fn fill(&self, bytes: u64, room: &mut Reservation<'_>) {
        let lacking = bytes - room.spend(bytes);
        if lacking > 0 {
            self.account.add(lacking);
        }
    }

    /// Takes back bytes that were counted as a memtable's.
    pub fn release(&self, bytes: u64) {
        self.account.release(bytes);
    }
}

impl Room for MemtableMemory {
    fn release(&self, bytes: u64, _slot: u32) {
        self.end_reservation(bytes);
    }
}
