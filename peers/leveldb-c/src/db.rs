//! A database, and batches of writes to it.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;

use crate::cursor::Cursor;
use crate::ffi;
use crate::settings::{Options, Settings};

/// LevelDB's message of an error.
#[derive(Debug)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// An open database; closed on drop. LevelDB is safe to use from many threads.
pub struct Db {
    db: *mut ffi::leveldb_t,
    read: *mut ffi::leveldb_readoptions_t,
    write: *mut ffi::leveldb_writeoptions_t,
    /// The cache and the filter are in use until the database is closed.
    _options: Options,
}

// SAFETY: LevelDB's handles may be used from any thread; the options are only read after `open`.
unsafe impl Send for Db {}
// SAFETY: as above, also from many threads at the same time.
unsafe impl Sync for Db {}

impl Db {
    /// Opens or creates the database in the directory `path`.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn open(path: &Path, settings: &Settings) -> Result<Self, Error> {
        let options = Options::new(settings);
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error("the path has a zero byte".to_owned()))?;
        let db = checked(|error| {
            // SAFETY: options and name are alive during the call, `error` points at null.
            unsafe { ffi::leveldb_open(options.raw(), name.as_ptr(), error) }
        })?;
        // SAFETY: takes nothing; freed in drop.
        let read = unsafe { ffi::leveldb_readoptions_create() };
        // SAFETY: takes nothing; freed in drop.
        let write = unsafe { ffi::leveldb_writeoptions_create() };
        // SAFETY: `write` is alive.
        unsafe { ffi::leveldb_writeoptions_set_sync(write, settings.syncs.into()) };
        Ok(Self { db, read, write, _options: options })
    }

    /// Replaces `value` with the value of `key`; `false` if there is none.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Error> {
        let mut bytes = 0;
        let place = &raw mut bytes;
        let data = checked(|error| {
            // SAFETY: database and options live as long as `self`, the key and the place during the
            // call.
            unsafe { ffi::leveldb_get(self.db, self.read, chars(key), key.len(), place, error) }
        })?;
        if data.is_null() {
            return Ok(false);
        }
        value.clear();
        // SAFETY: `data` points at `bytes` bytes that are ours until they are freed.
        value.extend_from_slice(unsafe { as_bytes(data, bytes) });
        // SAFETY: owned here, and not used again.
        unsafe { ffi::leveldb_free(data.cast()) };
        Ok(true)
    }

    /// Writes a pair.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let (k, v) = (chars(key), chars(value));
        checked(|error| {
            // SAFETY: database and options live as long as `self`, key and value during the call.
            unsafe { ffi::leveldb_put(self.db, self.write, k, key.len(), v, value.len(), error) }
        })
    }

    /// Removes a key.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        checked(|error| {
            // SAFETY: database and options live as long as `self`, the key during the call.
            unsafe { ffi::leveldb_delete(self.db, self.write, chars(key), key.len(), error) }
        })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// LevelDB's errors.
    pub fn write(&self, batch: &Batch) -> Result<(), Error> {
        checked(|error| {
            // SAFETY: database and options live as long as `self`, the batch during the call.
            unsafe { ffi::leveldb_write(self.db, self.write, batch.0, error) }
        })
    }

    /// A cursor at the first key not below `from`.
    pub fn seek(&self, from: &[u8]) -> Cursor<'_> {
        // SAFETY: database and options live as long as `self`, which the cursor borrows.
        let iterator = unsafe { ffi::leveldb_create_iterator(self.db, self.read) };
        // SAFETY: the iterator is alive, the key during the call.
        unsafe { ffi::leveldb_iter_seek(iterator, chars(from), from.len()) };
        Cursor::new(iterator)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: no cursor is left, as they borrow `self`; freed once, here.
        unsafe { ffi::leveldb_close(self.db) };
        // SAFETY: freed once, here.
        unsafe { ffi::leveldb_readoptions_destroy(self.read) };
        // SAFETY: freed once, here.
        unsafe { ffi::leveldb_writeoptions_destroy(self.write) };
    }
}

/// Writes that are applied together.
pub struct Batch(*mut ffi::leveldb_writebatch_t);

impl Default for Batch {
    fn default() -> Self {
        // SAFETY: takes nothing; freed in drop.
        Self(unsafe { ffi::leveldb_writebatch_create() })
    }
}

impl Batch {
    /// Adds a pair.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let (k, v) = (chars(key), chars(value));
        // SAFETY: the batch lives as long as `self`, key and value are copied in the call.
        unsafe { ffi::leveldb_writebatch_put(self.0, k, key.len(), v, value.len()) };
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: freed once, here.
        unsafe { ffi::leveldb_writebatch_destroy(self.0) };
    }
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// `count` bytes at `data`.
///
/// # Safety
/// They are there, and stay unchanged as long as the result is used. `data` may be null if `count`
/// is 0.
pub(crate) unsafe fn as_bytes<'a>(data: *const c_char, count: usize) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    // SAFETY: by this function's own contract.
    unsafe { std::slice::from_raw_parts(data.cast(), count) }
}

/// Makes a call that takes an error pointer, and turns what it leaves there into an error.
pub(crate) fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, Error> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = call(&raw mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: the library set it to a text that ends in a zero byte, and left it to us.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: owned here, and not used again.
    unsafe { ffi::leveldb_free(error.cast()) };
    Err(Error(text))
}
