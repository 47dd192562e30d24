//! The bytes of files. `docs/formats/stoc.md` has the layout.
//!
//! A file begins with a block that names it ([`Head`]). A table's file has its content behind it,
//! and a footer with a checksum for each unit ([`Footer`]). A log has appends, each with a head of
//! its own ([`AppendHead`]).

use codec::{Corruption, FileHeader, Format, Place, Reader, Writer, crc32c, hash64};

use crate::name::{Epoch, FileName, Kind, RangeId};

/// The first block of a table's file.
const TABLE: Format = Format::new(*b"TCSTOCTB", 1, 0);
/// The first block of a log.
const LOG: Format = Format::new(*b"TCSTOCLG", 1, 0);

/// Bytes of the first block.
pub(crate) const HEAD_BYTES: usize = 4096;
/// Bytes of a unit: a read verifies whole units.
pub(crate) const UNIT_BYTES: usize = 4096;
/// Bytes of the end of a footer.
const TRAILER_BYTES: usize = 16;
/// Bytes of the head of an append.
pub(crate) const APPEND_HEAD_BYTES: usize = 32;
/// The first bytes of an append. Appends begin at multiples of eight bytes.
const APPEND_MAGIC: u32 = u32::from_le_bytes(*b"TAPP");
const APPEND_ALIGNMENT: usize = 8;
/// Bytes of an append, at most.
pub(crate) const APPEND_BYTES_MAX: usize = 64 << 20;

/// The description of a file, in its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) name: FileName,
    /// The cluster, the StoC and its cookie.
    pub(crate) cluster: u64,
    pub(crate) node: u32,
    pub(crate) cookie: u64,
    /// The epoch in which the file was made.
    pub(crate) epoch: Epoch,
    /// The stripe of a table that the file is a part of.
    pub(crate) stripe: u32,
}

impl Head {
    /// Returns the number of the file in checksums.
    pub(crate) fn identity(&self) -> u64 {
        hash64(self.cookie, self.name.path().as_bytes())
    }

    fn format(kind: Kind) -> Format {
        if kind.is_log() { LOG } else { TABLE }
    }

    /// Returns the first block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Self::format(self.name.kind).header(0).encode().to_vec();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.cluster);
        out.put_u32(self.node);
        out.put_u64(self.cookie);
        out.put_u32(self.name.range.0);
        out.put_u8(self.name.kind.code());
        out.put_u64(self.name.number);
        out.put_u64(self.name.nonce);
        out.put_u16(self.name.part);
        out.put_u64(self.epoch.0);
        out.put_u32(self.stripe);
        let checksum = crc32c(&bytes);
        Writer::new(&mut bytes).put_u32(checksum);
        bytes.resize(HEAD_BYTES, 0);
        bytes
    }

    /// Decodes a first block.
    ///
    /// # Errors
    /// The damage.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let format = if bytes.starts_with(&LOG.magic) { LOG } else { TABLE };
        format.decode(bytes)?;
        let mut fields = Reader::new(bytes);
        fields.take_bytes(FileHeader::LEN)?;
        let (cluster, node, cookie) = (fields.take_u64()?, fields.take_u32()?, fields.take_u64()?);
        let range = RangeId(fields.take_u32()?);
        let code = fields.take_u8()?;
        let kind = Kind::of_code(code)
            .ok_or_else(|| fields.corruption(format!("there is no kind {code} of files")))?;
        let (number, nonce, part) = (fields.take_u64()?, fields.take_u64()?, fields.take_u16()?);
        let (epoch, stripe) = (Epoch(fields.take_u64()?), fields.take_u32()?);
        let computed = crc32c(fields.taken());
        if fields.take_u32()? != computed {
            return Err(Corruption::new("the description of a file has a wrong checksum", 0));
        }
        if Self::format(kind) != format {
            return Err(Corruption::new("a file is of another kind than its header says", 0));
        }
        let name = FileName { range, kind, number, nonce, part };
        Ok(Self { name, cluster, node, cookie, epoch, stripe })
    }
}

/// The end of a finished table's file: the length of its content, and a checksum for each unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) length: u64,
    pub(crate) units: Vec<u32>,
}

/// Returns the checksum of a unit of a file.
pub(crate) fn unit_checksum(identity: u64, offset: u64, unit: &[u8]) -> u32 {
    Place { file: identity, offset, generation: 0 }.crc32c(unit)
}

impl Footer {
    /// Returns the offset in the file of the footer of a content of this length.
    pub(crate) fn begin(length: u64) -> u64 {
        HEAD_BYTES as u64 + length.next_multiple_of(UNIT_BYTES as u64)
    }

