//! The bytes of a segment: header and frames, encoded and decoded.
//!
//! # Format
//! Little-endian. A segment is a header and frames, one right after the other.
//!
//! | header | size | field | protects against |
//! |---:|---:|---|---|
//! | 0 | 16 | [`codec::FileHeader`], magic `TCJOURNL` | a file of another kind or release |
//! | 16 | 8 | the journal's id | a segment of another journal |
//! | 24 | 8 | the segment's index | a file under another's name |
//! | 32 | 8 | salt, random | frames of an earlier file of this index |
//! | 40 | 8 | where the segment before ended | a tail that grows or shrinks after recovery |
//! | 48 | 8 | the last checksum there | another content of the segment before |
//! | 56 | 8 | the last record's number there or earlier | lost segments at the start |
//! | 64 | 8 | xxh3 of bytes 0 to 64, seeded with the index | damage to the fields above |
//!
//! | frame | size | field |
//! |---:|---:|---|
//! | 0 | 4 | kind (2 bits, the highest) and length of the payload (30 bits) |
//! | 4 | 8 | a record's sequence number; a mark's *watermark* |
//! | 12 | length | payload; a mark's is zeros, to reach a block's or sector's end |
//! | 12 + length | 8 | xxh3 of the 8 bytes before the frame, bytes 0 to 12 and the payload |
//!
//! The 8 bytes before a frame are the checksum of the frame (or header) before it: so checksums
//! are a chain. The seed mixes the header's checksum with the frame's offset: so they hold for one
//! place only. A watermark says: when this was encoded, every byte of this segment below that
//! offset had been synced.
//!
//! Seal, last seal and close are *marks*. A journal that is closed in order ends with a last seal
//! that reaches a sector's end and is synced. Then a sector with another last seal and the close
//! follows (on a direct device both reach a block's end). So the close is proven within its own
//! sector, and no rotten sector takes both a record and the proof of it.

use codec::{Corruption, Format, HeaderError, Reader, SeqNo, Writer, hash64};

/// Segment files, version 1.
const SEGMENT: Format = Format::new(*b"TCJOURNL", 1, 0);

/// Bytes of a checksum.
pub(crate) const CHECKSUM_BYTES: usize = 8;
/// Bytes of a segment's header.
pub(crate) const HEADER_BYTES: usize = 72;
/// Bytes of a frame before its payload.
pub(crate) const FRAME_HEADER_BYTES: usize = 12;
/// Bytes of a frame in addition to its payload.
pub(crate) const FRAME_BYTES_MIN: usize = FRAME_HEADER_BYTES + CHECKSUM_BYTES;

/// Bytes that the disk writes wholly or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Bits of a payload's length.
const LENGTH_BITS: u32 = 30;
/// The largest length.
const LENGTH_MAX: u32 = (1 << LENGTH_BITS) - 1;

const _: () = assert!(crate::Options::RECORD_BYTES_MAX == LENGTH_MAX as usize);

/// The content of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// The same in all segments of a journal.
    pub(crate) journal: u64,
    /// The segment's number: one more than the one before.
    pub(crate) index: u64,
    /// Random, so that checksums differ even between two files made under the same index.
    pub(crate) salt: u64,
    /// The end of the segment before; 0 in a journal's first.
    pub(crate) previous_end: u64,
    /// The last checksum in the segment before; 0 in a journal's first.
    pub(crate) previous_chain: u64,
    /// The last record's number in the segment before or earlier.
    pub(crate) previous_last: SeqNo,
}

