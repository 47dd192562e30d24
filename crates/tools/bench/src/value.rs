//! Values that prove themselves: each follows from its key, its version and its length.
//!
//! # Format
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | version: [`u32`], little-endian, xor the low half of the key's hash |
//! | 4 | 4 | check: [`u32`] over key hash, version and length |
//! | 8 | rest | pseudo-random stream seeded by key hash, version and length |
//!
//! The stream makes values incompressible and makes any mixture of two versions visible.
//! [`Versions`] decides which version a read *may* return.

mod payload;
#[cfg(test)]
mod tests;
mod versions;

pub use payload::{Fault, VALUE_BYTES_MIN, fill, verify};
pub(crate) use versions::WRITERS_MAX;
pub use versions::{Before, Versions, Write};
