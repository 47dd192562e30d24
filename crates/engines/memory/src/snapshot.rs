//! Snapshots: all pairs as of one pin, in one file of checksummed blocks.

pub(crate) mod format;
pub(crate) mod load;
pub(crate) mod reader;
pub(crate) mod salvage;
#[cfg(test)]
mod tests;
pub(crate) mod writer;
