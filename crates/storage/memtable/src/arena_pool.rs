//! Memory that memtables have left, for the next ones: the system need not make its pages zero
//! again, with a page fault for each.
//!
//! 1. A memtable that is dropped leaves its chunks here (`arena::skip_list`), as far as there is
//!    room for them; the others are returned to the system.
//! 2. A thread that fills a memtable takes a chunk of the length that it needs, if there is one.
//! 3. Kept chunks are returned to the system if memtables need their room, if there is to be less
//!    memory, or if there are no writes.
//!
//! # Invariants
//! - Q1. The budget counts the bytes of the kept chunks that are in memory. Once a chunk is taken,
//!   these count as the memtables'; as the chunk is filled, its entries count instead.
//! - Q2. The kept bytes, with all memtables, are not above their share when they are left nor when
//!   a reservation is made.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arena::Arena;
use arena::skip_list::Reuse;
use memory_budget::Account;
use sync::locks::Mutex;

use crate::memory::MemtableMemory;

/// Shorter chunks are not worth it.
const CHUNK_BYTES_MIN: usize = 64 << 10;
/// Bytes of which a multiple is kept if a chunk has too little room; the rest is returned.
const STEP_BYTES: u64 = 64 << 10;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The chunks, and how many of them are kept.
#[derive(Debug)]
pub(crate) struct ArenaPool {
    /// Each with the bytes of it that are in memory.
    chunks: Mutex<Vec<(Arena, u64)>>,
    /// Bytes of all of them that are in memory.
    account: Account,
    /// Limits in bytes: of all of them, and of memtables and these together.
    most: AtomicU64,
    share: AtomicU64,
}

impl ArenaPool {
    /// Returns a place for chunks, which keeps none until [`MemtableMemory::keep_spare`].
    pub(crate) fn new(account: Account) -> Self {
        let (chunks, most, share) = Default::default();
        Self { chunks, account, most, share }
    }
}

impl MemtableMemory {
    /// From now on memtables that are dropped leave up to `most` bytes for the next ones, and no
    /// more than they then leave of `share`.
    pub fn keep_spare(&self, most: u64, share: u64) {
        self.spare.most.store(most, Relaxed);
        self.spare.share.store(share, Relaxed);
        self.shrink_spare(most.min(share.saturating_sub(self.bytes())));
    }

    /// Returns the bytes that are kept for the next memtables.
    pub fn spare_bytes(&self) -> u64 {
        self.spare.account.bytes()
    }

    /// Returns the bytes of memtables, of reservations and of kept chunks: the part of their share
    /// that no other part of the store may have.
    pub fn taken(&self) -> u64 {
        self.bytes() + self.spare_bytes()
    }

    /// Returns kept memory above `bytes` bytes to the system: the ends of the longest chunks.
    pub fn shrink_spare(&self, bytes: u64) {
        let mut gone = Vec::new();
        let mut chunks = self.spare.chunks.lock();
        while self.spare_bytes() > bytes {
            let longest = chunks.iter().enumerate().max_by_key(|(_, (_, touched))| *touched);
            let Some((at, &(_, touched))) = longest else { break };
            let excess = (self.spare_bytes() - bytes).next_multiple_of(STEP_BYTES);
            let cut = excess.min(touched);
            if cut == touched {
                gone.push(chunks.swap_remove(at));
            } else if let Some((chunk, touched)) = chunks.get_mut(at) {
                *touched -= cut;
                cut_off(chunk, *touched);
            }
            self.spare.account.release(cut);
        }
        // Not under the lock, which writers may want.
        drop(chunks);
        drop(gone);
    }
}

/// Releases all of a chunk but its first bytes to the system.
fn cut_off(chunk: &Arena, bytes: u64) {
    chunk.release(bytes as usize / WORD..chunk.words().len());
}

impl Reuse for MemtableMemory {
    fn take(&self, words: usize) -> Option<(Arena, usize)> {
        if words * WORD < CHUNK_BYTES_MIN {
            return None;
        }
        let mut chunks = self.spare.chunks.lock();
        let at = chunks.iter().rposition(|(chunk, _)| chunk.words().len() == words)?;
        let (chunk, touched) = chunks.swap_remove(at);
        // In this order: the budget counts them all the time.
        self.account().add(touched);
        self.spare.account.release(touched);
        Some((chunk, touched as usize / WORD))
    }

    fn note_filled(&self, words: usize) {
        self.release((words * WORD) as u64);
    }

    fn give(&self, chunk: Arena, touched: usize) {
        let (words, touched) = (chunk.words().len(), (touched * WORD) as u64);
        let spare = &self.spare;
        if words * WORD < CHUNK_BYTES_MIN || touched == 0 {
            return;
        }
        let mut chunks = spare.chunks.lock();
        let left = spare.share.load(Relaxed).saturating_sub(self.bytes());
        let room = left.min(spare.most.load(Relaxed)).saturating_sub(self.spare_bytes());
        let kept = touched.min(room / STEP_BYTES * STEP_BYTES);
        if kept == 0 {
            return;
        }
        if kept < touched {
            cut_off(&chunk, kept);
        }
        spare.account.add(kept);
        chunks.push((chunk, kept));
    }
}

impl Drop for MemtableMemory {
    fn drop(&mut self) {
        self.shrink_spare(0);
    }
}
