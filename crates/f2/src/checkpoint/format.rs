//! What the superblock says of a store.
//!
//! # Format
//! `docs/formats/f2-log.md`.

use codec::{Corruption, Reader, SeqNo, Writer};

use crate::address::LogAddress;
use crate::hash_index::BASE_BITS_MAX;
use crate::hybrid_log::BLOCK_BYTES;

/// No log is longer: 128 TiB.
const END_MAX: u64 = 1 << 47;

/// Whose superblock it is.
pub(crate) const SUPERBLOCK_KIND: [u8; 8] = *b"f2\0\0\0\0\0\0";
/// The superblock's file.
pub(crate) const SUPERBLOCK: &str = "superblock";

/// What a store is made with and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Goes into the hash of each key.
    pub(crate) hash_seed: u64,
    pub(crate) page_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) index_bits: u32,
}

/// A whole checkpoint: the log from `begin` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) identity: Identity,
    pub(crate) begin: LogAddress,
    pub(crate) end: LogAddress,
    /// Every write up to this number is in it.
    pub(crate) persisted: SeqNo,
}

impl Standing {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.identity.hash_seed);
        out.put_u64(self.identity.page_bytes);
        out.put_u64(self.identity.segment_bytes);
        out.put_u32(self.identity.index_bits);
        out.put_u64(self.begin.get());
        out.put_u64(self.end.get());
        out.put_u64(self.persisted.get());
        bytes
    }

    /// Reads what [`Standing::encode`] wrote.
    ///
    /// # Errors
    /// Fields that make no sense together.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        let identity = Identity {
            hash_seed: fields.take_u64()?,
            page_bytes: fields.take_u64()?,
            segment_bytes: fields.take_u64()?,
            index_bits: fields.take_u32()?,
        };
        let standing = Self {
            identity,
            begin: LogAddress::new(fields.take_u64()?),
            end: LogAddress::new(fields.take_u64()?),
            persisted: SeqNo::new(fields.take_u64()?),
        };
        fields.finish()?;
        let Identity { page_bytes, segment_bytes, index_bits, .. } = identity;
        let sizes_are_sound = page_bytes.is_power_of_two()
            && segment_bytes.is_power_of_two()
            && (BLOCK_BYTES..=1 << 30).contains(&page_bytes)
            && (page_bytes..=1 << 40).contains(&segment_bytes)
            && (1..=BASE_BITS_MAX).contains(&index_bits);
        let end = standing.end.get();
        let end_is_sound = end.is_multiple_of(BLOCK_BYTES) && end < END_MAX;
        if sizes_are_sound && end_is_sound && standing.begin <= standing.end {
            Ok(standing)
        } else {
            Err(Corruption::new("a checkpoint's fields make no sense together", 0))
        }
    }
}
