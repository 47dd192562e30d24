//! How a database is tuned, and the C options that follow.

use std::ffi::c_int;

use crate::ffi;

/// LevelDB's number for "no compression".
const NO_COMPRESSION: c_int = 0;

/// How a database is tuned.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Block cache, in bytes; blocks of tables that are mapped into memory are not in it.
    pub cache_bytes: usize,
    /// One memtable, in bytes; there are at most two.
    pub memtable_bytes: usize,
    /// One table, in bytes.
    pub table_bytes: usize,
    /// Bloom filter bits a key.
    pub filter_bits: i32,
    /// Whether each write waits for the device.
    pub syncs: bool,
}

/// C options, and the objects they refer to as long as the database is open; freed on drop.
pub(crate) struct Options {
    options: *mut ffi::leveldb_options_t,
    cache: *mut ffi::leveldb_cache_t,
    filter: *mut ffi::leveldb_filterpolicy_t,
}

impl Options {
    pub(crate) fn new(settings: &Settings) -> Self {
        // SAFETY: takes nothing; freed in drop.
        let options = unsafe { ffi::leveldb_options_create() };
        // SAFETY: takes a number; freed in drop.
        let cache = unsafe { ffi::leveldb_cache_create_lru(settings.cache_bytes) };
        // SAFETY: takes a number; freed in drop.
        let filter = unsafe { ffi::leveldb_filterpolicy_create_bloom(settings.filter_bits) };
        // SAFETY: `options` is alive, in this call and all below.
        unsafe { ffi::leveldb_options_set_create_if_missing(options, 1) };
        // SAFETY: as above.
        unsafe { ffi::leveldb_options_set_compression(options, NO_COMPRESSION) };
        // SAFETY: as above.
        unsafe { ffi::leveldb_options_set_write_buffer_size(options, settings.memtable_bytes) };
        // SAFETY: as above.
        unsafe { ffi::leveldb_options_set_max_file_size(options, settings.table_bytes) };
        // SAFETY: as above; the cache outlives the database, as `Options` does.
        unsafe { ffi::leveldb_options_set_cache(options, cache) };
        // SAFETY: as above; so does the filter.
        unsafe { ffi::leveldb_options_set_filter_policy(options, filter) };
        Self { options, cache, filter }
    }

    pub(crate) fn raw(&self) -> *const ffi::leveldb_options_t {
        self.options
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed once, here.
        unsafe { ffi::leveldb_options_destroy(self.options) };
        // SAFETY: the database that used it is closed.
        unsafe { ffi::leveldb_cache_destroy(self.cache) };
        // SAFETY: the database that used it is closed.
        unsafe { ffi::leveldb_filterpolicy_destroy(self.filter) };
    }
}
