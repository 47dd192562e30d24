//! The header of a segment: its first append.

use codec::{Corruption, FileHeader, Format, Reader, Writer, crc32c};

use crate::record::Part;

const FORMAT: Format = Format::new(*b"TCLOGCSG", 1, 0);

/// The part of a file that a segment has, and the end of the segment before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The part, which follows the header.
    pub part: Part,
    /// The segment before; 0 if there is none.
    pub previous: u64,
    /// The end of that segment: bytes behind it do not count. (L3)
    pub previous_end: u64,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = FileHeader::LEN + 4 * 8 + 4;

    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = FORMAT.header(0).encode().to_vec();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.part.file);
        out.put_u64(self.part.offset);
        out.put_u64(self.previous);
        out.put_u64(self.previous_end);
        let checksum = crc32c(&bytes);
        Writer::new(&mut bytes).put_u32(checksum);
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        FORMAT.decode(bytes)?;
        let mut fields = Reader::new(bytes);
        fields.take_bytes(FileHeader::LEN)?;
        let part = Part { file: fields.take_u64()?, offset: fields.take_u64()? };
        let (previous, previous_end) = (fields.take_u64()?, fields.take_u64()?);
        let computed = crc32c(fields.taken());
        if fields.take_u32()? != computed {
            return Err(fields.corruption("the header of a segment has a wrong checksum"));
        }
        fields.finish()?;
        Ok(Self { part, previous, previous_end })
    }
}
