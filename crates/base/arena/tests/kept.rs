//! Keeps all chunks that lists leave.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use thermocline_arena::Arena;
use thermocline_arena::skip_list::Reuse;

/// Chunks, and how many words of the taken ones were in memory, and are filled.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    chunks: Mutex<Vec<(Arena, usize)>>,
    pub(crate) found: AtomicUsize,
    pub(crate) filled: AtomicUsize,
}

impl Reuse for Kept {
    fn take(&self, words: usize) -> Option<(Arena, usize)> {
        let mut chunks = self.chunks.lock().expect("nobody panics under it");
        let at = chunks.iter().position(|(chunk, _)| chunk.words().len() == words)?;
        let (chunk, touched) = chunks.swap_remove(at);
        self.found.fetch_add(touched, Relaxed);
        Some((chunk, touched))
    }

    fn note_filled(&self, words: usize) {
        self.filled.fetch_add(words, Relaxed);
    }

    fn give(&self, chunk: Arena, touched: usize) {
        self.chunks.lock().expect("nobody panics under it").push((chunk, touched));
    }
}
