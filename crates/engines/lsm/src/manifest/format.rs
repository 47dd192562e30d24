//! The bytes of the manifest and of the superblock's payload (`docs/formats/lsm-manifest.md`).
//!
//! # Format
//! A manifest is a header of 16 bytes and records. A record: the length of its edit (`u32`), the
//! checksum of the chain (`u32`: of the checksum before it, the length and the edit), the edit. An
//! edit: how many tables go, each with its level (`u8`) and number (`u64`); how many come, each
//! with its level and summary; how many range deletes come.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{Corruption, FileHeader, Format, Reader, SeqNo, Writer, chain};

use crate::range_deletes::{self, RangeDelete};
use crate::table::Summary;
use crate::version::LEVELS;

/// The superblock's name, and whose it is.
pub(crate) const SUPERBLOCK: &str = "superblock";
pub(super) const SUPERBLOCK_KIND: [u8; 8] = *b"lsm     ";
/// The manifest's header.
pub(crate) const FORMAT: Format = Format::new(*b"TCLSMMAN", 3, 0);
/// Prefix of a manifest's name.
const PREFIX: &str = "manifest-";
/// The fewest bytes of a table that goes, and of one that comes.
const REMOVED_BYTES: usize = 9;
const ADDED_BYTES_MIN: usize = 20;

/// Returns the name of a manifest's file.
pub(super) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// Returns the number in a manifest's name.
pub(super) fn file_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Returns whether a file belongs to a store.
pub(super) fn is_ours(name: &str) -> bool {
    file_number(name).is_some() || name.starts_with("table-")
}

/// The current manifest, and how much of it counts: the superblock's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Everything up to this is in tables.
    pub(crate) persisted: SeqNo,
    /// The manifest's number; zero before there is one.
    pub(crate) manifest: u64,
    /// How far it goes.
    pub(crate) bytes: u64,
    /// The chain's checksum there.
    pub(crate) checksum: u32,
}

impl Standing {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.persisted.get());
        out.put_u64(self.manifest);
        out.put_u64(self.bytes);
        out.put_u32(self.checksum);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        let standing = Self {
            persisted: SeqNo::new(reader.take_u64()?),
            manifest: reader.take_u64()?,
            bytes: reader.take_u64()?,
            checksum: reader.take_u32()?,
        };
        reader.finish()?;
        Ok(standing)
    }
}

/// Tables that go and come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Level and number.
    pub(crate) removed: Vec<(usize, u64)>,
    pub(crate) added: Vec<(usize, Summary)>,
    pub(crate) range_deletes: Vec<Arc<RangeDelete>>,
}

impl Edit {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.range_deletes.is_empty()
    }

    /// Returns the bytes that it takes in a manifest.
    pub(super) fn encoded_len(&self) -> u64 {
        self.encode().len() as u64
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_varint(self.removed.len() as u64);
        for (level, number) in &self.removed {
            out.put_u8(*level as u8);
            out.put_u64(*number);
        }
        out.put_varint(self.added.len() as u64);
        for (level, summary) in &self.added {
            out.put_u8(*level as u8);
            summary.encode(&mut out);
        }
        out.put_varint(self.range_deletes.len() as u64);
        for delete in &self.range_deletes {
            delete.encode(&mut out);
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        let mut edit = Self::default();
        for _ in 0..reader.take_count(REMOVED_BYTES)? {
            edit.removed.push((take_level(&mut reader)?, reader.take_u64()?));
        }
        for _ in 0..reader.take_count(ADDED_BYTES_MIN)? {
            edit.added.push((take_level(&mut reader)?, Summary::decode(&mut reader)?));
        }
        for _ in 0..reader.take_count(range_deletes::ENCODED_BYTES_MIN)? {
            edit.range_deletes.push(Arc::new(RangeDelete::decode(&mut reader)?));
        }
        reader.finish()?;
        Ok(edit)
    }
}

/// The content after some edits: tables by number, and range deletes. A manifest drops range
/// deletes that are no longer needed only when it is rewritten.
#[derive(Debug, Default)]
struct All {
    tables: BTreeMap<u64, (usize, Summary)>,
    range_deletes: Vec<Arc<RangeDelete>>,
}

