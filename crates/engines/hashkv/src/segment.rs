//! Segments: records, then a footer.
//!
//! An *open* segment accepts records. A *sealed* one has its footer and never changes. A segment's
//! number is never given out twice, so a handle never leads to another segment's bytes.

pub(crate) mod footer;
pub(crate) mod record;
#[cfg(test)]
mod tests;
