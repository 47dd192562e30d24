//! `f2` with a few pages of memory and small chunks, so that most keys of a short run are on disk
//! alone.

use thermocline::f2;

pub(crate) const PAGE_BYTES: u64 = 16_384;

/// Nothing is compacted, as there is plenty of disk.
pub(crate) fn f2() -> f2::Options {
    f2::Options {
        log_memory_bytes: Some(5 * PAGE_BYTES),
        read_cache_bytes: Some(0),
        page_bytes: Some(PAGE_BYTES),
        segment_bytes: 2 * PAGE_BYTES,
        disk_bytes_max: Some(1 << 30),
        chunk_bytes: 64,
        index_bits: Some(1),
        ..f2::Options::default()
    }
}
