//! The clocks of the cache: which of them are used, and the piece that is evicted next.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sync::locks::Mutex;

use super::clock::{Clock, Slot};
use super::{Cached, Key, Measured};

/// Clocks, at most; a power of two, as their number always is.
const CLOCKS_MAX: usize = 16;

/// The place of a piece among the clocks.
trait Clocked {
    /// Returns the index of its clock among `clocks` clocks.
    fn clock(&self, clocks: usize) -> usize;
}

impl Clocked for Key {
    fn clock(&self, clocks: usize) -> usize {
        self.hash() as usize % clocks
    }
}

/// The clocks; the first `used` are used.
#[derive(Debug)]
pub(super) struct Clocks {
    all: Vec<Mutex<Clock>>,
    used: AtomicUsize,
    /// Held by a thread that changes their number.
    fitting: Mutex<()>,
}

impl Clocks {
    /// Makes empty clocks, all of which are used.
    pub(super) fn new() -> Self {
        Self {
            all: (0..CLOCKS_MAX).map(|index| Mutex::new(Clock::new(index))).collect(),
            used: AtomicUsize::new(CLOCKS_MAX),
            fitting: Mutex::default(),
        }
    }

    /// Returns the number of clocks that are used.
    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    fn get(&self, index: usize) -> Option<&Mutex<Clock>> {
        self.all.get(index)
    }

    /// Returns the piece of `key`, which gets a second chance.
    pub(super) fn lookup(&self, key: &Key) -> Option<Cached> {
        self.get(key.clock(self.used()))?.lock().lookup(key)
    }

    /// Returns whether there is a piece of `key`.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.get(key.clock(self.used())).is_some_and(|clock| clock.lock().has(key))
    }

    /// Returns the index of the clock that a piece of `key` goes to.
    pub(super) fn index_of(&self, key: &Key) -> usize {
        key.clock(self.used())
    }

    /// Adds a piece to the clock `index`, unless the key has one there. Returns whether it did.
    pub(super) fn add(&self, index: usize, key: Key, cached: Cached) -> bool {
        self.get(index).is_some_and(|clock| clock.lock().add(key, cached))
    }

    /// Returns the piece at the place that a mark names.
    pub(super) fn at(&self, mark: u64) -> Option<Cached> {
        self.get(Clock::index_in(mark))?.lock().at(mark)
    }

    /// Puts another copy at the place that a mark names, if `old` is still there. Returns the copy
    /// that is left over.
    pub(super) fn replace(&self, mark: u64, old: &Cached, new: Cached) -> Option<Cached> {
        self.get(Clock::index_in(mark))?.lock().replace(mark, old, new)
    }

    /// Changes the number of used clocks, so that each has at least `least` of `bytes` bytes. Calls
    /// `lost` for each piece whose new clock has another piece of its key: with its bytes, and its
    /// bytes that are not in the pool.
    pub(super) fn fit(&self, bytes: u64, least: u64, lost: &dyn Fn(u64, u64)) {
        let fitting = |least: u64| -> usize {
            let clocks = (bytes / least).clamp(1, CLOCKS_MAX as u64);
            1 << clocks.ilog2()
        };
        let _fitting = self.fitting.lock();
        let used = self.used();
        // At least twice the room, or the number would change with every table.
        let wanted = fitting(least).min(used.max(fitting(2 * least)));
        if wanted != used {
            self.use_clocks(wanted, lost);
        }
    }

    /// Uses `clocks` clocks from now on.
    fn use_clocks(&self, clocks: usize, lost: &dyn Fn(u64, u64)) {
        self.used.store(clocks, Relaxed);
        for (index, clock) in self.all.iter().enumerate() {
            let elsewhere = clock.lock().take_others(|key| key.clock(clocks) == index);
            for slot in elsewhere {
                let (bytes, beside) = (slot.cached.bytes(), slot.cached.beside());
                let to = self.get(slot.key.clock(clocks));
                let left_over = to.map(|clock| clock.lock().put(slot));
                if !matches!(left_over, Some(None)) {
                    lost(bytes, beside);
                }
            }
        }
    }

    /// Evicts a piece of the first clock from the `grown`th on that has no less than its part of
    /// the `held` bytes of all: there is one as long as there is any piece. Otherwise clocks would
    /// grow and shrink by chance.
    pub(super) fn evict(&self, grown: usize, held: u64) -> Option<Slot> {
        let used = self.used();
        let part = held / used as u64;
        (0..CLOCKS_MAX).find_map(|nth| {
            let index = (grown + nth) % CLOCKS_MAX;
            let part = if index < used { part } else { 0 };
            let clock = self.get(index).map(|clock| clock.lock());
            // It is dropped after the lock is released.
            clock.filter(|clock| clock.bytes() >= part).and_then(|mut clock| clock.evict())
        })
    }
}
