//! The interval cache: which blocks stay in memory (Flex 5.2).
//!
//! A block hangs on the head of its interval's version, so whoever finds the head has it, and no
//! version has another's. The cache only decides what goes: a hand goes round the heads whose blocks
//! it holds (CLOCK), passes by what was used since it came last, and takes the block of the next one. A
//! head that a commit has replaced is gone with its last reader, and its block with it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::block::Block;
use crate::index::Head;
use crate::tally::Tally;

/// Parts of the cache, each with a hand.
const RINGS: usize = 16;
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
}

impl Cache {
    pub(crate) fn new(tally: Arc<Tally>) -> Self {
        let (rings, next) = (std::array::from_fn(|_| Mutex::default()), AtomicUsize::new(0));
        Self { tally, rings, next, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Keeps a block, if it is not too large for a cache of `share` bytes, and makes room for it.
    pub(crate) fn insert(&self, head: &Arc<Head>, block: &Arc<Block>, share: u64) {
        if block.memory_bytes() > share / BLOCK_PARTS {
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
                } else {
                    gone.extend(head.evict());
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
