//! Plans of compactions: pure functions of the version and of the jobs under way.

pub mod compaction;
pub mod idle;
pub mod ingest;
pub mod sweep;
pub mod targets;
pub mod tombstones;
