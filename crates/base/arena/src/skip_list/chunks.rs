//! Words of a skip list: handed out once, in chunks each twice as long as the one before.
//!
//! A position is the number of a word. Chunk `k` has the positions from `2^(FIRST_BITS + k)` to
//! twice that, so the highest bit of a position gives its chunk, and no position is zero. A run of
//! words is in one chunk: one that does not fit the rest of a chunk begins the next one that is
//! long enough. Skipped words were never touched, and take addresses only.
//!
//! A chunk may be one that another list has left ([`Reuse`]). Then the system has made its pages
//! before, and no words are set to zero: the caller finds any old values in its words.
//!
//! # Invariants
//! - C1. The giver of a reused chunk is notified once of every word that was in memory when the
//!   chunk was taken. This happens after each [`STEP_WORDS`] are handed out, and for the rest when
//!   a longer chunk begins or the list is dropped.

use std::sync::Arc;

use super::Reuse;
use crate::arena::Arena;
use sync::SetOnce;
use sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

/// The first chunk is a page of the system: memtables may be as small as that. Models have few
/// words.
const FIRST_BITS: u32 = if cfg!(any(loom, shuttle)) { 4 } else { 9 };
/// Number of chunks: addresses end before they do. Models have few steps.
const CHUNKS: usize = if cfg!(any(loom, shuttle)) { 10 } else { 36 };
/// Words after which [`Reuse::note_filled`] is called again: 64 KiB.
const STEP_WORDS: u64 = 1 << 13;

#[derive(Debug)]
pub(super) struct Chunks {
    /// The chunks that were needed so far.
    chunks: [SetOnce<Chunk>; CHUNKS],
    /// The first position that was not handed out.
    end: AtomicU64,
    reuse: Option<Arc<dyn Reuse>>,
}

#[derive(Debug)]
struct Chunk {
    arena: Arena,
    /// The first ones of its words that were in memory when it was taken.
    found: u64,
    /// The number of these that were reported as filled.
    told: AtomicU64,
}

impl Chunks {
    pub(super) fn new(reuse: Option<Arc<dyn Reuse>>) -> Self {
        let chunks = std::array::from_fn(|_| SetOnce::new());
        Self { chunks, end: AtomicU64::new(1 << FIRST_BITS), reuse }
    }

    /// Returns `words` words, which no other thread has, and their position. Anything may be in
    /// them.
    pub(super) fn allocate(&self, words: usize) -> (u64, &[AtomicU64]) {
        let mut end = self.end.load(Relaxed);
        // Relaxed: a position is the caller's alone, until a link to it is published.
        let at = loop {
            let at = Self::begin(end, words as u64);
            let next = at + words as u64;
            match self.end.compare_exchange_weak(end, next, Relaxed, Relaxed) {
                Ok(_) => break at,
                Err(other) => end = other,
            }
        };
        let place = &self.chunks[Self::chunk(at)];
        let chunk = match place.get() {
            Some(chunk) => chunk,
            None => self.begin_chunk(at),
        };
        if chunk.found > 0 {
            let filled = (at ^ (1 << at.ilog2())) + words as u64;
            self.report_filled(chunk, filled / STEP_WORDS * STEP_WORDS);
        }
        (at, &self.from(at)[..words])
    }

    /// Makes the chunk of a position, unless another thread does at the same time.
    #[cold]
    fn begin_chunk(&self, at: u64) -> &Chunk {
        let (place, words) = (&self.chunks[Self::chunk(at)], 1 << at.ilog2());
        let before = self.chunks[..Self::chunk(at)].iter().filter_map(SetOnce::get);
        before.for_each(|chunk| self.report_filled(chunk, chunk.found));
        let taken = self.reuse.as_ref().and_then(|reuse| reuse.take(words));
        let (arena, found) = taken.unwrap_or_else(|| {
            let arena = Arena::new(words);
            // Or a part of the system's huge page would be resident that is not used.
            arena.advise_small();
            (arena, 0)
        });
        debug_assert_eq!(arena.words().len(), words, "a reused chunk has the requested length");
        let chunk = Chunk { arena, found: found as u64, told: AtomicU64::new(0) };
        if let Err(chunk) = place.set(chunk) {
            self.leave(chunk, 0);
        }
        place.get().expect("it was set, here or by another thread")
    }

    /// C1, of the first words of a chunk.
    fn report_filled(&self, chunk: &Chunk, words: u64) {
        let words = words.min(chunk.found);
        if chunk.told.load(Relaxed) >= words {
            return;
        }
        // A thread that comes after others reports only the words that they have not reported.
        let more = words.saturating_sub(chunk.told.fetch_max(words, Relaxed));
        if let Some(reuse) = self.reuse.as_ref().filter(|_| more > 0) {
            reuse.note_filled(more as usize);
        }
    }

    /// Gives a chunk, of which `used` words were handed out, to the keeper of reused chunks.
    fn leave(&self, chunk: Chunk, used: u64) {
        self.report_filled(&chunk, chunk.found);
        if let Some(reuse) = &self.reuse {
            reuse.give(chunk.arena, used.max(chunk.found) as usize);
        }
    }

    /// Returns the position of `words` words, if all below `end` are taken.
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
        &chunk.arena.words()[(position ^ (1 << position.ilog2())) as usize..]
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        if self.reuse.is_none() {
            return;
        }
        let end = self.end.load(Ordering::Acquire);
        if end == 1 << FIRST_BITS {
            // No chunk was needed.
            return;
        }
        for index in 0..CHUNKS {
            let Some(chunk) = self.chunks[index].take() else { continue };
            let words = chunk.arena.words().len() as u64;
            // Words that were skipped at the end of one count as if they had been touched.
            let used = end.saturating_sub(words).min(words);
            self.leave(chunk, used);
        }
    }
}
