//! Stores whose budget becomes smaller and larger, and steps of their tests.

use engine::{Engine, ResizableMemory};
use memory_budget::MemoryGain;

use crate::bench::{Cranked, key};

/// Returns the value of a key: 150 bytes.
pub fn value(number: u64) -> Vec<u8> {
    let mut value = vec![number as u8; 150];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

impl<S: Engine + ResizableMemory> Cranked<S> {
    /// Puts the keys of these numbers.
    ///
    /// # Panics
    /// If a write is refused.
    pub fn put_values(&self, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| _ = self.put(&key(number), &value(number)));
    }

    /// Reads the keys of these numbers in their order.
    ///
    /// # Panics
    /// If a value is wrong.
    pub fn read_values(&self, mut numbers: std::ops::Range<u64>) {
        let wrong = numbers.find(|number| self.get(&key(*number)) != Some(value(*number)));
        assert_eq!(wrong, None, "the value of a key is wrong");
    }

    /// Runs all background work.
    ///
    /// # Panics
    /// If the store then has more memory than its budget.
    pub fn shrink(&self) {
        self.crank.run_all();
        assert!(self.store.needs().is_within_limit, "{} bytes", self.budget.used());
    }

    /// Makes the budget so small that the memtables have more than their share.
    ///
    /// # Panics
    /// If the store does not report that until the memtables are flushed.
    pub fn shrink_memtables(&self, limit: u64) {
        assert!(self.store.needs().is_within_limit);
        self.store.resize(limit).expect("it is open");
        let memtables = self.detail("memtable_bytes");
        assert!(!self.store.needs().is_within_limit, "{memtables} bytes of memtables");
        self.shrink();
    }

    /// Flushes the store, and does `reads` reads of random keys among the first `keys`. Returns the
    /// gain of more memory that the store counts for them.
    ///
    /// # Panics
    /// If a key is missing.
    pub fn gain_of_reads(&self, keys: u64, reads: u64) -> MemoryGain {
        self.store.flush().expect("flushes");
        self.crank.run_all();
        let before = self.store.needs().gain.saved_bytes;
        let mut state = 5_u64;
        for step in 0..reads {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            self.get(&key((state >> 33) % keys)).expect("it was put");
            if step % 1000 == 0 {
                self.store.needs();
            }
        }
        let gain = self.store.needs().gain;
        MemoryGain { saved_bytes: gain.saved_bytes - before, ..gain }
    }
}
