//! Content of a store's superblock.
//!
//! # Format
//! `docs/formats/f2-log.md`.

use codec::{Corruption, Reader, SeqNo, Writer};

use super::{Checkpoint, OfEach};
use crate::address::LogAddress;
use crate::cold_index::{CHUNK_BYTES, Counts, NamedSnapshot};
use crate::hash_index::BASE_BITS_MAX;
use crate::hybrid_log::BLOCK_BYTES;

/// No log is longer: 128 TiB.
const END_MAX: u64 = 1 << 47;

/// Kind of the superblock: of a store of `f2`.
pub(crate) const SUPERBLOCK_KIND: [u8; 8] = *b"f2\0\0\0\0\0\0";
/// The superblock's file.
pub(crate) const SUPERBLOCK: &str = engine::Superblock::NAME;

/// Units of a log's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogUnits {
    pub(crate) page_bytes: u64,
    pub(crate) segment_bytes: u64,
}

/// Properties that a store is made with and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Goes into the hash of each key.
    pub(crate) hash_seed: u64,
    /// Base bits of the hot index.
    pub(crate) index_bits: u32,
    /// Bytes of a chunk of the cold index; 0 in a store of one log.
    pub(crate) chunk_bytes: u32,
    pub(crate) hot: LogUnits,
    pub(crate) cold: LogUnits,
    pub(crate) chunks: LogUnits,
}

/// A part of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: LogAddress,
    pub(crate) end: LogAddress,
}

/// A whole checkpoint: the part of each log that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) identity: Identity,
    pub(crate) hot: Span,
    pub(crate) cold: Span,
    pub(crate) chunks: Span,
    /// Every write up to this number is in it.
    pub(crate) persisted: SeqNo,
    /// The number of checkpoints before it.
    pub(crate) number: u64,
    /// The directory of the cold index, at an earlier moment.
    pub(crate) directory: NamedSnapshot,
    /// Entries of the cold index.
    pub(crate) counts: Counts,
    /// Bytes of the cold log that live, about.
    pub(crate) cold_live_bytes: u64,
}

impl Identity {
    /// Whether the store has a cold log.
    pub(crate) const fn has_cold_log(&self) -> bool {
        self.chunk_bytes != 0
    }

    fn is_sound(&self) -> bool {
        let units = [self.hot, self.cold, self.chunks];
        (1..=BASE_BITS_MAX).contains(&self.index_bits)
            && (self.chunk_bytes == 0 || CHUNK_BYTES.contains(&u64::from(self.chunk_bytes)))
            && units.iter().all(LogUnits::is_sound)
    }
}

impl LogUnits {
    /// Neither is longer: a GiB and a TiB.
    pub(crate) const PAGE_BYTES_MAX: u64 = 1 << 30;
    pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 40;

    fn is_sound(&self) -> bool {
        self.page_bytes.is_power_of_two()
            && self.segment_bytes.is_power_of_two()
            && (BLOCK_BYTES..=Self::PAGE_BYTES_MAX).contains(&self.page_bytes)
            && (self.page_bytes..=Self::SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
    }
}

impl Span {
    pub(crate) const fn bytes(&self) -> u64 {
        self.end.get().saturating_sub(self.begin.get())
    }

    fn is_sound(&self) -> bool {
        let end = self.end.get();
        end.is_multiple_of(BLOCK_BYTES) && end < END_MAX && self.begin <= self.end
    }
}

impl Committed {
    /// An empty store.
    pub(crate) fn empty(identity: Identity) -> Self {
        let [hot, cold, chunks] = [Span::default(); 3];
        let (persisted, directory, counts) = Default::default();
        let (number, cold_live_bytes) = (0, 0);
        Self { identity, hot, cold, chunks, persisted, number, directory, counts, cold_live_bytes }
    }

    /// Its part of each log.
    pub(crate) const fn spans(&self) -> OfEach<Span> {
        [self.hot, self.cold, self.chunks]
    }

    /// The same with other parts of the logs.
    pub(crate) const fn with_spans(self, [hot, cold, chunks]: OfEach<Span>) -> Self {
        Self { hot, cold, chunks, ..self }
    }

    /// Returns the checkpoint that a store reports for it.
    pub(crate) const fn checkpoint(&self) -> Checkpoint {
        Checkpoint { number: self.number, persisted: self.persisted }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        let Identity { hash_seed, index_bits, chunk_bytes, hot, cold, chunks } = self.identity;
        out.put_u64(hash_seed);
        out.put_u32(index_bits);
        out.put_u32(chunk_bytes);
        for units in [hot, cold, chunks] {
            out.put_u64(units.page_bytes);
            out.put_u64(units.segment_bytes);
        }
        for span in self.spans() {
            out.put_u64(span.begin.get());
            out.put_u64(span.end.get());
        }
        out.put_u64(self.persisted.get());
        out.put_u64(self.number);
        out.put_u64(self.directory.number);
        out.put_u64(self.directory.from.get());
        out.put_u64(self.counts.entries);
        out.put_u64(self.counts.covered);
        out.put_u64(self.cold_live_bytes);
        bytes
    }

    /// Reads the bytes that [`Committed::encode`] wrote.
    ///
    /// # Errors
    /// Fields that make no sense together.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        let hash_seed = fields.take_u64()?;
        let index_bits = fields.take_u32()?;
        let chunk_bytes = fields.take_u32()?;
        let [hot, cold, chunks] = take_three(&mut fields, |fields| {
            Ok(LogUnits { page_bytes: fields.take_u64()?, segment_bytes: fields.take_u64()? })
        })?;
        let identity = Identity { hash_seed, index_bits, chunk_bytes, hot, cold, chunks };
        let [hot, cold, chunks] = take_three(&mut fields, |fields| {
            let begin = LogAddress::new(fields.take_u64()?);
            Ok(Span { begin, end: LogAddress::new(fields.take_u64()?) })
        })?;
        let persisted = SeqNo::new(fields.take_u64()?);
        let number = fields.take_u64()?;
        let directory_number = fields.take_u64()?;
        let from = LogAddress::new(fields.take_u64()?);
        let counts = Counts { entries: fields.take_u64()?, covered: fields.take_u64()? };
        let cold_live_bytes = fields.take_u64()?;
        fields.finish()?;
        let directory = NamedSnapshot { number: directory_number, from };
        let committed = Self {
            identity,
            hot,
            cold,
            chunks,
            persisted,
            number,
            directory,
            counts,
            cold_live_bytes,
        };
        let spans_are_sound = committed.spans().iter().all(Span::is_sound);
        if identity.is_sound()
            && spans_are_sound
            && directory.is_sound(END_MAX)
            && counts.is_sound(END_MAX)
            && cold_live_bytes <= cold.bytes()
        {
            Ok(committed)
        } else {
            Err(Corruption::new("a checkpoint's fields make no sense together", 0))
        }
    }
}

fn take_three<T>(
    fields: &mut Reader<'_>,
    mut take: impl FnMut(&mut Reader<'_>) -> Result<T, Corruption>,
) -> Result<[T; 3], Corruption> {
    Ok([take(fields)?, take(fields)?, take(fields)?])
}
