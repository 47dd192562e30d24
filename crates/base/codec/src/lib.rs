//! How bytes are laid out: headers, varints, checksums, sequence numbers.
//!
//! Every byte that Thermocline writes to a disk or a wire is written and read with these pieces:
//!
//! ```text
//! file    | FileHeader, 16 bytes | piece | piece | ...
//! piece   | checksum over place (or predecessor) and content | fields: little-endian, varints |
//!           Place, chain                                       Writer -> bytes -> Reader
//! ```
//!
//! - [`Format`] and [`FileHeader`]: the 16 bytes at the start of every file.
//! - [`Writer`] and [`Reader`]: fields in sequence. The reader works on hostile bytes.
//! - [`Place`], [`chain`], [`crc32c()`]: checksums that also cover the place of a piece, or the
//!   record before it. [`hash64`] is for hashing keys, and for checksums where a format says so.
//! - [`bloom_place`]: the bits of a key in a Bloom filter.
//! - [`SeqNo`]: the number that orders writes.
//! - [`Corruption`]: the error of every decoder when the bytes make no sense.
//!
//! # Invariants
//! - No decoder panics, recurses, or allocates from a length that was only declared.
//! - Every value has exactly one encoding: an overlong varint is refused, so that comparing or
//!   hashing encoded bytes is comparing or hashing values.
//!
//! ```
//! use thermocline_codec::{Corruption, Reader, Writer};
//!
//! let mut bytes = Vec::new();
//! let mut out = Writer::new(&mut bytes);
//! out.put_u32(7);
//! out.put_prefixed(b"key");
//!
//! let mut fields = Reader::new(&bytes);
//! assert_eq!(fields.take_u32()?, 7);
//! assert_eq!(fields.take_prefixed()?, b"key");
//! fields.finish()?;
//! # Ok::<(), Corruption>(())
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod bloom;
mod checksum;
mod corruption;
mod header;
mod reader;
mod seqno;
mod varint;
mod writer;

pub use bloom::bloom_place;
pub use checksum::{Place, chain, chain_parts, crc32c, hash64};
pub use corruption::{Corruption, Newer, NewerVersion};
pub use header::{FileHeader, Format, HeaderError};
pub use reader::Reader;
pub use seqno::SeqNo;
pub use varint::{VARINT_U32_BYTES_MAX, VARINT_U64_BYTES_MAX, varint_len};
pub use writer::Writer;
