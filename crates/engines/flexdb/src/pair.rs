//! One pair in its encoding in the space, and the bytes at the space's beginning.
//!
//! # Format
//! A pair: varint of the key's length, varint of the value's length and one more, or 0 for a
//! tombstone, the key, the value. `docs/formats/flexdb.md`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, Reader, SeqNo, Writer, varint_len};
use engine::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Bytes of the longest head of a pair.
pub(crate) const HEAD_BYTES_MAX: usize = 3 + 5;

/// A key, and its value or a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

/// The content of the head of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairHead {
    /// Bytes of the head itself.
    pub(crate) head_len: usize,
    pub(crate) key_len: usize,
    /// None for a tombstone.
    pub(crate) value_len: Option<usize>,
}

impl PairHead {
    /// Takes the head at the beginning of the rest of `fields`, which may end behind it.
    pub(crate) fn take(fields: &mut Reader<'_>) -> Result<Self, Corruption> {
        let begin = fields.position();
        let key_len = fields.take_varint_u32()? as usize;
        let value_len = fields.take_varint_u32()? as usize;
        if key_len > KEY_BYTES_MAX || value_len > VALUE_BYTES_MAX + 1 {
            return Err(Corruption::new("a pair longer than any", begin as u64));
        }
        let head_len = fields.position() - begin;
        Ok(Self { head_len, key_len, value_len: value_len.checked_sub(1) })
    }

    /// Bytes of the whole pair.
    pub(crate) fn pair_len(&self) -> usize {
        self.head_len + self.key_len + self.value_len.unwrap_or(0)
    }
}

impl<'a> Pair<'a> {
    /// Bytes that it takes.
    pub(crate) fn encoded_len(&self) -> usize {
        let value_len = self.value.map_or(0, |value| value.len() + 1);
        let head_len = varint_len(self.key.len() as u64) + varint_len(value_len as u64);
        head_len + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// Adds it to `bytes`.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let mut out = Writer::new(bytes);
        out.put_varint(self.key.len() as u64);
        out.put_varint(self.value.map_or(0, |value| value.len() as u64 + 1));
        out.put_bytes(self.key);
        out.put_bytes(self.value.unwrap_or_default());
    }

    /// The next pair, and how long its head is.
    pub(crate) fn take(fields: &mut Reader<'a>) -> Result<(PairHead, Self), Corruption> {
        let head = PairHead::take(fields)?;
        let key = fields.take_bytes(head.key_len)?;
        let value = head.value_len.map(|len| fields.take_bytes(len)).transpose()?;
        Ok((head, Self { key, value }))
    }
}

/// Decodes the pairs of an interval one by one, and returns how many there are: the entry for code
/// that checks the decoder. Each pair has one encoding.
///
/// # Errors
/// The damage, with its offset.
///
/// # Panics
/// If a pair has another encoding.
pub fn decode_pairs(bytes: &[u8]) -> Result<usize, Corruption> {
    let mut fields = Reader::new(bytes);
    let mut count = 0;
    while !fields.is_empty() {
        let rest = fields.rest();
        let (head, pair) = Pair::take(&mut fields)?;
        let mut again = Vec::new();
        pair.encode(&mut again);
        assert_eq!(rest.get(..head.pair_len()), Some(&*again), "a pair has one encoding");
        assert_eq!(pair.encoded_len(), again.len(), "a pair is as long as it says");
        count += 1;
    }
    Ok(count)
}

/// The header in front of all pairs: the kind of the space, and how far the store's writes are in
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreHeader {
    /// Every write up to this is in the space.
    pub(crate) persisted: SeqNo,
}

impl StoreHeader {
    const FORMAT: codec::Format = codec::Format::new(*b"TCFLEXDB", 1, 0);

    /// Its bytes in the space.
    pub(crate) const BYTES: usize = codec::FileHeader::LEN + 8 + 4;

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Self::FORMAT.header(0).encode().to_vec();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.persisted.get());
        let checksum = codec::crc32c(&bytes);
        Writer::new(&mut bytes).put_u32(checksum);
        bytes
    }

    /// # Errors
    /// The damage, or that it is of a newer version, with its offset.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        Self::FORMAT.decode(bytes)?;
        let mut fields = Reader::new(bytes);
        fields.take_bytes(codec::FileHeader::LEN)?;
        let persisted = SeqNo::new(fields.take_u64()?);
        let expected = codec::crc32c(fields.taken());
        if fields.take_u32()? != expected {
            return Err(Corruption::new("the store's header has another checksum", 16));
        }
        fields.finish()?;
        Ok(Self { persisted })
    }
}

/// Decodes the header of a store: the entry for code that checks the decoder.
///
/// # Errors
/// The damage, with its offset.
///
/// # Panics
/// If a header has another encoding.
pub fn decode_header(bytes: &[u8]) -> Result<SeqNo, Corruption> {
    let header = StoreHeader::decode(bytes)?;
    assert_eq!(header.encode(), bytes, "a header has one encoding");
    Ok(header.persisted)
}

#[cfg(all(test, not(shuttle)))]
#[expect(clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back() {
        let long = vec![7; 70_000];
        let pairs = [
            Pair { key: b"", value: Some(b"") },
            Pair { key: b"k", value: None },
            Pair { key: &long[..65_535], value: Some(&long) },
        ];
        let mut bytes = Vec::new();
        for pair in pairs {
            let before = bytes.len();
            pair.encode(&mut bytes);
            assert_eq!(bytes.len() - before, pair.encoded_len());
        }
        let mut fields = Reader::new(&bytes);
        for pair in pairs {
            assert_eq!(Pair::take(&mut fields).map(|(_, pair)| pair), Ok(pair));
        }
        assert!(fields.is_empty());
        assert_eq!(decode_pairs(&bytes), Ok(3));
        for cut in [1, 3, bytes.len() - 1] {
            assert!(decode_pairs(&bytes[..cut]).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn a_header_is_verified() {
        let bytes = StoreHeader { persisted: SeqNo::new(77) }.encode();
        assert_eq!(bytes.len(), StoreHeader::BYTES);
        assert_eq!(decode_header(&bytes), Ok(SeqNo::new(77)));
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 4;
            assert!(StoreHeader::decode(&damaged).is_err(), "byte {index}");
        }
    }
}
