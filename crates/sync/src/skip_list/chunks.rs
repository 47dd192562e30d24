//! Words of a skip list: handed out once, in chunks each of which is twice as long as the one before.
//!
//! A position is the number of a word. Chunk `k` has those from `2^(FIRST_BITS + k)` to twice that, so the
//! highest bit of a position tells its chunk, and no position is zero. A run of words lies in one chunk:
//! one that does not fit what is left of a chunk begins the next one that is long enough. What is skipped
//! was never touched, and takes addresses only.

use crate::arena::Arena;
use crate::atomic::{AtomicU64, Ordering};
use crate::set_once::SetOnce;

/// The first chunk is a page of the system: memtables may be as small as that. Models have few words.
const FIRST_BITS: u32 = if cfg!(any(loom, shuttle)) { 4 } else { 9 };
/// So many that addresses end before they do.
const CHUNKS: usize = 36;

#[derive(Debug)]
pub(super) struct Chunks {
    /// Those that were needed so far.
    chunks: [SetOnce<Arena>; CHUNKS],
    /// The first position that was not handed out.
    end: AtomicU64,
}

impl Chunks {
    pub(super) fn new() -> Self {
        let chunks = std::array::from_fn(|_| SetOnce::new());
        Self { chunks, end: AtomicU64::new(1 << FIRST_BITS) }
    }

    /// So many words, which nobody else has and which are zero, and where they begin.
    pub(super) fn allocate(&self, words: usize) -> (u64, &[AtomicU64]) {
        let mut end = self.end.load(Ordering::Relaxed);
        // Relaxed: a position is the caller's alone, until a link to it is published.
        let at = loop {
            let at = Self::begin(end, words as u64);
            let next = at + words as u64;
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            match self.end.compare_exchange_weak(end, next, order.0, order.1) {
                Ok(_) => break at,
                Err(other) => end = other,
            }
        };
        let place = &self.chunks[Self::chunk(at)];
        if place.get().is_none() {
            let chunk = Arena::new(1 << at.ilog2());
            // Or a part of the system's huge page would be resident that is not used.
            chunk.advise_small();
            place.get_or_set(chunk);
        }
        (at, &self.from(at)[..words])
    }

    /// Where `words` words go, if all below `end` are taken.
    fn begin(end: u64, words: u64) -> u64 {
        let chunk_end = 2 << end.ilog2();
        if end + words <= chunk_end { end } else { words.next_power_of_two().max(chunk_end) }
    }

    fn chunk(position: u64) -> usize {
        (position.ilog2() - FIRST_BITS) as usize
    }

    /// The words from a position that was handed out to the end of its chunk.
    #[inline]
    pub(super) fn from(&self, position: u64) -> &[AtomicU64] {
        let chunk = self.chunks[Self::chunk(position)].get();
        let chunk = chunk.expect("it was made before the position was published");
        &chunk.words()[(position ^ (1 << position.ilog2())) as usize..]
    }
}