    /// Returns the number of units of a content of this length.
    fn unit_count(length: u64) -> u64 {
        length.div_ceil(UNIT_BYTES as u64)
    }

    pub(crate) fn encode(&self, identity: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.units.len() * 4 + TRAILER_BYTES);
        let mut out = Writer::new(&mut bytes);
        self.units.iter().for_each(|checksum| out.put_u32(*checksum));
        out.put_u64(self.length);
        let place = Place { file: identity, offset: Self::begin(self.length), generation: 1 };
        let checksum = place.crc32c(&bytes);
        let mut out = Writer::new(&mut bytes);
        out.put_u32(checksum);
        out.put_u32(self.units.len() as u32);
        bytes
    }

    /// Returns the bytes of the footer of a file, from the last bytes of the file; none if they are
    /// not those of a finished file of this many bytes.
    pub(crate) fn bytes_of(file_bytes: u64, last: &[u8; TRAILER_BYTES]) -> Option<u64> {
        let mut fields = Reader::new(last);
        let length = fields.take_u64().ok()?;
        fields.take_u32().ok()?;
        let units = u64::from(fields.take_u32().ok()?);
        let bytes = units.checked_mul(4)?.checked_add(TRAILER_BYTES as u64)?;
        let is_whole = length <= file_bytes
            && units == Self::unit_count(length)
            && Self::begin(length).checked_add(bytes) == Some(file_bytes);
        is_whole.then_some(bytes)
    }

    /// Decodes a footer.
    ///
    /// # Errors
    /// The damage.
    pub(crate) fn decode(bytes: &[u8], identity: u64) -> Result<Self, Corruption> {
        let damaged = |what: &str| Corruption::new(what, 0);
        let count = bytes.len().checked_sub(TRAILER_BYTES).map(|bytes| bytes / 4);
        let count = count.ok_or_else(|| damaged("a footer is too short"))?;
        let mut fields = Reader::new(bytes);
        let mut units = Vec::with_capacity(count);
        for _ in 0..count {
            units.push(fields.take_u32()?);
        }
        let length = fields.take_u64()?;
        let place = Place { file: identity, offset: Self::begin_of(length)?, generation: 1 };
        let computed = place.crc32c(fields.taken());
        if fields.take_u32()? != computed {
            return Err(damaged("a footer has a wrong checksum"));
        }
        let known = u64::from(fields.take_u32()?);
        fields.finish()?;
        if known != count as u64 || known != Self::unit_count(length) {
            return Err(damaged("a footer has another number of units than its content"));
        }
        Ok(Self { length, units })
    }

    fn begin_of(length: u64) -> Result<u64, Corruption> {
        let whole = length.checked_next_multiple_of(UNIT_BYTES as u64);
        let begin = whole.and_then(|bytes| bytes.checked_add(HEAD_BYTES as u64));
        begin.ok_or_else(|| Corruption::new("a content is too long", 0))
    }

    /// Returns the bytes at the end of a file by which its footer is found.
    pub(crate) const fn trailer_bytes() -> usize {
        TRAILER_BYTES
    }
}

/// The head of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendHead {
    /// The offset of its bytes in the content of the log.
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    /// The length of the log that was synced before it.
    pub(crate) synced: u64,
}

impl AppendHead {
    fn checksum(&self, identity: u64, content: &[u8]) -> u32 {
        let place = Place { file: identity, offset: self.offset, generation: self.synced };
        place.crc32c(content)
    }

    /// Returns the append with its content, padded to whole words of eight bytes.
    pub(crate) fn encode(&self, identity: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(append_bytes(content.len()));
        let mut out = Writer::new(&mut bytes);
        out.put_u32(APPEND_MAGIC);
        out.put_u32(self.bytes);
        out.put_u64(self.offset);
        out.put_u64(self.synced);
        out.put_u32(self.checksum(identity, content));
        out.put_u32(0);
        out.put_bytes(content);
        bytes.resize(append_bytes(content.len()), 0);
        bytes
    }

