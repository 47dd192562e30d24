//! The bytes of the stored index.
//!
//! # Format
//! A head of 44 bytes, then blocks. A block is the length of its content (`u32`), the checksum of
//! the chain (`u32`: of the checksum before it, the length and the bytes), and intervals in
//! sequence. `docs/formats/flexdb-index.md`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, FileHeader, Format, Reader, Writer, chain, crc32c};

use crate::index::{Lie, Tail};

pub(crate) const FORMAT: Format = Format::new(*b"TCFLEXIX", 1, 0);

/// Flags of an interval: two optional fields that follow, and two properties.
const HAS_FIRST: u8 = 1;
const HAS_TAIL: u8 = 2;
const HAS_INNER_TAGS: u8 = 4;
const IS_OUT_OF_ORDER: u8 = 8;
const FLAGS: u8 = HAS_FIRST | HAS_TAIL | HAS_INNER_TAGS | IS_OUT_OF_ORDER;

/// Before the intervals of a block: their length, and the checksum.
pub(super) const BLOCK_HEAD_BYTES: usize = 4 + 4;
/// A block ends with the first interval that makes it as long as this.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// No block is longer: an interval has two keys and a tail.
const BLOCK_BYTES_MAX: usize = 2 * BLOCK_BYTES;

/// The head of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The life of the space that has ended with this index.
    pub(super) life: u64,
    /// Bytes of the space then.
    pub(super) space_bytes: u64,
    pub(super) intervals: u64,
}

impl Head {
    pub(super) const BYTES: usize = FileHeader::LEN + 8 + 8 + 8 + 4;

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = FORMAT.header(0).encode().to_vec();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.life);
        out.put_u64(self.space_bytes);
        out.put_u64(self.intervals);
        let checksum = crc32c(&bytes);
        Writer::new(&mut bytes).put_u32(checksum);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        FORMAT.decode(bytes)?;
        let mut fields = Reader::new(bytes);
        fields.take_bytes(FileHeader::LEN)?;
        let (life, space_bytes, intervals) =
            (fields.take_u64()?, fields.take_u64()?, fields.take_u64()?);
        let expected = crc32c(fields.taken());
        if fields.take_u32()? != expected {
            return Err(Corruption::new("the index' head has another checksum", 16));
        }
        fields.finish()?;
        Ok(Self { life, space_bytes, intervals })
    }

    /// The checksum with which the chain of its blocks begins.
    pub(super) fn checksum(&self) -> u32 {
        crc32c(&self.encode())
    }
}

/// An interval in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) length: u32,
    pub(super) bound: Vec<u8>,
    /// The key of its first pair, if that is not the bound.
    pub(super) first: Option<Vec<u8>>,
    pub(super) lie: Lie,
    /// None if it is not known.
    pub(super) tail: Option<Tail>,
}

impl Stored {
    /// Adds it to a block behind the interval whose bound is `before`.
    pub(super) fn encode(&self, before: &[u8], bytes: &mut Vec<u8>) {
        let shared =
            before.iter().zip(&self.bound).take_while(|(left, right)| left == right).count();
        let flag = |is_so: bool, flag: u8| if is_so { flag } else { 0 };
        let flags = flag(self.first.is_some(), HAS_FIRST)
            | flag(self.tail.is_some(), HAS_TAIL)
            | flag(self.lie.has_inner_tags, HAS_INNER_TAGS)
            | flag(self.lie.is_out_of_order, IS_OUT_OF_ORDER);
        let mut out = Writer::new(bytes);
        out.put_u8(flags);
        out.put_varint(u64::from(self.length));
        out.put_varint(shared as u64);
        out.put_prefixed(self.bound.get(shared..).unwrap_or_default());
        out.put_varint(u64::from(self.lie.fragments));
        out.put_varint(u64::from(self.lie.tail));
        out.put_varint(u64::from(self.lie.pairs));
        if let Some(first) = &self.first {
            out.put_prefixed(first);
        }
        if let Some(tail) = &self.tail {
            out.put_varint(tail.len() as u64);
            tail.places().iter().for_each(|place| out.put_u32(*place));
        }
    }

