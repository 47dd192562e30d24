//! The bytes of a snapshot file and of the superblock's content.
//!
//! # Format
//! `docs/formats/memory-snapshot.md`. In short: a head of one unit, blocks of pairs, one block with
//! the totals. Every block is a whole number of units of [`UNIT_BYTES`], zeros behind its payload;
//! its checksum covers its place (the file's number and nonce, the offset) and all of its bytes.

use codec::{Corruption, FileHeader, Format, Place, Reader, SeqNo, Writer};

/// The header of a snapshot file.
pub(crate) const FORMAT: Format = Format::new(*b"TCMEMSNP", 1, 0);
/// The kind of the superblock: it belongs to this engine.
pub(crate) const SUPERBLOCK_KIND: [u8; 8] = *b"memory\0\0";
/// The superblock's file.
pub(crate) const SUPERBLOCK: &str = engine::Superblock::NAME;
/// The prefix of the names of snapshot files.
const NAME_PREFIX: &str = "snapshot-";

/// Blocks begin and end on multiples of this, so that they may be written past the page cache.
pub(crate) const UNIT_BYTES: usize = 4096;
/// Checksum, kind, payload length, pairs.
pub(crate) const BLOCK_HEADER_BYTES: usize = 4 + 4 + 4 + 4;
/// Longest payload: what a `u32` says, rounded up to a unit, must stay below 4 GiB.
pub(crate) const PAYLOAD_BYTES_MAX: usize = (u32::MAX as usize) - 2 * UNIT_BYTES;

const KIND_PAIRS: u32 = 1;
const KIND_TOTALS: u32 = 2;

/// The name of snapshot file `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{NAME_PREFIX}{number:020}")
}

/// The number in a snapshot file's name, if it is one.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(NAME_PREFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Tells a file from all others, also from one of the same number that a crash cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) number: u64,
    pub(crate) nonce: u64,
}

impl Identity {
    fn place(self, offset: u64) -> Place {
        Place { file: self.number, offset, generation: self.nonce }
    }
}

/// The content of a superblock: the current snapshot, if any was taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) persisted: SeqNo,
    pub(crate) snapshot: Option<Summary>,
}

/// A whole snapshot file, from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) identity: Identity,
    pub(crate) bytes: u64,
    pub(crate) totals: Totals,
}

/// The totals of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) blocks: u64,
    pub(crate) pairs: u64,
    /// Bytes of keys and values.
    pub(crate) pair_bytes: u64,
}

impl Totals {
    fn encode(&self, out: &mut Writer<'_>) {
        out.put_u64(self.blocks);
        out.put_u64(self.pairs);
        out.put_u64(self.pair_bytes);
    }

    fn decode(fields: &mut Reader<'_>) -> Result<Self, Corruption> {
        Ok(Self {
            blocks: fields.take_u64()?,
            pairs: fields.take_u64()?,
            pair_bytes: fields.take_u64()?,
        })
    }
}

impl Committed {
    /// Nothing was persisted.
    pub(crate) const NOTHING: Self = Self { persisted: SeqNo::ZERO, snapshot: None };

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.persisted.get());
        out.put_u8(u8::from(self.snapshot.is_some()));
        if let Some(summary) = &self.snapshot {
            out.put_u64(summary.identity.number);
            out.put_u64(summary.identity.nonce);
            out.put_u64(summary.bytes);
            summary.totals.encode(&mut out);
        }
        bytes
    }

    /// Reads what [`Committed::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        let persisted = SeqNo::new(fields.take_u64()?);
        let snapshot = match fields.take_u8()? {
            0 => None,
            1 => Some(Summary {
                identity: Identity { number: fields.take_u64()?, nonce: fields.take_u64()? },
                bytes: fields.take_u64()?,
                totals: Totals::decode(&mut fields)?,
            }),
            other => return Err(fields.corruption(format!("{other} is neither yes nor no"))),
        };
        fields.finish()?;
        Ok(Self { persisted, snapshot })
    }
}

/// The first unit of a file: its identity, and the number that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) identity: Identity,
    pub(crate) persisted: SeqNo,
}

impl Head {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = FORMAT.header(0).encode().to_vec();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.identity.number);
        out.put_u64(self.identity.nonce);
        out.put_u64(self.persisted.get());
        bytes.resize(UNIT_BYTES - 4, 0);
        let checksum = self.identity.place(0).crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(unit: &[u8]) -> Result<Self, Corruption> {
        FORMAT.decode(unit)?;
        let mut fields = Reader::new(unit);
        fields.take_bytes(FileHeader::LEN)?;
        let identity = Identity { number: fields.take_u64()?, nonce: fields.take_u64()? };
        let persisted = SeqNo::new(fields.take_u64()?);
        fields.take_bytes(UNIT_BYTES - 4 - fields.position())?;
        let content = fields.taken();
        let checksum = fields.take_u32()?;
        if identity.place(0).crc32c(content) != checksum {
            return Err(Corruption::new("the head's checksum does not match", 0));
        }
        fields.finish()?;
        Ok(Self { identity, persisted })
    }
}

