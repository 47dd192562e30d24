//! The shape of a tree: the sizes of its levels.

/// The sizes that the plans of compactions keep the levels to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tables of Level 0 that overlap with each other, from which on their compaction may be due.
    pub level0_tables: usize,
    /// Tables in Level 0 from which on writers are slowed down.
    pub level0_tables_slow: usize,
    /// Bytes in Level 1 above which it is compacted.
    pub level1_bytes: u64,
    /// How many times larger a level is than the one above it, at most ([`crate::plan::targets`]).
    pub level_ratio: u64,
    /// Bytes of entries of a data block: a search that finds nothing costs about one read of these.
    pub block_bytes: usize,
}
