//! How blocks are compressed.
//!
//! # Format
//! A compressed block begins with its length before (`u32`). Behind it are a block of LZ4, or a
//! frame of zstd (RFC 8878) that has the same length in its header.
//!
//! # Invariants
//! - Z1. No compressed block decompresses to more than [`RATIO_MAX`] times its bytes. So nothing is
//!   allocated for a block that declares more.
//! - Z2. A block that zstd encoded was decoded again, and was the same, before it was stored.

#[cfg(all(test, not(shuttle)))]
mod tests;
mod zstd;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::Corruption;

/// How blocks are compressed. A table records for each block how it was compressed. So tables of
/// several kinds exist next to each other, and stored blocks stay readable if the option changes.
///
/// ```
/// use thermocline_lsm_tree::table::Compression;
///
/// assert_eq!("zstd".parse(), Ok(Compression::Zstd));
/// let unknown = "gzip".parse::<Compression>().unwrap_err();
/// assert_eq!(unknown.to_string(), "\"gzip\" is no compression: one of none, lz4, zstd");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4, where it saves at least an eighth of the block.
    #[default]
    Lz4,
    /// zstd, where it saves at least an eighth of the block. Smaller than LZ4, for more time on
    /// writing and on reading.
    Zstd,
}

engine::setting_words!(Compression: Self::None, Self::Lz4, Self::Zstd);

/// A compression by a name that none has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no compression: one of none, lz4, zstd")]
pub struct UnknownCompression {
    /// The name.
    pub name: String,
}

/// Bytes of the length at the head of a compressed block: its length before compression.
const LENGTH_BYTES: usize = 4;
/// LZ4 never makes more of a byte.
const RATIO_MAX: usize = 256;
/// A compressed block saves at least this part of its bytes.
const SAVING: usize = 8;
/// After this many blocks in a row that save less, the compressor leaves blocks out.
const MISSES: u32 = 8;
/// The most blocks that it leaves out before it tries another one.
const LEFT_OUT_MAX: u32 = 64;

impl Compression {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Lz4, Self::Zstd];

    /// Returns its name, as `parse` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the byte that says how a block is compressed.
    pub fn byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
        }
    }

    /// Returns the compression of such a byte.
    ///
    /// # Errors
    /// A byte that no compression has.
    pub fn of_byte(byte: u8) -> Result<Self, Corruption> {
        Self::ALL.into_iter().find(|known| known.byte() == byte).ok_or_else(|| {
            let what = format!("a block is compressed in a way ({byte}) that is not known");
            Corruption::new(what, 0)
        })
    }

    /// Decompresses `stored` into the memory that `take` returns for the block's length.
    pub fn decompress_by<B: AsMut<[u8]>>(
        self,
        stored: &[u8],
        take: impl FnOnce(usize) -> B,
    ) -> Result<B, Corruption> {
        if self == Self::None {
            return Ok(copied(stored, take));
        }
        let Some((len, compressed)) = stored.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(Corruption::new("a compressed block is cut short", 0));
        };
        let len = u32::from_le_bytes(*len) as usize;
        if is_too_good(len, compressed.len()) {
            return Err(Corruption::new("a compressed block declares more than it can hold", 0));
        }
        let bytes = match self {
            Self::Zstd => {
                zstd::decode(compressed, len).map(|bytes| (bytes.len(), copied(&bytes, take)))
            }
            _ => lz4_decode(compressed, take(len)),
        };
        let (found, bytes) =
            bytes.map_err(|error| Corruption::new(format!("a compressed block: {error}"), 0))?;
        if found != len {
            let what = format!("a compressed block has {found} bytes, it declares {len}");
            return Err(Corruption::new(what, 0));
        }
        Ok(bytes)
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Compression {
    type Err = UnknownCompression;

    fn from_str(name: &str) -> Result<Self, UnknownCompression> {
        let known = Self::ALL.into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| UnknownCompression { name: name.to_owned() })
    }
}

/// Returns whether `len` bytes cannot be compressed to `compressed` bytes (Z1).
fn is_too_good(len: usize, compressed: usize) -> bool {
    len / RATIO_MAX > compressed
}

/// How compressing went, of all tables of a store.
#[derive(Debug, Default)]
pub struct Tally {
    /// Bytes of blocks before compression.
    pub block_bytes: AtomicU64,
    /// Bytes of stored blocks.
    pub stored_bytes: AtomicU64,
    /// Blocks that were compressed, whether or not they are stored so.
    pub tries: AtomicU64,
    /// Blocks that zstd encoded such that they were not the same when decoded. They are stored
    /// uncompressed.
    pub mistakes: AtomicU64,
}

