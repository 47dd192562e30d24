//! Spreads a number, or a table, over one cell per processor, so that threads do not fight for a
//! cache line.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_utils::CachePadded;

/// More shards cost memory and a longer sum, and no longer lower contention by much.
const SHARDS_MAX: usize = 16;

/// One cell per processor, up to 16, each on cache lines of its own.
#[derive(Debug)]
pub struct Shards<T>(Box<[CachePadded<T>]>);

impl<T> Shards<T> {
    /// Makes each cell by `cell`.
    pub fn new(mut cell: impl FnMut() -> T) -> Self {
        Self((0..count()).map(|_| CachePadded::new(cell())).collect())
    }

    /// The calling thread's cell. Other threads may share it.
    #[inline]
    pub fn mine(&self) -> &T {
        // The count is a power of two.
        &self.0[thread_number() & (self.0.len() - 1)]
    }

    /// Returns the cells of all threads.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|cell| &**cell)
    }
}

fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        processors.next_power_of_two().min(SHARDS_MAX)
    })
}

/// How many threads of the foreground have a number. Numbers are dense in the order of first use,
/// so that few threads seldom share a cell.
static FOREGROUND: AtomicUsize = AtomicUsize::new(0);
/// How many threads of the background have a number. These numbers begin at the last cell.
static BACKGROUND: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Notes that the calling thread works in the background and records seldom, so that it takes no
/// number from the threads that record with each operation. To be called before the thread's first
/// record.
pub fn note_background_thread() {
    NUMBER.set(Some(!BACKGROUND.fetch_add(1, Ordering::Relaxed)));
}

/// Returns the number of the calling thread. A cell of [`Shards`] is chosen by its low bits. Few
/// threads have the same lowest bits.
#[inline]
pub fn thread_number() -> usize {
    NUMBER.get().unwrap_or_else(first_number)
}

#[cold]
fn first_number() -> usize {
    let number = FOREGROUND.fetch_add(1, Ordering::Relaxed);
    NUMBER.set(Some(number));
    number
}

#[cfg(test)]
mod tests;