impl SegmentHeader {
    /// Returns the header's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        let mut out = Writer::new(&mut bytes);
        out.put_bytes(&SEGMENT.header(0).encode());
        out.put_u64(self.journal);
        out.put_u64(self.index);
        out.put_u64(self.salt);
        out.put_u64(self.previous_end);
        out.put_u64(self.previous_chain);
        out.put_u64(self.previous_last.get());
        let checksum = hash64(self.index, &bytes);
        Writer::new(&mut bytes).put_u64(checksum);
        bytes
    }

    /// Returns the header's own checksum: the first frame chains from it, and it seeds all frames'
    /// checksums.
    pub(crate) fn seed(&self) -> u64 {
        let bytes = self.encode();
        bytes.last_chunk().map_or(0, |checksum| u64::from_le_bytes(*checksum))
    }

    /// Reads the header of segment `index` from its first bytes.
    pub(crate) fn decode(index: u64, bytes: &[u8]) -> Result<Self, HeaderFault> {
        match SEGMENT.decode(bytes) {
            Ok(_) => {}
            Err(error @ (HeaderError::Version { .. } | HeaderError::Flags { .. })) => {
                return Err(HeaderFault::Unsupported(error));
            }
            Err(error) => return Err(Corruption::new(error.to_string(), 0).into()),
        }
        let mut fields = Reader::new(bytes);
        fields.take_bytes(codec::FileHeader::LEN)?;
        let header = Self {
            journal: fields.take_u64()?,
            index: fields.take_u64()?,
            salt: fields.take_u64()?,
            previous_end: fields.take_u64()?,
            previous_chain: fields.take_u64()?,
            previous_last: SeqNo::new(fields.take_u64()?),
        };
        let computed = hash64(index, fields.taken());
        if fields.take_u64()? != computed {
            let what = "the segment's header does not match its checksum and index";
            return Err(Corruption::new(what, 0).into());
        }
        Ok(header)
    }
}

/// Why a segment's header cannot be used.
#[derive(Debug)]
pub(crate) enum HeaderFault {
    /// Another release wrote it.
    Unsupported(HeaderError),
    /// It differs from the bytes that were written.
    Damaged(Corruption),
}

impl From<Corruption> for HeaderFault {
    fn from(corruption: Corruption) -> Self {
        Self::Damaged(corruption)
    }
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record; its number is the sequence number.
    Record,
    /// The end of a group; its number is the watermark.
    Seal,
    /// The end of the journal's last group: only the frames that close it may follow, in a sector
    /// of their own. Its number is the watermark.
    LastSeal,
    /// The end of the journal, closed in order; its number is the watermark.
    Close,
}

/// The bytes before a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: Kind,
    pub(crate) length: usize,
    pub(crate) number: u64,
}

impl FrameHeader {
    /// Returns the header's bytes. The length fits, as the caller made sure.
    pub(crate) fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let kind = match self.kind {
            Kind::Record => 0,
            Kind::Seal => 1,
            Kind::Close => 2,
            Kind::LastSeal => 3,
        };
        let [l0, l1, l2, l3] = (kind << LENGTH_BITS | self.length as u32).to_le_bytes();
        let [n0, n1, n2, n3, n4, n5, n6, n7] = self.number.to_le_bytes();
        [l0, l1, l2, l3, n0, n1, n2, n3, n4, n5, n6, n7]
    }

    /// Reads a frame's header. `None` if there are too few bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(bytes);
        let kind_and_length = fields.take_u32().ok()?;
        let kind = match kind_and_length >> LENGTH_BITS {
            0 => Kind::Record,
            1 => Kind::Seal,
            2 => Kind::Close,
            _ => Kind::LastSeal,
        };
        let length = (kind_and_length & LENGTH_MAX) as usize;
        Some(Self { kind, length, number: fields.take_u64().ok()? })
    }
}

/// Returns the checksum of a frame that begins at `offset` of the segment whose header's checksum
/// is `seed`. `covered` is the eight bytes before the frame, its header and its payload.
pub(crate) fn frame_checksum(seed: u64, offset: u64, covered: &[u8]) -> u64 {
    // Spreads the offset over all bits, so that seed and offset cannot trade places.
    let place = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    hash64(seed ^ place, covered)
}
