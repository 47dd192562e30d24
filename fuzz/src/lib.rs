//! The common part of fuzz targets for whole databases.
//! It does random work on a database, compares it with a map, and lays out its files.

pub mod files;
pub mod work;

/// As the tests of databases have it.
#[path = "../../crates/database/thermocline/tests/small_parts.rs"]
mod small_parts;
