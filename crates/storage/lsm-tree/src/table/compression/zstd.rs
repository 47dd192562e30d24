//! zstd (RFC 8878): one frame for each block, with the block's length in its header, and without a
//! checksum, since a block has one.
//!
//! The encoder is young, and is not trusted: each frame is decoded and compared (Z2). If the
//! encoder panics or is wrong, the block is stored another way, and another encoder is made. A
//! wrong frame never reaches a table.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zstd_rs::{CompressionConfig, Compressor, Decompressor, FrameHeader};

/// Effort of the search for repetitions, in zstd's own levels.
const CONFIG: CompressionConfig = CompressionConfig { level: 3, ..CompressionConfig::DEFAULT };
/// Bytes that the decoder writes behind the end of a block, and removes again.
const SLACK: usize = 32;

/// The encoder made a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mistaken;

/// Adds a frame of a block. Returns whether it could.
type Encode = fn(&mut Compressor, &[u8], &mut Vec<u8>) -> bool;

/// Encodes blocks sequentially.
pub(super) struct Encoder {
    encode: Encode,
    /// Both are made with the first block.
    compressor: Option<Compressor>,
    decompressor: Option<Decompressor>,
    decoded: Vec<u8>,
    /// Bytes of the longest block so far.
    longest: usize,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self::by(|compressor, block, into| compressor.compress(block, None, into).is_ok())
    }

    /// Makes an encoder that encodes in this way.
    pub(super) fn by(encode: Encode) -> Self {
        Self { encode, compressor: None, decompressor: None, decoded: Vec::new(), longest: 0 }
    }

    /// Adds a frame that decodes to `block`. After a mistake it is unknown which bytes were added.
    pub(super) fn encode(&mut self, block: &[u8], into: &mut Vec<u8>) -> Result<(), Mistaken> {
        self.longest = self.longest.max(block.len());
        let begin = into.len();
        // Taken out: after a panic or a mistake they are not used again.
        let (compressor, decompressor) = (self.compressor.take(), self.decompressor.take());
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut compressor = match compressor {
                Some(compressor) => compressor,
                None => Compressor::new(CONFIG).ok()?,
            };
            let mut decompressor = decompressor.unwrap_or_default();
            (self.encode)(&mut compressor, block, into).then_some(())?;
            self.decoded.clear();
            let frame = into.get(begin..)?;
            decode_by(&mut decompressor, frame, block.len(), &mut self.decoded).ok()?;
            (self.decoded == block).then_some((compressor, decompressor))
        }));
        let Ok(Some((compressor, decompressor))) = made else { return Err(Mistaken) };
        (self.compressor, self.decompressor) = (Some(compressor), Some(decompressor));
        Ok(())
    }

    /// Bytes of memory, about: the tables of the encoder go with the longest block up to 256 KiB.
    pub(super) fn memory(&self) -> usize {
        let tables = 16 * self.longest.next_power_of_two().min(256 << 10);
        self.compressor.as_ref().map_or(0, |_| tables + self.decoded.capacity())
    }
}

/// Decodes a frame that is expected to hold `len` bytes.
pub(super) fn decode(frame: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    decode_by(&mut Decompressor::new(), frame, len, &mut bytes)?;
    Ok(bytes)
}

/// Decodes a frame in the same way, and adds the result to `into`.
fn decode_by(
    decompressor: &mut Decompressor,
    frame: &[u8],
    len: usize,
    into: &mut Vec<u8>,
) -> Result<(), String> {
    let header = FrameHeader::parse(frame).map_err(|error| error.to_string())?;
    if header.content_size != Some(len as u64) {
        return Err(format!("a frame of {:?} bytes, {len} are declared", header.content_size));
    }
    into.reserve(len + SLACK);
    let limit = into.len() + len;
    let used = decompressor.decompress_frame(frame, None, limit, into);
    match used.map_err(|error| error.to_string())? {
        used if used == frame.len() => Ok(()),
        used => Err(format!("{} bytes lie behind its frame", frame.len() - used)),
    }
}
