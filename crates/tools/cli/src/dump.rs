//! The portable copy of a database: one stream, checksummed and versioned, independent of engines.
//!
//! - `format.rs`: the bytes, described in `docs/formats/dump.md`.
//! - `writer.rs`: keyspaces and pairs to a stream.
//! - `reader.rs`: a stream to keyspaces and pairs; damage is reported with its offset.

mod format;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use format::{FRAME_PAYLOAD_BYTES_MAX, Frame, Pairs};
pub use reader::{Error, Reader};
pub use writer::Writer;
