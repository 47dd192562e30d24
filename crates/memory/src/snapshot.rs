//! Snapshots: all pairs as of one pin, in one file of checksummed blocks.

pub(crate) mod format;
pub(crate) mod reader;
pub(crate) mod writer;