/// The first bytes of a block, not yet proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    checksum: u32,
    kind: u32,
    payload_bytes: u32,
    pub(crate) pairs: u32,
}

/// A block that was proven.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block<'a> {
    /// The number of pairs, and the payload.
    Pairs(u32, &'a [u8]),
    /// The last block.
    Totals(Totals),
}

impl BlockHeader {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        let header = Self {
            checksum: fields.take_u32()?,
            kind: fields.take_u32()?,
            payload_bytes: fields.take_u32()?,
            pairs: fields.take_u32()?,
        };
        if header.payload_bytes as usize > PAYLOAD_BYTES_MAX {
            return Err(Corruption::new("a block's length is too large", 8));
        }
        Ok(header)
    }

    /// Whether there are blocks of its kind.
    pub(crate) fn may_be_one(&self) -> bool {
        matches!(self.kind, KIND_PAIRS | KIND_TOTALS)
    }

    /// Whether it says to be the last block.
    pub(crate) fn says_totals(&self) -> bool {
        self.kind == KIND_TOTALS
    }

    /// The whole block's length in bytes, padding included.
    pub(crate) fn block_bytes(&self) -> usize {
        block_bytes(self.payload_bytes as usize)
    }

    /// Proves and reads `block`, which is [`BlockHeader::block_bytes`] long and begins at `offset`.
    pub(crate) fn open<'a>(
        &self,
        block: &'a [u8],
        identity: Identity,
        offset: u64,
    ) -> Result<Block<'a>, Corruption> {
        let mut fields = Reader::new(block);
        fields.take_u32()?;
        if identity.place(offset).crc32c(fields.rest()) != self.checksum {
            return Err(Corruption::new("a block's checksum does not match", 0));
        }
        fields.take_bytes(BLOCK_HEADER_BYTES - 4)?;
        let payload = fields.take_bytes(self.payload_bytes as usize)?;
        match self.kind {
            KIND_PAIRS => Ok(Block::Pairs(self.pairs, payload)),
            KIND_TOTALS => {
                let mut fields = Reader::new(payload);
                let totals = Totals::decode(&mut fields)?;
                fields.finish()?;
                Ok(Block::Totals(totals))
            }
            other => Err(Corruption::new(format!("there is no block of kind {other}"), 4)),
        }
    }
}

/// Turns `bytes`, which have room for a header in front of `pairs` encoded pairs, into a block for
/// `offset`.
pub(crate) fn seal_pairs(bytes: &mut Vec<u8>, pairs: u32, identity: Identity, offset: u64) {
    seal(bytes, KIND_PAIRS, pairs, identity, offset);
}

/// The last block.
pub(crate) fn totals_block(totals: &Totals, identity: Identity, offset: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_HEADER_BYTES];
    totals.encode(&mut Writer::new(&mut bytes));
    seal(&mut bytes, KIND_TOTALS, 0, identity, offset);
    bytes
}

fn seal(bytes: &mut Vec<u8>, kind: u32, pairs: u32, identity: Identity, offset: u64) {
    let payload_bytes = bytes.len() - BLOCK_HEADER_BYTES;
    assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "a block is ended long before");
    bytes.resize(block_bytes(payload_bytes), 0);
    bytes[4..8].copy_from_slice(&kind.to_le_bytes());
    bytes[8..12].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    bytes[12..16].copy_from_slice(&pairs.to_le_bytes());
    let checksum = identity.place(offset).crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
}

fn block_bytes(payload_bytes: usize) -> usize {
    (BLOCK_HEADER_BYTES + payload_bytes).next_multiple_of(UNIT_BYTES)
}

/// Appends a pair to a block's payload.
pub(crate) fn put_pair(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let mut out = Writer::new(bytes);
    out.put_prefixed(key);
    out.put_prefixed(value);
}

/// Takes a pair from a block's payload.
pub(crate) fn take_pair<'a>(payload: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), Corruption> {
    let key = payload.take_prefixed()?;
    if engine::check_key(key).is_err() {
        return Err(payload.corruption("a key is longer than any engine takes"));
    }
    Ok((key, payload.take_prefixed()?))
}
