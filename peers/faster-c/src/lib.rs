//! FASTER's C++ store, as far as the benchmark needs it, made safe.
//!
//! [`Store::open`] opens one over a directory, [`Session`] is the session of one thread. Keys have
//! 8 bytes, values up to [`VALUE_BYTES_MAX`]. Nothing of it survives the process: no checkpoint is
//! ever taken.
#![expect(unsafe_code, reason = "calls C++; the declarations are in ffi.rs")]
#![allow(non_camel_case_types, reason = "the names of the other side")]

mod ffi;
mod session;
mod slot;
#[cfg(test)]
mod tests;

pub use session::{Begun, Session};

use std::ffi::CString;
use std::path::Path;

/// A value may not be longer.
pub const VALUE_BYTES_MAX: usize = 1 << 16;

const PAGE_BYTES: u64 = 32 << 20;
/// FASTER holds four pages back as read-only, and wants two that change.
const PAGES_MIN: u64 = 6;
const PAGES_READ_ONLY: u64 = 4;
const MUTABLE_SHARE_MAX: f64 = 0.9;
const BUCKET_BYTES: u64 = 64;
/// Parts of the memory of which the table takes one at most.
const TABLE_PARTS: u64 = 3;
/// Bytes that a key takes of a table that has fewer buckets than it wants. These are eight bytes in
/// a bucket of which one place in eight is a link, and the empty places of the last bucket of each
/// chain.
const KEY_BYTES: u64 = 16;

/// Why FASTER did not do what it was asked.
#[derive(Debug)]
pub struct Error(pub(crate) String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// An open store.
pub struct Store {
    store: *mut ffi::shim_store,
}

// SAFETY: FASTER is used by many threads; the state of one thread is in `Session`, which is
// neither.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// Opens an empty store for about `keys` keys, whose table and log take up to `memory_bytes`;
    /// of the log more goes to files in `dir`. The table has a bucket for every two keys, as in
    /// FASTER's own benchmark.
    ///
    /// # Errors
    /// `memory_bytes` holds no log: FASTER's smallest has six pages of 32 MiB.
    pub fn open(dir: &Path, keys: u64, memory_bytes: u64) -> Result<Self, Error> {
        let fit = memory_bytes / TABLE_PARTS / BUCKET_BYTES;
        let buckets = (keys / 2).next_power_of_two().min(1 << fit.max(1).ilog2());
        let buckets = buckets.clamp(1 << 10, 1 << 30);
        let table_bytes = (buckets * BUCKET_BYTES).max(keys * KEY_BYTES);
        let pages = memory_bytes.saturating_sub(table_bytes) / PAGE_BYTES;
        if pages < PAGES_MIN {
            let least = (table_bytes + PAGES_MIN * PAGE_BYTES).div_ceil(1 << 20);
            return Err(Error(format!("FASTER wants at least {least} MiB for {keys} keys")));
        }
        let share = MUTABLE_SHARE_MAX.min((pages - PAGES_READ_ONLY) as f64 / pages as f64);
        let dir = dir.to_str().and_then(|dir| CString::new(dir).ok());
        let dir = dir.ok_or_else(|| Error("the directory's name is no UTF-8".to_owned()))?;
        // SAFETY: `dir` ends with a zero and lives for the call.
        let store = unsafe { ffi::shim_open(buckets, pages * PAGE_BYTES, share, dir.as_ptr()) };
        if store.is_null() {
            return Err(Error("FASTER refuses these sizes".to_owned()));
        }
        Ok(Self { store })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: it was made by `shim_open`, and sessions borrow the store, so none is left.
        unsafe { ffi::shim_close(self.store) };
    }
}
