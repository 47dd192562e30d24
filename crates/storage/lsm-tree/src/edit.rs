//! Edits of a tree: tables and range deletes that come, and tables that go.
//!
//! # Format
//! An edit (`docs/formats/lsm-manifest.md`): how many tables go, each with its level (`u8`) and
//! number (`u64`); how many come, each with its level and summary; how many range deletes come.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{Corruption, Format, Reader, Writer};
use edits::Kind;

use crate::range_deletes::{self, RangeDelete};
use crate::table::Summary;
use crate::version::LEVELS;

/// The manifest's header.
pub const FORMAT: Format = Format::new(*b"TCLSMMAN", 3, 0);
/// The fewest bytes of a table that goes, and of one that comes.
const REMOVED_BYTES: usize = 9;
const ADDED_BYTES_MIN: usize = 20;

/// Tables that go and come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Level and number.
    pub removed: Vec<(usize, u64)>,
    /// Level and summary of each table that comes.
    pub added: Vec<(usize, Summary)>,
    /// Range deletes that come.
    pub range_deletes: Vec<Arc<RangeDelete>>,
}

impl edits::Edit for Edit {
    const KIND: Kind = Kind {
        superblock: *b"lsm     ",
        format: FORMAT,
        prefix: "manifest-",
        is_of_store: |name| name.starts_with("table-"),
    };

    type All = All;

    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.range_deletes.is_empty()
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

    fn apply(self, all: &mut All) -> Result<(), Corruption> {
        all.apply(self)
    }

    fn of_all(all: All) -> Self {
        let added = all.tables.into_values().collect();
        Self { removed: Vec::new(), added, range_deletes: all.range_deletes }
    }
}

/// The content after some edits: tables by number, and range deletes. A manifest drops range
/// deletes that are no longer needed only when it is rewritten.
#[derive(Debug, Default)]
pub struct All {
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

/// Decodes a chain of edits that no checksum vouches for, each with its length (`u32`) in front:
/// the entry for fuzzing. Returns the number of tables after the last edit.
///
/// # Errors
/// The damage.
pub fn decode_edits(bytes: &[u8]) -> Result<usize, Corruption> {
    Ok(<Edit as edits::Edit>::decode_chain(bytes)?.tables.len())
}

#[cfg(all(test, not(shuttle)))]
mod tests;
