//! The interval cache: which blocks stay in memory (Flex 5.2).
//!
//! A block hangs on the head of its interval's version, so whoever finds the head has it, and no
//! version has another's. The cache only decides what goes: a hand goes round the heads whose blocks
//! it holds (CLOCK), passes by what was used since it came last, and takes the block of the next one. A
//! head that a commit has replaced is gone with its last reader, and its block with it.
//!
//! A head remembers how much had been given up when its block went (it is a *ghost*). So where it is read
//! again it is known whether a larger cache would have had it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use engine::MemoryGain;
use parking_lot::Mutex;

use crate::block::Block;
use crate::index::Head;
use crate::tally::Tally;

/// Parts of the cache, each with a hand.
const RINGS: usize = 16;
/// A cache of fewer bytes has no room for a usual interval: whatever is read would have been kept with more.
const STARVED_BYTES: u64 = BLOCK_PARTS * (16 << 10);
/// Bytes given up that are one page to the ghosts.
const GHOST_PAGE_BYTES: u64 = 4096;
/// No block takes more than this part of the cache.
const BLOCK_PARTS: u64 = 8;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Bytes of all blocks that anybody holds.
    pub(crate) tally: Arc<Tally>,
    rings: [Mutex<VecDeque<Weak<Head>>>; RINGS],
    next: AtomicUsize,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// Bytes given up so far, and how many more the cache is thought to have.
    given_up: AtomicU64,
    ghost_reach: AtomicU64,
    /// Blocks that so much more would have saved reading.
    ghost_hits: AtomicU64,
}

impl Cache {
    pub(crate) fn new(tally: Arc<Tally>) -> Self {
        let (rings, next) = (std::array::from_fn(|_| Mutex::default()), AtomicUsize::new(0));
        let [hits, misses, given_up, ghost_reach, ghost_hits] = Default::default();
        Self { tally, rings, next, hits, misses, given_up, ghost_reach, ghost_hits }
    }

    /// From now on counts what `bytes` more would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        self.ghost_reach.store(bytes, Relaxed);
    }

    /// Blocks of the device that so much more would have saved reading, as counted so far.
    pub(crate) fn ghost_hits(&self) -> u64 {
        self.ghost_hits.load(Relaxed)
    }

    /// The moment, in pages given up; never 0.
    fn moment(&self) -> u32 {
        ((self.given_up.load(Relaxed) / GHOST_PAGE_BYTES) as u32).max(1)
    }

    /// Counts an interval that was read again.
    fn note_read(&self, head: &Head, block: &Block) {
        let Some(gone) = head.take_ghost() else { return };
        let age = u64::from(self.moment().wrapping_sub(gone.get()));
        if age < self.ghost_reach.load(Relaxed) / GHOST_PAGE_BYTES {
            self.ghost_hits.fetch_add(MemoryGain::blocks(block.memory_bytes()), Relaxed);
        }
    }

    /// Keeps a block, if it is not too large for a cache of `share` bytes, and makes room for it.
    pub(crate) fn insert(&self, head: &Arc<Head>, block: &Arc<Block>, share: u64) {
        self.note_read(head, block);
        if block.memory_bytes() > share / BLOCK_PARTS {
            if share < STARVED_BYTES {
                self.ghost_hits.fetch_add(MemoryGain::blocks(block.memory_bytes()), Relaxed);
            }
            return;
        }
        if head.cache(block) {
            let mut ring = self.next_ring().lock();
            if ring.len() == ring.capacity() {
                ring.retain(|head| head.upgrade().is_some_and(|head| head.is_cached()));
            }
            ring.push_back(Arc::downgrade(head));
        }
        self.shrink(share);
    }

    /// Lets blocks go until no more than `share` bytes are there, or each was looked at twice.
    pub(crate) fn shrink(&self, share: u64) {
        for _ in 0..2 * RINGS {
            if self.tally.bytes() <= share {
                return;
            }
            let mut gone = Vec::new();
            let mut ring = self.next_ring().lock();
            for _ in 0..ring.len() {
                let bytes: u64 = gone.iter().map(|block: &Arc<Block>| block.memory_bytes()).sum();
                if self.tally.bytes().saturating_sub(bytes) <= share {
                    break;
                }
                let Some(weak) = ring.pop_front() else { break };
                let Some(head) = weak.upgrade() else { continue };
                if head.was_used() {
                    ring.push_back(weak);
                } else if let Some(block) = head.evict(self.moment()) {
                    self.given_up.fetch_add(block.memory_bytes(), Relaxed);
                    gone.push(block);
                }
            }
        }
    }

    /// Whether a block may be added without another one's going.
    pub(crate) fn has_room(&self, share: u64) -> bool {
        self.tally.bytes() < share - share / BLOCK_PARTS
    }

    fn next_ring(&self) -> &Mutex<VecDeque<Weak<Head>>> {
        &self.rings[self.next.fetch_add(1, Relaxed) % RINGS]
    }
}
