//! The options of a store.

/// Options of a [`crate::Store`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pairs whose key and value have fewer bytes are kept in the index. Each opening may use
    /// another number: pairs that are stored stay where they are. At most 64 KiB. Default: 192.
    pub separation_bytes: u32,
    /// Bytes of a segment, at most; fixed when the store is made. A power of two. With less than
    /// 64 times this memory it is less, down to 64 KiB. Default: 1 MiB.
    pub segment_bytes_max: u32,
    /// Groups, at most; fixed when the store is made. A power of two. There are fewer if segments
    /// of all of them would be larger than a quarter of the memory. Default: 64.
    pub groups_max: u32,
    /// Bytes of the write buffers, at most. With less than four times this memory it is a quarter
    /// of the memory. Default: 256 MiB.
    pub buffer_bytes_max: u64,
    /// Bytes of the segment table's file after which it is rewritten, if that makes it shorter by
    /// half. Default: 1 MiB.
    pub table_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            separation_bytes: 192,
            segment_bytes_max: 1 << 20,
            groups_max: 64,
            buffer_bytes_max: 256 << 20,
            table_bytes: 1 << 20,
        }
    }
}

impl Options {
    /// Memory that a store should have at least.
    pub const MEMORY_BYTES_MIN: u64 = 4 << 20;
    /// The largest [`Options::separation_bytes`].
    pub const SEPARATION_BYTES_MAX: u32 = 64 << 10;
}