impl All {
    fn apply(&mut self, edit: Edit) -> Result<(), Corruption> {
        for (level, number) in edit.removed {
            if self.tables.get(&number).is_none_or(|(at, _)| *at != level) {
                let what = format!("table {number} goes from level {level}, where it is not");
                return Err(Corruption::new(what, 0));
            }
            self.tables.remove(&number);
        }
        for (level, summary) in edit.added {
            let number = summary.id.number;
            if self.tables.insert(number, (level, summary)).is_some() {
                return Err(Corruption::new(format!("table {number} comes twice"), 0));
            }
        }
        self.range_deletes.extend(edit.range_deletes);
        Ok(())
    }
}

fn take_level(reader: &mut Reader<'_>) -> Result<usize, Corruption> {
    let level = usize::from(reader.take_u8()?);
    if level >= LEVELS {
        return Err(reader.corruption(format!("there is no level {level}")));
    }
    Ok(level)
}

/// Returns the checksum with which the chain of a manifest begins.
pub(super) fn first_checksum(number: u64) -> u32 {
    chain(0, &[FORMAT.header(0).encode().as_slice(), &number.to_le_bytes()].concat())
}

/// Returns the record of an edit behind `standing`, and advances `standing` to the record's end.
pub(super) fn record(edit: &Edit, standing: &mut Standing) -> Vec<u8> {
    let edit = edit.encode();
    let len = (edit.len() as u32).to_le_bytes();
    standing.checksum = chain(standing.checksum, &[&len, edit.as_slice()].concat());
    let record = [&len, standing.checksum.to_le_bytes().as_slice(), &edit].concat();
    standing.bytes += record.len() as u64;
    record
}

/// Decodes all edits of a manifest as one. `bytes` end at the length that `standing` has.
pub(super) fn decode(bytes: &[u8], standing: &Standing) -> Result<Edit, Corruption> {
    FORMAT.decode(bytes)?;
    let mut reader = Reader::new(bytes);
    reader.take_bytes(FileHeader::LEN)?;
    let mut checksum = first_checksum(standing.manifest);
    let mut all = All::default();
    while !reader.is_empty() {
        let at = reader.position() as u64;
        let placed = |damage: Corruption| Corruption { offset: at, ..damage };
        let len = reader.take_array::<4>()?;
        let stored = reader.take_u32()?;
        let edit = reader.take_bytes(u32::from_le_bytes(len) as usize)?;
        checksum = chain(checksum, &[len.as_slice(), edit].concat());
        if checksum != stored {
            return Err(Corruption::new("the checksum of an edit does not match", at));
        }
        all.apply(Edit::decode(edit).map_err(placed)?).map_err(placed)?;
    }
    if checksum != standing.checksum {
        return Err(Corruption::new("the manifest is not the one that the superblock names", 0));
    }
    let added = all.tables.into_values().collect();
    Ok(Edit { removed: Vec::new(), added, range_deletes: all.range_deletes })
}

/// Decodes a superblock's payload that no checksum vouches for: the entry for fuzzing. Returns the
/// number of the manifest that it names, and the bytes of the manifest that count.
///
/// # Errors
/// The damage.
///
/// # Panics
/// If it has another encoding.
pub fn decode_standing(payload: &[u8]) -> Result<(u64, u64), Corruption> {
    let standing = Standing::decode(payload)?;
    assert_eq!(standing.encode(), payload, "one encoding");
    Ok((standing.manifest, standing.bytes))
}

/// Decodes a chain of edits that no checksum vouches for, each with its length (`u32`) in front:
/// the entry for fuzzing. Returns the number of tables after the last edit.
///
/// # Errors
/// The damage.
pub fn decode_edits(bytes: &[u8]) -> Result<usize, Corruption> {
    let mut reader = Reader::new(bytes);
    let mut all = All::default();
    while !reader.is_empty() {
        let len = reader.take_u32()? as usize;
        let edit = Edit::decode(reader.take_bytes(len)?)?;
        debug_assert_eq!(edit.encode().len(), len, "an edit has one encoding");
        all.apply(edit)?;
    }
    Ok(all.tables.len())
}
