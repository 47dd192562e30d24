//! Declarations of LevelDB's C interface, as `leveldb/c.h` of version 1.23 has them.
//!
//! Every handle is an opaque pointer. A `char** errptr` must point at null; on failure it is set to
//! a text that is freed by `leveldb_free`.

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque!(
    leveldb_t,
    leveldb_cache_t,
    leveldb_filterpolicy_t,
    leveldb_iterator_t,
    leveldb_options_t,
    leveldb_readoptions_t,
    leveldb_writebatch_t,
    leveldb_writeoptions_t
);

type Key = *const c_char;
type Errors = *mut *mut c_char;

#[rustfmt::skip]
unsafe extern "C" {
    pub(crate) fn leveldb_free(pointer: *mut c_void);

    pub(crate) fn leveldb_open(options: *const leveldb_options_t, name: Key, error: Errors) -> *mut leveldb_t;
    pub(crate) fn leveldb_close(db: *mut leveldb_t);
    pub(crate) fn leveldb_get(db: *mut leveldb_t, options: *const leveldb_readoptions_t, key: Key, key_bytes: usize, value_bytes: *mut usize, error: Errors) -> *mut c_char;
    pub(crate) fn leveldb_put(db: *mut leveldb_t, options: *const leveldb_writeoptions_t, key: Key, key_bytes: usize, value: Key, value_bytes: usize, error: Errors);
    pub(crate) fn leveldb_delete(db: *mut leveldb_t, options: *const leveldb_writeoptions_t, key: Key, key_bytes: usize, error: Errors);
    pub(crate) fn leveldb_write(db: *mut leveldb_t, options: *const leveldb_writeoptions_t, batch: *mut leveldb_writebatch_t, error: Errors);

    pub(crate) fn leveldb_create_iterator(db: *mut leveldb_t, options: *const leveldb_readoptions_t) -> *mut leveldb_iterator_t;
    pub(crate) fn leveldb_iter_destroy(iterator: *mut leveldb_iterator_t);
    pub(crate) fn leveldb_iter_valid(iterator: *const leveldb_iterator_t) -> u8;
    pub(crate) fn leveldb_iter_seek(iterator: *mut leveldb_iterator_t, key: Key, key_bytes: usize);
    pub(crate) fn leveldb_iter_next(iterator: *mut leveldb_iterator_t);
    pub(crate) fn leveldb_iter_key(iterator: *const leveldb_iterator_t, bytes: *mut usize) -> *const c_char;
    pub(crate) fn leveldb_iter_value(iterator: *const leveldb_iterator_t, bytes: *mut usize) -> *const c_char;
    pub(crate) fn leveldb_iter_get_error(iterator: *const leveldb_iterator_t, error: Errors);

    pub(crate) fn leveldb_writebatch_create() -> *mut leveldb_writebatch_t;
    pub(crate) fn leveldb_writebatch_destroy(batch: *mut leveldb_writebatch_t);
    pub(crate) fn leveldb_writebatch_put(batch: *mut leveldb_writebatch_t, key: Key, key_bytes: usize, value: Key, value_bytes: usize);

    pub(crate) fn leveldb_readoptions_create() -> *mut leveldb_readoptions_t;
    pub(crate) fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t);
    pub(crate) fn leveldb_writeoptions_create() -> *mut leveldb_writeoptions_t;
    pub(crate) fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t);
    pub(crate) fn leveldb_writeoptions_set_sync(options: *mut leveldb_writeoptions_t, on: u8);

    pub(crate) fn leveldb_options_create() -> *mut leveldb_options_t;
    pub(crate) fn leveldb_options_destroy(options: *mut leveldb_options_t);
    pub(crate) fn leveldb_options_set_create_if_missing(options: *mut leveldb_options_t, on: u8);
    pub(crate) fn leveldb_options_set_compression(options: *mut leveldb_options_t, kind: c_int);
    pub(crate) fn leveldb_options_set_write_buffer_size(options: *mut leveldb_options_t, bytes: usize);
    pub(crate) fn leveldb_options_set_max_file_size(options: *mut leveldb_options_t, bytes: usize);
    pub(crate) fn leveldb_options_set_cache(options: *mut leveldb_options_t, cache: *mut leveldb_cache_t);
    pub(crate) fn leveldb_options_set_filter_policy(options: *mut leveldb_options_t, policy: *mut leveldb_filterpolicy_t);

    pub(crate) fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut leveldb_filterpolicy_t;
    pub(crate) fn leveldb_filterpolicy_destroy(policy: *mut leveldb_filterpolicy_t);
    pub(crate) fn leveldb_cache_create_lru(bytes: usize) -> *mut leveldb_cache_t;
    pub(crate) fn leveldb_cache_destroy(cache: *mut leveldb_cache_t);
}
