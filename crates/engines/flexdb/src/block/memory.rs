//! The memory of blocks: pools of their own, whose resident bytes are known ([`arena::pieces`]).
//!
//! Blocks are counted one by one, each with its slot. Memory between them is resident, too: pages
//! of which a part is free, in slabs of other lengths than the ones that are needed. The cache
//! limits it to a part of the budget ([`BlockMemory::loss_max`]).

use std::sync::Arc;

use arena::pieces::{Piece, Pool};

use memory_budget::{Account, Charge};

/// Part of the budget at opening (one in this many) that a slab takes, and its least and greatest
/// bytes.
const SLAB_PARTS: u64 = 256;
const SLAB_BYTES_MIN: u64 = 64 << 10;
const SLAB_BYTES_MAX: u64 = 4 << 20;
/// Part of the budget that may be resident between blocks, and bytes allowed in addition: a few
/// pages of each length.
const LOSS_PARTS: u64 = 32;
const LOSS_BYTES: u64 = 1 << 20;
/// Bytes that are returned to the system in one call, at least.
const STEP_BYTES: u64 = 64 << 10;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct BlockMemory {
    pool: Pool,
    account: Arc<Account>,
}

impl BlockMemory {
    /// Memory for blocks, which `account` counts.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        let slab = account.budget_bytes() / SLAB_PARTS;
        let pool = Pool::new(slab.clamp(SLAB_BYTES_MIN, SLAB_BYTES_MAX) as usize);
        Self { pool, account }
    }

    /// Takes a slot for `len` bytes, and a charge that counts the slot and `more` bytes.
    pub(super) fn take(&self, len: usize, more: u64) -> (Piece, Charge) {
        let piece = self.pool.take(len);
        let charge = self.account.charge(piece.capacity() as u64 + more);
        (piece, charge)
    }

    /// Bytes of all blocks that are held anywhere.
    pub(crate) fn bytes(&self) -> u64 {
        self.account.bytes()
    }

    /// Bytes that are resident.
    pub(crate) fn resident(&self) -> u64 {
        self.pool.resident()
    }

    /// How much more than blocks take may be resident.
    pub(crate) fn loss_max(&self) -> u64 {
        self.account.budget_bytes() / LOSS_PARTS + LOSS_BYTES
    }

    /// Returns memory that no block uses to the system: `bytes` bytes and some more, if there is
    /// enough. Returns how many bytes.
    pub(crate) fn release(&self, bytes: u64) -> u64 {
        self.pool.release(bytes + STEP_BYTES)
    }
}
