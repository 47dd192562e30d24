//! What fuzz targets share that go over whole databases: random work on one, compared with a map, and its files.

pub mod files;
pub mod work;

/// As the tests of databases have it.
#[path = "../../crates/database/thermocline/tests/small_parts.rs"]
mod small_parts;
