//! Where the bytes of blocks lie: in memory of their own, of which it is known what is resident
//! ([`sync::pieces`]).
//!
//! Blocks are counted one by one, each with its slot. What lies between them is resident, too: pages of which a part is free, in
//! slabs of other lengths than those that are wanted. The cache holds that to a part of the budget ([`BlockMemory::loss_max`]).

use std::sync::Arc;

use sync::pieces::{Piece, Pool};

use crate::tally::{Charge, Tally};

/// Of the budget that the store is opened with a slab has one part, and so many bytes.
const SLAB_PARTS: u64 = 256;
const SLAB_BYTES_MIN: u64 = 64 << 10;
const SLAB_BYTES_MAX: u64 = 4 << 20;
/// Parts of the budget of which one may lie between blocks, and what may beside that: a few pages of each length.
const LOSS_PARTS: u64 = 32;
const LOSS_BYTES: u64 = 1 << 20;
/// Bytes that are given back to the system at once, at least.
const STEP_BYTES: u64 = 64 << 10;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct BlockMemory {
    pool: Pool,
    tally: Arc<Tally>,
}

impl BlockMemory {
    /// Memory for blocks, which `tally` counts.
    pub(crate) fn new(tally: Arc<Tally>) -> Self {
        let slab = tally.budget_bytes() / SLAB_PARTS;
        let pool = Pool::new(slab.clamp(SLAB_BYTES_MIN, SLAB_BYTES_MAX) as usize);
        Self { pool, tally }
    }

    /// A slot for so many bytes, and what counts it with `more` bytes.
    pub(super) fn take(&self, len: usize, more: u64) -> (Piece, Charge) {
        let piece = self.pool.take(len);
        let charge = self.tally.charge(piece.capacity() as u64 + more);
        (piece, charge)
    }

    /// Bytes of all blocks that anybody holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Bytes that are resident.
    pub(crate) fn resident(&self) -> u64 {
        self.pool.resident()
    }

    /// How much more than blocks take may be resident.
    pub(crate) fn loss_max(&self) -> u64 {
        self.tally.budget_bytes() / LOSS_PARTS + LOSS_BYTES
    }

    /// Gives back to the system what no block lies on: so many bytes and some more, if there are as many; answers how
    /// many.
    pub(crate) fn give_back(&self, bytes: u64) -> u64 {
        self.pool.give_back(bytes + STEP_BYTES)
    }
}
