//! The log's bytes: its head, its frames, and their records; see `docs/formats/flexspace.md`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, FileHeader, Format, Reader, Writer, chain, chain_parts};

use crate::data::Geometry;

pub(crate) const FORMAT: Format = Format::new(*b"TCFLXLOG", 1, 0);

/// A log's head, without the zeros up to its unit.
pub(crate) const HEAD_BYTES: usize = 64;
/// Bytes of a frame before its records.
pub(crate) const FRAME_HEAD_BYTES: usize = 32;
/// Frames begin at multiples of a unit, which is at least a sector.
pub(crate) const UNIT_BYTES_MIN: u32 = 512;
const UNIT_BYTES_MAX: u32 = 1 << 16;

/// The identity of a log, and the log that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHead {
    pub(crate) number: u64,
    pub(crate) life: u64,
    /// Frames of the log before it, and the checksum of its last one.
    pub(crate) follows_frames: u64,
    pub(crate) follows_checksum: u32,
    pub(crate) unit_bytes: u32,
}

impl LogHead {
    /// Returns the salt that every frame of this log, and of no other, carries.
    pub(crate) fn salt(&self) -> u64 {
        codec::hash64(self.life, &self.number.to_le_bytes())
    }

    /// Returns the head, and its checksum, with which the chain of the frames begins.
    pub(crate) fn encode(&self) -> (Vec<u8>, u32) {
        let mut bytes = FORMAT.header(0).encode().to_vec();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.number);
        out.put_u64(self.life);
        out.put_u64(self.follows_frames);
        out.put_u32(self.follows_checksum);
        out.put_u32(self.unit_bytes);
        out.put_bytes(&[0; HEAD_BYTES - FileHeader::LEN - 36]);
        let checksum = codec::crc32c(&bytes);
        Writer::new(&mut bytes).put_u32(checksum);
        (bytes, checksum)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, u32), Corruption> {
        FORMAT.decode(bytes)?;
        let mut fields = Reader::new(bytes);
        fields.take_bytes(FileHeader::LEN)?;
        let (number, life) = (fields.take_u64()?, fields.take_u64()?);
        let (follows_frames, follows_checksum) = (fields.take_u64()?, fields.take_u32()?);
        let unit_bytes = fields.take_u32()?;
        let zeros = fields.take_bytes(HEAD_BYTES - FileHeader::LEN - 36)?;
        let sum = codec::crc32c(fields.taken());
        let is_sound = fields.take_u32()? == sum && zeros.iter().all(|byte| *byte == 0);
        let units = UNIT_BYTES_MIN..=UNIT_BYTES_MAX;
        if !is_sound || !units.contains(&unit_bytes) || !unit_bytes.is_power_of_two() {
            return Err(Corruption::new("the head of a log is not what was written", 0));
        }
        Ok((Self { number, life, follows_frames, follows_checksum, unit_bytes }, sum))
    }
}

/// Encodes the head of a frame with these `records`, which follows a frame with the checksum
/// `previous`. Also returns the frame's own checksum.
pub(crate) fn encode_frame_head(
    salt: u64,
    sequence: u64,
    previous: u32,
    records: &[u8],
) -> (Vec<u8>, u32) {
    let mut rest = Vec::with_capacity(FRAME_HEAD_BYTES);
    let mut out = Writer::new(&mut rest);
    out.put_u32(previous);
    out.put_u64(salt);
    out.put_u64(sequence);
    out.put_u64(records.len() as u64);
    let checksum = chain_parts(previous, &rest, records);
    let mut head = checksum.to_le_bytes().to_vec();
    head.append(&mut rest);
    (head, checksum)
}

/// The head of a frame. Nothing in it is verified before the records are read
/// ([`Self::verifies`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) checksum: u32,
    pub(crate) previous: u32,
    pub(crate) sequence: u64,
    pub(crate) record_bytes: u64,
}

/// Returns the head of a frame of the log with that salt; none if it is no such thing.
pub(crate) fn decode_frame_head(bytes: &[u8], salt: u64) -> Option<FrameHead> {
    let mut fields = Reader::new(bytes);
    let checksum = fields.take_u32().ok()?;
    let previous = fields.take_u32().ok()?;
    let found = fields.take_u64().ok()?;
    let sequence = fields.take_u64().ok()?;
    let record_bytes = fields.take_u64().ok()?;
    (found == salt).then_some(FrameHead { checksum, previous, sequence, record_bytes })
}

impl FrameHead {
    /// Returns whether the frame's bytes, from its beginning to the end of its records, are the
    /// bytes that were written.
    pub(crate) fn verifies(&self, frame: &[u8]) -> bool {
        frame.get(4..).is_some_and(|rest| chain(self.previous, rest) == self.checksum)
    }
}

/// Bytes that were written in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) length: u32,
}

/// One atomic change of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `removed` bytes at `offset` are removed, and those of `pieces` are inserted; the first
    /// extent gets the tag.
    Splice { offset: u64, removed: u64, tag: u16, pieces: Vec<Piece> },
    /// `removed` bytes at `offset` are removed, and `length` zeros without an address are inserted.
    Hole { offset: u64, removed: u64, length: u64 },
    /// The bytes at `offset` are at the piece from now on.
    Relocate { offset: u64, piece: Piece },
    /// The extent that begins at `offset`, from now on at the latest, has the tag.
    SetTag { offset: u64, tag: u16 },
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The space changes.
    Change(Change),
    /// A segment's blocks have this generation from now on.
    Segment { segment: u32, generation: u64 },
}

