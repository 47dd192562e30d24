//! Frames: a header with a checksum, and a body.
//!
//! # Format
//! `docs/formats/wire.md`.

use codec::{Corruption, Reader, Writer, chain_parts, crc32c};

/// Bytes of the header of a frame.
pub const HEADER_BYTES: usize = 20;
/// Bytes of the header without its checksum.
const FIELDS_BYTES: usize = 16;
/// Bytes of the body of a frame, at most. A longer message has several frames.
pub const BODY_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Bytes of the body of a frame before both sides have agreed, at most.
pub(crate) const HELLO_BYTES_MAX: usize = 4 << 10;

/// The frame belongs to a reply.
pub(crate) const REPLY: u8 = 0b01;
/// Another frame of the same message follows.
pub(crate) const MORE: u8 = 0b10;
/// All flags.
const FLAGS: u8 = REPLY | MORE;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The code of its kind.
    pub kind: u16,
    /// The version of the protocol; 0 in a hello, which has one form for all versions.
    pub version: u8,
    /// Flags: 1 for a reply, 2 if another frame of the message follows.
    pub flags: u8,
    /// The number of the request.
    pub request: u64,
    /// The content.
    pub body: Vec<u8>,
}

/// Appends a frame whose body is all parts.
pub(crate) fn encode(out: &mut Vec<u8>, frame: &Frame, parts: [&[u8]; 2]) {
    let start = out.len();
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut fields = Writer::new(out);
    fields.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    fields.put_u16(frame.kind);
    fields.put_u8(frame.version);
    fields.put_u8(frame.flags);
    fields.put_u64(frame.request);
    let head = out.get(start..).unwrap_or_default();
    let checksum = checksum(head, parts);
    let mut fields = Writer::new(out);
    fields.put_u32(checksum);
    parts.iter().for_each(|part| fields.put_bytes(part));
}

/// Returns the checksum of a frame: that of the body, chained to that of the fields before.
fn checksum(head: &[u8], [first, second]: [&[u8]; 2]) -> u32 {
    chain_parts(crc32c(head), first, second)
}

impl Frame {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.body.len());
        encode(&mut out, self, [&self.body, &[]]);
        out
    }
}

/// Takes frames from the bytes of a connection.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were taken.
    taken: usize,
    /// Bytes of a body, at most.
    limit: usize,
    /// Bytes of the connection before `buffer`.
    before: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(BODY_BYTES_MAX)
    }
}

impl Decoder {
    /// Returns a decoder that refuses bodies of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), taken: 0, limit, before: 0 }
    }

    /// Allows bodies of all lengths that a frame may have.
    pub(crate) fn allow_all(&mut self) {
        self.limit = BODY_BYTES_MAX;
    }

    /// Adds bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.before += self.taken as u64;
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next frame; none if it is not whole yet.
    ///
    /// # Errors
    /// The bytes are no frame. Nothing can be taken from this connection any more.
    pub fn take(&mut self) -> Result<Option<Frame>, Corruption> {
        let rest = self.buffer.get(self.taken..).unwrap_or_default();
        let at = self.before + self.taken as u64;
        let Some((frame, bytes)) =
            decode(rest, self.limit).map_err(|error| error.at("wire", at))?
        else {
            return Ok(None);
        };
        self.taken += bytes;
        Ok(Some(frame))
    }
}

/// Decodes the frame at the start of `bytes`, and returns it with its length; none if it is not
/// whole.
fn decode(bytes: &[u8], limit: usize) -> Result<Option<(Frame, usize)>, Corruption> {
    let mut fields = Reader::new(bytes);
    if fields.remaining() < HEADER_BYTES {
        return Ok(None);
    }
    let length = fields.take_u32()? as usize;
    if length > limit {
        let text = format!("a frame declares {length} bytes, and at most {limit} are allowed");
        return Err(fields.corruption(text));
    }
    if fields.remaining() < HEADER_BYTES - 4 + length {
        return Ok(None);
    }
    let (kind, version, flags) = (fields.take_u16()?, fields.take_u8()?, fields.take_u8()?);
    let request = fields.take_u64()?;
    let stored = fields.take_u32()?;
    let body = fields.take_bytes(length)?;
    let head = bytes.get(..FIELDS_BYTES).unwrap_or_default();
    if stored != checksum(head, [body, &[]]) {
        return Err(Corruption::new("the checksum of a frame is wrong", 0));
    }
    if flags & !FLAGS != 0 {
        return Err(Corruption::new(format!("a frame has the flags {flags:#04x}"), 7));
    }
    let frame = Frame { kind, version, flags, request, body: body.to_vec() };
    Ok(Some((frame, HEADER_BYTES + length)))
}