    fn take(fields: &mut Reader<'_>, before: &[u8]) -> Result<Self, Corruption> {
        let begin = fields.position() as u64;
        let wrong = |what: &str| Corruption::new(what, begin);
        let small = |fields: &mut Reader<'_>| {
            let number = fields.take_varint_u32()?;
            u16::try_from(number).map_err(|_| wrong("a count that no interval has"))
        };
        let flags = fields.take_u8()?;
        if flags & !FLAGS != 0 {
            return Err(wrong("an interval has unknown flags"));
        }
        let length = fields.take_varint_u32()?;
        let shared = fields.take_varint_u32()? as usize;
        let prefix = before.get(..shared).ok_or_else(|| wrong("a bound without its beginning"))?;
        let bound = [prefix, fields.take_prefixed()?].concat();
        let (fragments, tail_pairs, pairs) = (small(fields)?, small(fields)?, small(fields)?);
        let has = |flag: u8| flags & flag != 0;
        let first = has(HAS_FIRST).then(|| fields.take_prefixed()).transpose()?;
        let lie = Lie {
            fragments,
            tail: tail_pairs,
            pairs,
            has_inner_tags: has(HAS_INNER_TAGS),
            is_out_of_order: has(IS_OUT_OF_ORDER),
        };
        let mut tail = None;
        if has(HAS_TAIL) {
            let count = fields.take_count(4)?;
            let places = (0..count).map(|_| fields.take_u32()).collect::<Result<_, _>>()?;
            let known = Tail::of_places(places, length);
            tail = Some(known.ok_or_else(|| wrong("updates that do not lie in their interval"))?);
        }
        Ok(Self { length, bound, first: first.map(<[u8]>::to_vec), lie, tail })
    }
}

/// A block of intervals, one of which there is at least, behind a checksum; and the checksum behind
/// it.
pub(super) fn encode_block(previous: u32, intervals: &[u8]) -> (Vec<u8>, u32) {
    let length = (intervals.len() as u32).to_le_bytes();
    let checksum = chain(previous, &[&length, intervals].concat());
    ([&length, &checksum.to_le_bytes()[..], intervals].concat(), checksum)
}

/// How long the intervals of a block are, and the checksum, out of its first bytes.
pub(super) fn decode_block_head(bytes: &[u8]) -> Result<(usize, u32), Corruption> {
    let mut fields = Reader::new(bytes);
    let (length, checksum) = (fields.take_u32()? as usize, fields.take_u32()?);
    fields.finish()?;
    if length > BLOCK_BYTES_MAX {
        return Err(Corruption::new("a block that is longer than any", 0));
    }
    Ok((length, checksum))
}

/// The intervals of a block that has the checksum `checksum` behind `previous`.
pub(super) fn decode_block(
    previous: u32,
    checksum: u32,
    intervals: &[u8],
) -> Result<Vec<Stored>, Corruption> {
    let length = (intervals.len() as u32).to_le_bytes();
    if chain(previous, &[&length, intervals].concat()) != checksum {
        return Err(Corruption::new("a block of the index has another checksum", 0));
    }
    take_intervals(intervals)
}

/// The intervals of a block, verified one by one: an interval's bound is above the one before it.
pub(super) fn take_intervals(bytes: &[u8]) -> Result<Vec<Stored>, Corruption> {
    let mut fields = Reader::new(bytes);
    let mut found: Vec<Stored> = Vec::new();
    while !fields.is_empty() {
        let offset = fields.position() as u64;
        let before = found.last().map_or(&[][..], |stored| &stored.bound);
        let stored = Stored::take(&mut fields, before)?;
        let in_order = found.is_empty() || *before < *stored.bound;
        if !in_order || stored.length == 0 || stored.first.as_ref() == Some(&stored.bound) {
            return Err(Corruption::new("an interval that cannot be there", offset));
        }
        found.push(stored);
    }
    Ok(found)
}
