//! What fuzz targets share that go over whole databases: random work on one, compared with a map, and its files.

pub mod files;
pub mod work;
