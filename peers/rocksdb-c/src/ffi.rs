//! Declarations of RocksDB's C interface, as `rocksdb/c.h` of version 11.8 has them.
//!
//! Every handle is an opaque pointer. A `char** errptr` must point at null; on failure it is set to
//! a text that is freed by `rocksdb_free`.

use std::ffi::{c_char, c_double, c_int, c_uchar, c_void};

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque!(
    rocksdb_t,
    rocksdb_options_t,
    rocksdb_block_based_table_options_t,
    rocksdb_cache_t,
    rocksdb_filterpolicy_t,
    rocksdb_flushoptions_t,
    rocksdb_iterator_t,
    rocksdb_pinnableslice_t,
    rocksdb_readoptions_t,
    rocksdb_wait_for_compact_options_t,
    rocksdb_write_buffer_manager_t,
    rocksdb_writebatch_t,
    rocksdb_writeoptions_t
);

type Key = *const c_char;
type Errors = *mut *mut c_char;

#[rustfmt::skip]
unsafe extern "C" {
    pub(crate) fn rocksdb_free(pointer: *mut c_void);

    pub(crate) fn rocksdb_open(options: *const rocksdb_options_t, name: Key, error: Errors) -> *mut rocksdb_t;
    pub(crate) fn rocksdb_close(db: *mut rocksdb_t);
    pub(crate) fn rocksdb_put(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, key: Key, key_bytes: usize, value: Key, value_bytes: usize, error: Errors);
    pub(crate) fn rocksdb_delete(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, key: Key, key_bytes: usize, error: Errors);
    pub(crate) fn rocksdb_write(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, batch: *mut rocksdb_writebatch_t, error: Errors);
    pub(crate) fn rocksdb_get_pinned(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t, key: Key, key_bytes: usize, error: Errors) -> *mut rocksdb_pinnableslice_t;
    pub(crate) fn rocksdb_flush(db: *mut rocksdb_t, options: *const rocksdb_flushoptions_t, error: Errors);

    pub(crate) fn rocksdb_wait_for_compact(db: *mut rocksdb_t, options: *mut rocksdb_wait_for_compact_options_t, error: Errors);
    pub(crate) fn rocksdb_wait_for_compact_options_create() -> *mut rocksdb_wait_for_compact_options_t;
    pub(crate) fn rocksdb_wait_for_compact_options_destroy(options: *mut rocksdb_wait_for_compact_options_t);

    pub(crate) fn rocksdb_pinnableslice_value(slice: *const rocksdb_pinnableslice_t, bytes: *mut usize) -> *const c_char;
    pub(crate) fn rocksdb_pinnableslice_destroy(slice: *mut rocksdb_pinnableslice_t);

    pub(crate) fn rocksdb_create_iterator(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t) -> *mut rocksdb_iterator_t;
    pub(crate) fn rocksdb_iter_destroy(iterator: *mut rocksdb_iterator_t);
    pub(crate) fn rocksdb_iter_valid(iterator: *const rocksdb_iterator_t) -> c_uchar;
    pub(crate) fn rocksdb_iter_seek(iterator: *mut rocksdb_iterator_t, key: Key, key_bytes: usize);
    pub(crate) fn rocksdb_iter_next(iterator: *mut rocksdb_iterator_t);
    pub(crate) fn rocksdb_iter_key(iterator: *const rocksdb_iterator_t, bytes: *mut usize) -> *const c_char;
    pub(crate) fn rocksdb_iter_value(iterator: *const rocksdb_iterator_t, bytes: *mut usize) -> *const c_char;
    pub(crate) fn rocksdb_iter_get_error(iterator: *const rocksdb_iterator_t, error: Errors);

    pub(crate) fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t;
    pub(crate) fn rocksdb_writebatch_destroy(batch: *mut rocksdb_writebatch_t);
    pub(crate) fn rocksdb_writebatch_put(batch: *mut rocksdb_writebatch_t, key: Key, key_bytes: usize, value: Key, value_bytes: usize);

    pub(crate) fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t;
    pub(crate) fn rocksdb_readoptions_destroy(options: *mut rocksdb_readoptions_t);
    pub(crate) fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t;
    pub(crate) fn rocksdb_writeoptions_destroy(options: *mut rocksdb_writeoptions_t);
    pub(crate) fn rocksdb_writeoptions_set_sync(options: *mut rocksdb_writeoptions_t, on: c_uchar);
    pub(crate) fn rocksdb_writeoptions_disable_WAL(options: *mut rocksdb_writeoptions_t, on: c_int);
    pub(crate) fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t;
    pub(crate) fn rocksdb_flushoptions_destroy(options: *mut rocksdb_flushoptions_t);
    pub(crate) fn rocksdb_flushoptions_set_wait(options: *mut rocksdb_flushoptions_t, on: c_uchar);

    pub(crate) fn rocksdb_options_create() -> *mut rocksdb_options_t;
    pub(crate) fn rocksdb_options_destroy(options: *mut rocksdb_options_t);
    pub(crate) fn rocksdb_options_set_create_if_missing(options: *mut rocksdb_options_t, on: c_uchar);
    pub(crate) fn rocksdb_options_set_compression(options: *mut rocksdb_options_t, kind: c_int);
    pub(crate) fn rocksdb_options_set_write_buffer_size(options: *mut rocksdb_options_t, bytes: usize);
    pub(crate) fn rocksdb_options_set_max_write_buffer_number(options: *mut rocksdb_options_t, count: c_int);
    pub(crate) fn rocksdb_options_set_max_background_jobs(options: *mut rocksdb_options_t, count: c_int);
    pub(crate) fn rocksdb_options_set_bytes_per_sync(options: *mut rocksdb_options_t, bytes: u64);
    pub(crate) fn rocksdb_options_set_level_compaction_dynamic_level_bytes(options: *mut rocksdb_options_t, on: c_uchar);
    pub(crate) fn rocksdb_options_set_target_file_size_base(options: *mut rocksdb_options_t, bytes: u64);
    pub(crate) fn rocksdb_options_set_max_bytes_for_level_base(options: *mut rocksdb_options_t, bytes: u64);
    pub(crate) fn rocksdb_options_set_use_direct_reads(options: *mut rocksdb_options_t, on: c_uchar);
    pub(crate) fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(options: *mut rocksdb_options_t, on: c_uchar);
    pub(crate) fn rocksdb_options_set_optimize_filters_for_hits(options: *mut rocksdb_options_t, on: c_int);
    pub(crate) fn rocksdb_options_compaction_readahead_size(options: *mut rocksdb_options_t, bytes: usize);
    pub(crate) fn rocksdb_options_set_block_based_table_factory(options: *mut rocksdb_options_t, table: *mut rocksdb_block_based_table_options_t);
    pub(crate) fn rocksdb_options_set_enable_blob_files(options: *mut rocksdb_options_t, on: c_uchar);
    pub(crate) fn rocksdb_options_set_min_blob_size(options: *mut rocksdb_options_t, bytes: u64);
    pub(crate) fn rocksdb_options_set_enable_blob_gc(options: *mut rocksdb_options_t, on: c_uchar);
    pub(crate) fn rocksdb_options_set_blob_file_size(options: *mut rocksdb_options_t, bytes: u64);
    pub(crate) fn rocksdb_options_set_blob_gc_force_threshold(options: *mut rocksdb_options_t, share: c_double);
    pub(crate) fn rocksdb_options_set_blob_cache(options: *mut rocksdb_options_t, cache: *mut rocksdb_cache_t);

    pub(crate) fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t;
    pub(crate) fn rocksdb_block_based_options_destroy(options: *mut rocksdb_block_based_table_options_t);
    pub(crate) fn rocksdb_block_based_options_set_block_cache(options: *mut rocksdb_block_based_table_options_t, cache: *mut rocksdb_cache_t);
    pub(crate) fn rocksdb_block_based_options_set_filter_policy(options: *mut rocksdb_block_based_table_options_t, policy: *mut rocksdb_filterpolicy_t);
    pub(crate) fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(options: *mut rocksdb_block_based_table_options_t, on: c_uchar);
    pub(crate) fn rocksdb_block_based_options_set_index_type(options: *mut rocksdb_block_based_table_options_t, kind: c_int);
    pub(crate) fn rocksdb_block_based_options_set_partition_filters(options: *mut rocksdb_block_based_table_options_t, on: c_uchar);
    pub(crate) fn rocksdb_block_based_options_set_pin_top_level_index_and_filter(options: *mut rocksdb_block_based_table_options_t, on: c_uchar);
    pub(crate) fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(options: *mut rocksdb_block_based_table_options_t, on: c_uchar);
    pub(crate) fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: c_double) -> *mut rocksdb_filterpolicy_t;
    pub(crate) fn rocksdb_cache_create_hyper_clock(bytes: usize, entry_bytes: usize) -> *mut rocksdb_cache_t;
    pub(crate) fn rocksdb_cache_destroy(cache: *mut rocksdb_cache_t);
    pub(crate) fn rocksdb_write_buffer_manager_create_with_cache(bytes: usize, cache: *const rocksdb_cache_t, stalls: bool) -> *mut rocksdb_write_buffer_manager_t;
    pub(crate) fn rocksdb_write_buffer_manager_destroy(manager: *mut rocksdb_write_buffer_manager_t);
    pub(crate) fn rocksdb_options_set_write_buffer_manager(options: *mut rocksdb_options_t, manager: *mut rocksdb_write_buffer_manager_t);
}
