//! A value in the index: a small pair's value, or the handle of a record.
//!
//! # Format
//! `docs/formats/hashkv-index-value.md`. The last byte is the kind: 0 behind a value, 1 behind a
//! handle. A handle has the segment's number (varint), the record's offset in it and its bytes
//! (varints), and the write's number (varint).

use codec::{Corruption, Reader, SeqNo, Writer};

use crate::segment::record::{self, Record, place};

/// The last byte of a value that is in the index.
pub(crate) const INLINE: u8 = 0;
const HANDLE: u8 = 1;
/// Bytes of the longest index value with a handle.
pub(crate) const HANDLE_BYTES_MAX: usize =
    1 + 2 * codec::VARINT_U64_BYTES_MAX + 2 * codec::VARINT_U32_BYTES_MAX;

/// The place of a record, and the number of its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) segment: u64,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) number: SeqNo,
}

/// A value in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexValue<'a> {
    /// The key's value.
    Inline(&'a [u8]),
    /// The place of its record.
    Handle(Handle),
}

impl Handle {
    /// Appends the index value with this handle.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut out = Writer::new(out);
        out.put_varint(self.segment);
        out.put_varint(u64::from(self.offset));
        out.put_varint(u64::from(self.bytes));
        out.put_varint(self.number.get());
        out.put_u8(HANDLE);
    }

    /// Returns the record of `key` in the bytes that this handle leads to. A later write may have
    /// replaced it there ([`crate::values::open_segment`]).
    ///
    /// # Errors
    /// The damage: bytes that this record does not have.
    pub(crate) fn record_in<'b>(
        &self,
        bytes: &'b [u8],
        store: u64,
        key: &[u8],
    ) -> Result<Record<'b>, Corruption> {
        let place = place(self.segment, u64::from(self.offset), store);
        let record = record::decode(bytes, place)?;
        match record.key == key && record.number >= self.number {
            true => Ok(record),
            false => Err(Corruption::new("a handle leads to a record of another write", 0)),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        let segment = reader.take_varint_u64()?;
        let (offset, bytes) = (reader.take_varint_u32()?, reader.take_varint_u32()?);
        let number = SeqNo::new(reader.take_varint_u64()?);
        reader.finish()?;
        Ok(Self { segment, offset, bytes, number })
    }
}

impl<'a> IndexValue<'a> {
    /// Decodes a value of the index.
    ///
    /// # Errors
    /// Bytes that no value has.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Corruption> {
        match bytes.split_last() {
            Some((&INLINE, value)) => Ok(Self::Inline(value)),
            Some((&HANDLE, handle)) => Handle::decode(handle).map(Self::Handle),
            Some((kind, _)) => {
                Err(Corruption::new(format!("there are no index values of kind {kind}"), 0))
            }
            None => Err(Corruption::new("an index value is empty", 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A later write may have replaced the record of a handle, and an earlier one never has.
    #[test]
    fn a_handle_leads_to_its_record_or_a_later_one() {
        let record = |key: &'static [u8], number| {
            let number = SeqNo::new(number);
            let record = Record { kind: record::Kind::Value, number, key, value: b"value" };
            let mut bytes = Vec::new();
            record.encode(place(3, 300, 7), &mut bytes);
            bytes
        };
        let handle = Handle { segment: 3, offset: 300, bytes: 25, number: SeqNo::new(9) };
        let leads_to = |bytes: &[u8]| handle.record_in(bytes, 7, b"key").is_ok();
        assert!(leads_to(&record(b"key", 9)) && leads_to(&record(b"key", 10)));
        assert!(!leads_to(&record(b"key", 8)) && !leads_to(&record(b"kez", 9)));
        assert!(handle.record_in(&record(b"key", 9), 8, b"key").is_err(), "of another store");
    }

    #[test]
    fn values_come_back_as_they_went() {
        let largest =
            Handle { segment: u64::MAX, offset: u32::MAX, bytes: u32::MAX, number: SeqNo::MAX };
        let small = Handle { segment: 3, offset: 300, bytes: 5, number: SeqNo::new(7) };
        for handle in [largest, small] {
            let mut bytes = Vec::new();
            handle.encode(&mut bytes);
            assert!(bytes.len() <= HANDLE_BYTES_MAX);
            assert_eq!(IndexValue::decode(&bytes), Ok(IndexValue::Handle(handle)));
            for end in 0..bytes.len() - 1 {
                let mut cut = bytes[..end].to_vec();
                cut.push(HANDLE);
                assert!(IndexValue::decode(&cut).is_err(), "{cut:?}");
            }
        }
        // The bytes of `docs/formats/hashkv-index-value.md`.
        let mut bytes = Vec::new();
        small.encode(&mut bytes);
        assert_eq!(bytes, [3, 0xac, 2, 5, 7, 1]);
        assert_eq!(IndexValue::decode(b"small\0"), Ok(IndexValue::Inline(b"small")));
        assert!(IndexValue::decode(b"").is_err() && IndexValue::decode(&[9]).is_err());
    }
}
