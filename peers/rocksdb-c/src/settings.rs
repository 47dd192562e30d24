//! How a database is tuned, and the C options that follow.

use std::ffi::c_int;

use crate::ffi;

/// Makes a HyperClockCache learn the size of its entries.
const ENTRY_UNKNOWN: usize = 0;
/// RocksDB's number for "no compression".
const NO_COMPRESSION: c_int = 0;
/// And for an index of blocks with an index above them.
const TWO_LEVELS: c_int = 2;

/// The use of the write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wal {
    /// None is written.
    Off,
    /// Each write reaches the kernel.
    Buffered,
    /// Each write reaches the device.
    Synced,
}

/// How large values are kept apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blobs {
    /// Values of this many bytes or more go to blob files.
    pub min_bytes: u64,
    /// Bytes of a blob file.
    pub file_bytes: u64,
    /// Share of garbage in the oldest blob files from which on they are collected.
    pub force_threshold: f64,
}

/// How a database is tuned.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Block cache, for data, index and filter blocks and blobs, in bytes. Memtables are charged to
    /// it.
    pub cache_bytes: usize,
    /// One memtable, in bytes; there are at most two.
    pub memtable_bytes: usize,
    /// A table that a compaction writes, in bytes.
    pub table_bytes: u64,
    /// The first level below level 0, in bytes.
    pub level_base_bytes: u64,
    /// Threads for flushes and compactions.
    pub background_jobs: i32,
    /// Bloom filter bits a key.
    pub filter_bits: f64,
    /// Whether the last level has no filters: a get of a key that exists has no use for them.
    pub filters_for_hits: bool,
    /// Whether gets and scans read past the page cache.
    pub direct_reads: bool,
    /// Whether flushes and compactions write past it.
    pub direct_writes: bool,
    /// Bytes that a compaction reads ahead in each table.
    pub readahead_bytes: usize,
    /// Indexes and filters in blocks of their own size, each in the cache for itself.
    pub partitions: bool,
    /// The write-ahead log.
    pub wal: Wal,
    /// Values kept apart, if they are.
    pub blobs: Option<Blobs>,
}

/// C options; freed on drop.
pub(crate) struct Options(*mut ffi::rocksdb_options_t);

impl Options {
    pub(crate) fn new(settings: &Settings) -> Self {
        // SAFETY: takes nothing; the result is owned by `Self`, whose drop frees it.
        let options = Self(unsafe { ffi::rocksdb_options_create() });
        let raw = options.0;
        // SAFETY: `raw` is alive until `options` is dropped, in this call and all below.
        unsafe { ffi::rocksdb_options_set_create_if_missing(raw, 1) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_compression(raw, NO_COMPRESSION) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_write_buffer_size(raw, settings.memtable_bytes) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_max_write_buffer_number(raw, 2) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_max_background_jobs(raw, settings.background_jobs) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_bytes_per_sync(raw, 1 << 20) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(raw, 1) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_target_file_size_base(raw, settings.table_bytes) };
        let level_bytes = settings.level_base_bytes;
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_max_bytes_for_level_base(raw, level_bytes) };
        let for_hits = settings.filters_for_hits.into();
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_optimize_filters_for_hits(raw, for_hits) };
        let (reads, writes) = (settings.direct_reads.into(), settings.direct_writes.into());
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_use_direct_reads(raw, reads) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_set_use_direct_io_for_flush_and_compaction(raw, writes) };
        // SAFETY: as above.
        unsafe { ffi::rocksdb_options_compaction_readahead_size(raw, settings.readahead_bytes) };
        options.set_tables(settings);
        options
    }

    /// Sets block cache, filters, and the place of blobs.
    fn set_tables(&self, settings: &Settings) {
        // SAFETY: takes two numbers; the result is freed below, and shared with the options, which
        // count references of their own.
        let cache =
            unsafe { ffi::rocksdb_cache_create_hyper_clock(settings.cache_bytes, ENTRY_UNKNOWN) };
        // SAFETY: takes nothing; freed below, after the options have copied it.
        let table = unsafe { ffi::rocksdb_block_based_options_create() };
        // SAFETY: takes a number; the table options take ownership in the next call.
        let filter = unsafe { ffi::rocksdb_filterpolicy_create_bloom_full(settings.filter_bits) };
        // SAFETY: both are alive, and `filter` is not used again.
        unsafe { ffi::rocksdb_block_based_options_set_filter_policy(table, filter) };
        // SAFETY: both are alive.
        unsafe { ffi::rocksdb_block_based_options_set_block_cache(table, cache) };
        // SAFETY: `table` is alive.
        unsafe { ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1) };
        // SAFETY: `table` is alive.
        unsafe {
            ffi::rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
        }
        if settings.partitions {
            // SAFETY: `table` is alive.
            unsafe { ffi::rocksdb_block_based_options_set_index_type(table, TWO_LEVELS) };
            // SAFETY: `table` is alive.
            unsafe { ffi::rocksdb_block_based_options_set_partition_filters(table, 1) };
            // SAFETY: `table` is alive.
            unsafe {
                ffi::rocksdb_block_based_options_set_pin_top_level_index_and_filter(table, 1);
            }
        }
        // SAFETY: both are alive; the options copy the parts that they need.
        unsafe { ffi::rocksdb_options_set_block_based_table_factory(self.0, table) };
        if let Some(blobs) = settings.blobs {
            // SAFETY: the options are alive.
            unsafe { ffi::rocksdb_options_set_enable_blob_files(self.0, 1) };
            // SAFETY: the options are alive.
            unsafe { ffi::rocksdb_options_set_min_blob_size(self.0, blobs.min_bytes) };
            // SAFETY: the options are alive.
            unsafe { ffi::rocksdb_options_set_blob_file_size(self.0, blobs.file_bytes) };
            // SAFETY: the options are alive.
            unsafe { ffi::rocksdb_options_set_enable_blob_gc(self.0, 1) };
            let share = blobs.force_threshold;
            // SAFETY: the options are alive.
            unsafe { ffi::rocksdb_options_set_blob_gc_force_threshold(self.0, share) };
            // SAFETY: both are alive; the options count a reference of their own.
            unsafe { ffi::rocksdb_options_set_blob_cache(self.0, cache) };
        }
        self.charge_memtables(settings, cache);
        // SAFETY: owned here, and not used again.
        unsafe { ffi::rocksdb_block_based_options_destroy(table) };
        // SAFETY: owned here, and not used again; the options keep their own references.
        unsafe { ffi::rocksdb_cache_destroy(cache) };
    }

    /// Charges memtables to `cache`, so that blocks have the memory that memtables leave.
    fn charge_memtables(&self, settings: &Settings, cache: *mut ffi::rocksdb_cache_t) {
        let bytes = 2 * settings.memtable_bytes;
        // SAFETY: the cache is alive; the manager counts a reference of its own.
        let manager =
            unsafe { ffi::rocksdb_write_buffer_manager_create_with_cache(bytes, cache, false) };
        // SAFETY: both are alive; the options count a reference of their own.
        unsafe { ffi::rocksdb_options_set_write_buffer_manager(self.0, manager) };
        // SAFETY: owned here, and not used again.
        unsafe { ffi::rocksdb_write_buffer_manager_destroy(manager) };
    }

    pub(crate) fn raw(&self) -> *const ffi::rocksdb_options_t {
        self.0
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed once, here.
        unsafe { ffi::rocksdb_options_destroy(self.0) };
    }
}
