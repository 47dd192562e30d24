//! The part of LevelDB's C interface that the benchmark needs, made safe.
//!
//! [`Settings`] says how a database is tuned, [`Db`] opens it. Nothing here is general: an option
//! that the benchmark does not set is not here.
#![expect(unsafe_code, reason = "calls a C library; the declarations are in ffi.rs")]
#![allow(non_camel_case_types, reason = "the C library's names")]

mod cursor;
mod db;
mod ffi;
mod settings;
#[cfg(test)]
mod tests;

pub use cursor::Cursor;
pub use db::{Batch, Db, Error};
pub use settings::Settings;
