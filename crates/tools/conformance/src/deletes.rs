//! Stores in which much is deleted, and steps of their tests.

use engine::{Direction, Engine, KeyRange};

use crate::bench::{Cranked, key};

/// Values of a store of 4 MB.
pub const VALUES: u64 = 400;
/// Bytes of each.
pub const VALUE_BYTES: usize = 10_000;

impl<S: Engine> Cranked<S> {
    /// Puts 4 MB of values, and flushes.
    ///
    /// # Panics
    /// If a call fails, or the device has fewer bytes then.
    pub fn fill_with_values(&self) {
        for number in 0..VALUES {
            self.put(&key(number), &[number as u8; VALUE_BYTES]);
            self.crank.run_all();
        }
        self.store.flush().expect("memory takes it");
        self.crank.run_all();
        assert!(self.disk_bytes() >= VALUES * VALUE_BYTES as u64);
    }

    /// Deletes all of these values.
    ///
    /// # Panics
    /// If a write is refused.
    pub fn delete_values(&self) {
        (0..VALUES).for_each(|number| _ = self.delete(&key(number)));
    }

    /// Returns the bytes of the store's files.
    pub fn disk_bytes(&self) -> u64 {
        self.store.stats().disk_bytes
    }

    /// Scans to the first pair, and returns the number of deleted keys that the scan met.
    ///
    /// # Panics
    /// If there is no pair.
    pub fn dead_before_first(&self, direction: Direction) -> u64 {
        let before = self.detail("scanned_dead_entries");
        let view = self.view();
        let mut cursor = view.scan(KeyRange::all(), direction).expect("it is open");
        assert!(cursor.next().expect("memory reads").is_some());
        self.detail("scanned_dead_entries") - before
    }

    /// Puts keys behind all others and removes the first ones, so that 100 are left.
    ///
    /// # Panics
    /// If a write is refused.
    pub fn queue(&self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.put(&key(number + 100), &[1; 100]);
            self.delete(&key(number));
        }
    }
}
