//! Locks by key, for stores that have no atomic read-modify-write of their own.

use std::hash::{BuildHasher, RandomState};

use parking_lot::{Mutex, MutexGuard};

const STRIPES: usize = 1024;

/// Locks that keys share by their hash. They order read-modify-writes among each other; blind
/// writes do not take them. These stores' users get no more than that without transactions.
pub(crate) struct Stripes {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for Stripes {
    fn default() -> Self {
        let locks = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Self { locks, hasher: RandomState::new() }
    }
}

impl Stripes {
    /// The lock of `key`.
    pub(crate) fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.locks[self.hasher.hash_one(key) as usize % STRIPES].lock()
    }
}