const SPLICE: u8 = 1;
const RELOCATE: u8 = 2;
const SET_TAG: u8 = 3;
const SEGMENT: u8 = 4;
const HOLE: u8 = 5;

impl Change {
    /// Appends the record of this change.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let mut out = Writer::new(bytes);
        match self {
            Self::Splice { offset, removed, tag, pieces } => {
                out.put_u8(SPLICE);
                out.put_varint(*offset);
                out.put_varint(*removed);
                out.put_varint(u64::from(*tag));
                out.put_varint(pieces.len() as u64);
                for piece in pieces {
                    piece.put(&mut out);
                }
            }
            Self::Hole { offset, removed, length } => {
                out.put_u8(HOLE);
                out.put_varint(*offset);
                out.put_varint(*removed);
                out.put_varint(*length);
            }
            Self::Relocate { offset, piece } => {
                out.put_u8(RELOCATE);
                out.put_varint(*offset);
                piece.put(&mut out);
            }
            Self::SetTag { offset, tag } => {
                out.put_u8(SET_TAG);
                out.put_varint(*offset);
                out.put_varint(u64::from(*tag));
            }
        }
    }
}

impl Piece {
    fn put(&self, out: &mut Writer<'_>) {
        out.put_varint(self.address);
        out.put_varint(u64::from(self.length));
    }

    fn take(fields: &mut Reader<'_>, geometry: Geometry) -> Result<Self, Corruption> {
        let address = fields.take_varint_u64()?;
        let length = fields.take_varint_u32()?;
        if !geometry.is_extent(address, u64::from(length)) {
            return Err(fields.corruption("a piece does not lie in a segment"));
        }
        Ok(Self { address, length })
    }
}

impl Record {
    /// Appends the record of a segment's generation.
    pub(crate) fn encode_segment(segment: u32, generation: u64, bytes: &mut Vec<u8>) {
        let mut out = Writer::new(bytes);
        out.put_u8(SEGMENT);
        out.put_varint(u64::from(segment));
        out.put_varint(generation);
    }

    /// Returns the next record of a frame.
    pub(crate) fn take(fields: &mut Reader<'_>, geometry: Geometry) -> Result<Self, Corruption> {
        match fields.take_u8()? {
            SPLICE => {
                let (offset, removed) = (fields.take_varint_u64()?, fields.take_varint_u64()?);
                let tag = take_tag(fields)?;
                let count = fields.take_count(2)?;
                let pieces = (0..count).map(|_| Piece::take(fields, geometry));
                let pieces = pieces.collect::<Result<Vec<_>, _>>()?;
                Ok(Self::Change(Change::Splice { offset, removed, tag, pieces }))
            }
            HOLE => {
                let (offset, removed) = (fields.take_varint_u64()?, fields.take_varint_u64()?);
                let length = fields.take_varint_u64()?;
                Ok(Self::Change(Change::Hole { offset, removed, length }))
            }
            RELOCATE => {
                let offset = fields.take_varint_u64()?;
                let piece = Piece::take(fields, geometry)?;
                Ok(Self::Change(Change::Relocate { offset, piece }))
            }
            SET_TAG => {
                let offset = fields.take_varint_u64()?;
                Ok(Self::Change(Change::SetTag { offset, tag: take_tag(fields)? }))
            }
            SEGMENT => {
                let segment = fields.take_varint_u32()?;
                let generation = fields.take_varint_u64()?;
                if segment >= geometry.segments_max() || generation == 0 {
                    return Err(fields.corruption("there is no such segment"));
                }
                Ok(Self::Segment { segment, generation })
            }
            _ => Err(fields.corruption("a record of an unknown kind")),
        }
    }
}

fn take_tag(fields: &mut Reader<'_>) -> Result<u16, Corruption> {
    let tag = fields.take_varint_u32()?;
    u16::try_from(tag).map_err(|_| fields.corruption("a tag has 16 bits"))
}

/// Checks bytes as the records of a frame, in a space whose segments have `segment_bytes`; for
/// offline checks and for fuzzing. Returns the number of records, and their one encoding.
///
/// # Errors
/// The damage, with its offset.
pub fn check_log(bytes: &[u8], segment_bytes: u32) -> Result<(u64, Vec<u8>), Corruption> {
    let damaged = || Corruption::new("segments are not of such a size", 0);
    let geometry = Geometry::new(segment_bytes).ok_or_else(damaged)?;
    let _ = LogHead::decode(bytes);
    let mut fields = Reader::new(bytes);
    let (mut count, mut again) = (0, Vec::new());
    while !fields.is_empty() {
        match Record::take(&mut fields, geometry)? {
            Record::Change(change) => change.encode(&mut again),
            Record::Segment { segment, generation } => {
                Record::encode_segment(segment, generation, &mut again);
            }
        }
        count += 1;
    }
    Ok((count, again))
}
