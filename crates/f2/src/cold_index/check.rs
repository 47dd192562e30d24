//! The cold index as it lies on the device, to be compared with the cold log: every entry leads to
//! where a record of its key's position begins.
//!
//! 1. The directory is made from the chunk log, as when a store is opened.
//! 2. The chunk log is read again, and of each chunk those entries are kept for which the directory
//!    still names it; then they are sorted by address.
//! 3. The cold log's records come by in the order of their addresses, and each takes its entries.

use std::iter::Peekable;
use std::vec::IntoIter;

use codec::Corruption;
use engine::Result;

use super::chunk::{Chunk, Entry, Prefix, encode};
use super::directory::Directory;
use super::rebuild::{Restored, rebuild};
use crate::address::LogAddress;
use crate::hybrid_log::{Geometry, Segments, stretches};
use crate::position::Position;
use crate::record::{Damage, WORD_BYTES};

/// What the index says of one record of the cold log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NamedRecord {
    address: LogAddress,
    prefix: Prefix,
}

const _: () = assert!(size_of::<NamedRecord>() == 16, "what `check` says that it takes");

/// The records that the index names, in the order of their addresses, until they are met.
pub(crate) struct NamedRecords<'a> {
    segments: &'a Segments,
    geometry: &'a Geometry,
    directory: Directory,
    records: Peekable<IntoIter<NamedRecord>>,
}

impl<'a> NamedRecords<'a> {
    /// Reads and verifies the chunk log from `begin` to `end`, twice. Memory: 16 bytes an entry, and
    /// the directory.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(crate) fn read(
        segments: &'a Segments,
        geometry: &'a Geometry,
        begin: LogAddress,
        end: LogAddress,
    ) -> Result<Self> {
        let Restored { directory, entries, .. } = rebuild(segments, geometry, begin, end)?;
        let mut records = Vec::with_capacity(entries as usize);
        stretches(segments, geometry, begin, end, &mut |stretch| {
            stretch.records(&mut |at, stored| {
                if stored.header.is_invalid() {
                    return Ok(());
                }
                let damaged = |damage| stretch.damage(at, damage);
                let chunk = Chunk::decode(stored.key, stored.value).map_err(damaged)?;
                let named = chunk.entries().map(|entry| NamedRecord {
                    address: entry.address(),
                    prefix: chunk.name.first().with_tag(entry.tag()),
                });
                records.extend(named.filter(|it| directory.find(it.prefix).1.address() == at));
                Ok(())
            })
        })?;
        records.sort_unstable();
        Ok(Self { segments, geometry, directory, records: records.into_iter().peekable() })
    }

    /// How many there are that were not met.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The record at `address`, the next one of the cold log, is of a key at `position`. Answers
    /// whether an entry names it.
    ///
    /// # Errors
    /// An entry that leads to no record, or to this one with the bits of another position.
    pub(crate) fn meet(
        &mut self,
        address: LogAddress,
        position: Position,
    ) -> std::result::Result<bool, Corruption> {
        let mut is_named = false;
        while let Some(named) = self.records.next_if(|named| named.address <= address) {
            if named.address < address {
                return Err(self.leads_to_no_record(named));
            }
            if named.prefix != Prefix::of(position) {
                return Err(self.damage(named, "a record of a key with another hash"));
            }
            is_named = true;
        }
        Ok(is_named)
    }

    /// All records of the cold log have come by.
    ///
    /// # Errors
    /// An entry that leads to no record.
    pub(crate) fn finish(mut self) -> std::result::Result<(), Corruption> {
        self.records.next().map_or(Ok(()), |named| Err(self.leads_to_no_record(named)))
    }

    fn leads_to_no_record(&self, named: NamedRecord) -> Corruption {
        self.damage(named, "where no record of the cold log begins")
    }

    /// The place is that of the chunk.
    fn damage(&self, named: NamedRecord, to_what: &str) -> Corruption {
        let NamedRecord { address, prefix } = named;
        let tag = prefix.tag();
        let what = format!("the chunk's entry of tag {tag:#x} leads to {address:?}, {to_what}");
        let chunk = self.directory.find(prefix).1.address();
        let number = self.geometry.segment(chunk);
        let offset = self.segments.get(number).map_or(0, |segment| segment.offset(chunk));
        Corruption::new(what, offset).at(&self.segments.file_name(number), 0)
    }
}

/// Reads `bytes` as the name and the entries of a chunk, and answers what a chunk is written as that
/// has what look-ups find in this one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn encoded_again(bytes: &[u8]) -> std::result::Result<Vec<u8>, Damage> {
    let (name, value) = bytes.split_at(bytes.len().min(WORD_BYTES));
    let chunk = Chunk::decode(name, Some(value))?;
    let mut tags: Vec<u32> = chunk.entries().map(Entry::tag).collect();
    tags.dedup();
    let (mut entries, mut addresses) = (Vec::with_capacity(chunk.len()), Vec::new());
    for tag in tags {
        addresses.clear();
        chunk.addresses(tag, &mut addresses);
        entries.extend(addresses.iter().map(|address| Entry::new(tag, *address)));
    }
    let mut again = Vec::new();
    encode(&entries, &mut again);
    Ok([&chunk.name.word().to_le_bytes()[..], &again].concat())
}
