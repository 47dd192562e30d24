//! A walk over the pairs of a database, in key order, in the state at its start.

use std::marker::PhantomData;

use crate::db::{Db, Error, as_bytes, checked};
use crate::ffi;

/// A walk over pairs.
pub struct Cursor<'a> {
    iterator: *mut ffi::leveldb_iterator_t,
    _db: PhantomData<&'a Db>,
}

impl Cursor<'_> {
    pub(crate) fn new(iterator: *mut ffi::leveldb_iterator_t) -> Self {
        Self { iterator, _db: PhantomData }
    }

    /// Returns the pair at its position, or `None` at the end.
    ///
    /// # Errors
    /// LevelDB's errors; the walk is then at its end.
    pub fn pair(&self) -> Result<Option<(&[u8], &[u8])>, Error> {
        // SAFETY: the iterator lives as long as `self`.
        if unsafe { ffi::leveldb_iter_valid(self.iterator) } == 0 {
            return checked(|error| {
                // SAFETY: the iterator lives as long as `self`, `error` points at null.
                unsafe { ffi::leveldb_iter_get_error(self.iterator, error) }
            })
            .map(|()| None);
        }
        let (mut key_bytes, mut value_bytes) = (0, 0);
        // SAFETY: the iterator is alive and valid.
        let key = unsafe { ffi::leveldb_iter_key(self.iterator, &raw mut key_bytes) };
        // SAFETY: the iterator is alive and valid.
        let value = unsafe { ffi::leveldb_iter_value(self.iterator, &raw mut value_bytes) };
        // SAFETY: stays until the iterator is moved, which needs `self` to be borrowed mutably.
        let key = unsafe { as_bytes(key, key_bytes) };
        // SAFETY: as above.
        let value = unsafe { as_bytes(value, value_bytes) };
        Ok(Some((key, value)))
    }

    /// Moves to the next pair; only from one.
    pub fn advance(&mut self) {
        // SAFETY: the iterator is alive; LevelDB asks that it be valid, which is asked here.
        if unsafe { ffi::leveldb_iter_valid(self.iterator) } != 0 {
            // SAFETY: alive and valid.
            unsafe { ffi::leveldb_iter_next(self.iterator) };
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: freed once, here.
        unsafe { ffi::leveldb_iter_destroy(self.iterator) };
    }
}
