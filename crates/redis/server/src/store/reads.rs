//! Reads that a thread of its own does for the event loops, since they wait for the device.

use super::walks::{Request, Slice, read_slice};
use super::{DbIndex, Store, StoreError};

/// A read that a loop has another thread do.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Slice(Request),
    /// The value of a key.
    Value(DbIndex, Vec<u8>),
}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum Done {
    Slice(Slice),
    Value(Option<Vec<u8>>),
}

/// Reads. Waits for the device.
///
/// # Errors
/// The store's.
pub(crate) fn read(store: &dyn Store, wanted: &Wanted) -> Result<Done, StoreError> {
    match wanted {
        Wanted::Slice(request) => read_slice(store, request).map(Done::Slice),
        Wanted::Value(db, key) => {
            let mut value = Vec::new();
            let is_there = store.get(*db, key, &mut value)?;
            Ok(Done::Value(is_there.then_some(value)))
        }
    }
}