    /// Returns the append at the beginning of these bytes, if it is whole and sound.
    fn decode(bytes: &[u8], identity: u64) -> Option<Self> {
        let mut fields = Reader::new(bytes);
        if fields.take_u32().ok()? != APPEND_MAGIC {
            return None;
        }
        let count = fields.take_u32().ok()?;
        let (offset, synced) = (fields.take_u64().ok()?, fields.take_u64().ok()?);
        let head = Self { offset, bytes: count, synced };
        let (stored, rest) = (fields.take_u32().ok()?, fields.take_u32().ok()?);
        let content = fields.take_bytes(count as usize).ok()?;
        let padding = append_bytes(content.len()) - APPEND_HEAD_BYTES - content.len();
        let padding = fields.take_bytes(padding).ok()?;
        let is_sound = rest == 0
            && count > 0
            && synced <= offset
            && offset.checked_add(u64::from(count)).is_some()
            && padding.iter().all(|byte| *byte == 0)
            && head.checksum(identity, content) == stored;
        is_sound.then_some(head)
    }
}

/// Returns the bytes that an append of `content` bytes takes in a file.
pub(crate) fn append_bytes(content: usize) -> usize {
    APPEND_HEAD_BYTES + content.next_multiple_of(APPEND_ALIGNMENT)
}

/// The appends of a log, up to the first one that is not whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Appends {
    /// Each append, and its beginning behind the first block.
    pub(crate) all: Vec<(AppendHead, usize)>,
    /// The length of the content.
    pub(crate) length: u64,
    /// The end of the last append, behind the first block.
    pub(crate) end: usize,
    /// The greatest length that a later append names as synced, although the log does not reach it.
    /// (S3)
    pub(crate) lost: Option<u64>,
}

/// Reads the appends of a log. `bytes` follow the first block.
pub(crate) fn walk_appends(bytes: &[u8], identity: u64) -> Appends {
    let mut found = Appends::default();
    while let Some(rest) = bytes.get(found.end..)
        && let Some(head) = AppendHead::decode(rest, identity)
        && head.offset == found.length
    {
        found.all.push((head, found.end));
        found.length += u64::from(head.bytes);
        found.end += append_bytes(head.bytes as usize);
    }
    // Behind the end only appends that were never synced may be left.
    let mut at = found.end;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(later) = AppendHead::decode(rest, identity)
            && later.synced > found.length
        {
            found.lost = found.lost.max(Some(later.synced));
        }
        at += APPEND_ALIGNMENT;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: Kind) -> Head {
        let range = RangeId(7);
        let name = FileName { range, kind, number: 42, nonce: 0x1122_3344_5566_7788, part: 3 };
        let (cluster, node, cookie) = (0xc1, 5, 0xfeed);
        Head { name, cluster, node, cookie, epoch: Epoch(9), stripe: 2 }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_first_block_keeps_its_bytes() {
        for kind in [Kind::Data, Kind::Parity, Kind::Metadata, Kind::Log, Kind::Manifest] {
            let bytes = head(kind).encode();
            assert_eq!((bytes.len(), Head::decode(&bytes)), (HEAD_BYTES, Ok(head(kind))));
        }
        let golden = concat!(
            "544353544f434c4701000000cb431630c10000000000000005000000edfe00000000000007000000",
            "042a0000000000000088776655443322110300090000000000000002000000c822363d"
        );
        assert_eq!(hex(head(Kind::Log).encode().get(..75).unwrap_or_default()), golden);
        for at in 0..75 {
            let mut bytes = head(Kind::Data).encode();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            assert!(Head::decode(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_append_keeps_its_bytes() {
        let append = AppendHead { offset: 300, bytes: 5, synced: 200 };
        let bytes = append.encode(7, b"hello");
        assert_eq!(AppendHead::decode(&bytes, 7), Some(append));
        assert_eq!(AppendHead::decode(&bytes, 8), None);
        assert_eq!(
            hex(&bytes),
            "54415050050000002c01000000000000c800000000000000a58d25000000000068656c6c6f000000"
        );
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            assert_ne!(AppendHead::decode(&bytes, 7), Some(append), "byte {at}");
        }
    }

    #[test]
    fn a_footer_keeps_its_bytes() {
        let footer = Footer { length: 5_000, units: vec![1, 2] };
        let bytes = footer.encode(7);
        assert_eq!(Footer::decode(&bytes, 7), Ok(footer));
        assert!(Footer::decode(&bytes, 8).is_err());
        assert_eq!(hex(&bytes), "0100000002000000881300000000000046e5fa8a02000000");
        let last = bytes.last_chunk().copied().unwrap_or_default();
        let file_bytes = Footer::begin(5_000) + bytes.len() as u64;
        assert_eq!(Footer::bytes_of(file_bytes, &last), Some(bytes.len() as u64));
        assert_eq!(Footer::bytes_of(file_bytes + 1, &last), None);
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            assert!(Footer::decode(&bytes, 7).is_err(), "byte {at}");
        }
    }
}