/// Compresses the blocks of a table sequentially.
///
/// Values that do not compress come in runs. So after eight blocks that save too little, it leaves
/// one block out before it tries another one. Each further block that saves too little doubles the
/// number of blocks that it leaves out, up to 64.
pub(crate) struct Compressor {
    compression: Compression,
    zstd: zstd::Encoder,
    tally: Arc<Tally>,
    /// Blocks that it has tried since the last one that paid.
    misses: u32,
    /// Blocks to leave out before the next try.
    left_out: u32,
}

impl Compressor {
    pub(crate) fn new(compression: Compression, tally: &Arc<Tally>) -> Self {
        let (zstd, tally) = (zstd::Encoder::new(), Arc::clone(tally));
        Self { compression, zstd, tally, misses: 0, left_out: 0 }
    }

    /// Returns the bytes to store, and how they are compressed. If compression would save little,
    /// the bytes stay uncompressed: then they are the same bytes, and nothing is copied.
    pub(crate) fn compress(&mut self, block: Vec<u8>) -> (Vec<u8>, Compression) {
        let block_bytes = block.len();
        let (bytes, used) = match self.compressed(&block) {
            Some(compressed) => compressed,
            None => (block, Compression::None),
        };
        self.tally.block_bytes.fetch_add(block_bytes as u64, Relaxed);
        self.tally.stored_bytes.fetch_add(bytes.len() as u64, Relaxed);
        (bytes, used)
    }

    /// Returns the compressed bytes of a block, if it is tried and pays.
    fn compressed(&mut self, block: &[u8]) -> Option<(Vec<u8>, Compression)> {
        let len = u32::try_from(block.len()).ok()?;
        if self.compression == Compression::None {
            return None;
        }
        if let Some(rest) = self.left_out.checked_sub(1) {
            self.left_out = rest;
            return None;
        }
        self.tally.tries.fetch_add(1, Relaxed);
        let compressed = match self.compression {
            Compression::Zstd => self.zstd(block, len),
            _ => lz4(block, len),
        };
        let pays = |bytes: &Vec<u8>| bytes.len() <= block.len() - block.len() / SAVING;
        let compressed = compressed.filter(|(bytes, _)| pays(bytes));
        if compressed.is_some() {
            self.misses = 0;
        } else {
            self.misses += 1;
            let beyond = self.misses.checked_sub(MISSES);
            self.left_out = beyond.map_or(0, |beyond| 1 << beyond.min(LEFT_OUT_MAX.ilog2()));
        }
        compressed
    }

    /// Returns the bytes of memory that it keeps from one block to the next.
    pub(crate) fn memory(&self) -> usize {
        self.zstd.memory()
    }

    fn zstd(&mut self, block: &[u8], len: u32) -> Option<(Vec<u8>, Compression)> {
        let mut bytes = len.to_le_bytes().to_vec();
        if self.zstd.encode(block, &mut bytes).is_err() {
            self.tally.mistakes.fetch_add(1, Relaxed);
            return None;
        }
        if is_too_good(block.len(), bytes.len() - LENGTH_BYTES) {
            return lz4(block, len);
        }
        Some((bytes, Compression::Zstd))
    }
}

/// Compresses a block with LZ4.
fn lz4(block: &[u8], len: u32) -> Option<(Vec<u8>, Compression)> {
    let mut bytes = vec![0; LENGTH_BYTES + lz4_flex::block::get_maximum_output_size(block.len())];
    let (head, body) = bytes.split_at_mut(LENGTH_BYTES);
    head.copy_from_slice(&len.to_le_bytes());
    let compressed = lz4_flex::block::compress_into(block, body).ok()?;
    bytes.truncate(LENGTH_BYTES + compressed);
    Some((bytes, Compression::Lz4))
}

/// Returns `bytes` with the content of the block, and its length.
fn lz4_decode<B: AsMut<[u8]>>(compressed: &[u8], mut bytes: B) -> Result<(usize, B), String> {
    let found = lz4_flex::block::decompress_into(compressed, bytes.as_mut());
    Ok((found.map_err(|error| error.to_string())?, bytes))
}

fn copied<B: AsMut<[u8]>>(bytes: &[u8], take: impl FnOnce(usize) -> B) -> B {
    let mut copy = take(bytes.len());
    copy.as_mut().copy_from_slice(bytes);
    copy
}
