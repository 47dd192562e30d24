//! The cold index on the device, to be compared with the cold log: every entry leads to the
//! beginning of a record of its key's position.
//!
//! 1. The directory is made from the chunk log, as when a store is opened.
//! 2. The chunk log is read again, and of each chunk those entries are kept for which the directory
//!    still names it; then they are sorted by address.
//! 3. The cold log's records are met in the order of their addresses, and each takes its entries.

use std::iter::Peekable;
use std::vec::IntoIter;

use codec::Corruption;
use engine::Result;

use super::chunk::{Chunk, Entry, Prefix, encode};
use super::directory::{Directory, Word};
use crate::address::LogAddress;
use crate::hybrid_log::{Geometry, Met, Segments, inspect};
use crate::position::Position;
use crate::record::{Damage, Stored, WORD_BYTES};

/// An entry of the index for one record of the cold log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NamedRecord {
    address: LogAddress,
    prefix: Prefix,
}

const _: () = assert!(size_of::<NamedRecord>() == 16, "what `check` says that it takes");

/// Called for each entry that leads to a wrong address, with that address and the damage.
pub(crate) type Astray<'a> = dyn FnMut(LogAddress, Corruption) + 'a;

/// The records that the index names, in the order of their addresses, until they are met.
pub(crate) struct NamedRecords<'a> {
    segments: &'a Segments,
    geometry: &'a Geometry,
    directory: Directory,
    records: Peekable<IntoIter<NamedRecord>>,
    /// Entries that lead behind the record of a newer entry of their tag.
    overtakes: Vec<Overtake>,
}

/// An entry and a newer one of the same tag, by the addresses that they lead to: the older one's
/// record was copied after the newer one was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overtake {
    pub(crate) newer: LogAddress,
    pub(crate) older: LogAddress,
}

impl<'a> NamedRecords<'a> {
    /// Reads and verifies the chunk log from `begin` to `end`, twice. Calls `damaged` with each
    /// damage, and the end of the part that is lost by it. Memory: 16 bytes an entry, and the
    /// directory.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn read(
        segments: &'a Segments,
        geometry: &'a Geometry,
        begin: LogAddress,
        end: LogAddress,
        damaged: &mut dyn FnMut(LogAddress, Corruption),
    ) -> Result<Self> {
        let directory = Directory::new();
        inspect(segments, geometry, begin, end, &mut |met| match met {
            Met::Lost(_, to, damage) => damaged(to, damage),
            Met::Record(_, _, stored) if stored.header.is_invalid() => {}
            Met::Record(stretch, at, stored) => {
                if let Err(damage) = restore(&directory, at, stored) {
                    damaged(at.plus(stored.bytes as u64), stretch.damage(at, damage));
                }
            }
        })?;
        let (mut records, mut overtakes) = (Vec::new(), Vec::new());
        inspect(segments, geometry, begin, end, &mut |met| {
            let Met::Record(_, at, stored) = met else { return };
            let is_linked = !stored.header.is_invalid();
            let Some(chunk) = Chunk::decode(stored.key, stored.value).ok().filter(|_| is_linked)
            else {
                return;
            };
            let named = chunk.entries().map(|entry| NamedRecord {
                address: entry.address(),
                prefix: chunk.name.first().with_tag(entry.tag()),
            });
            let before = records.len();
            records.extend(named.filter(|it| directory.find(it.prefix).1.address() == at));
            note_overtakes(&records[before..], &mut overtakes);
        })?;
        records.sort_unstable();
        let records = records.into_iter().peekable();
        Ok(Self { segments, geometry, directory, records, overtakes })
    }

    /// Returns entries that lead behind the record of a newer entry of their tag, which may be of
    /// the same key.
    pub(crate) fn overtakes(&self) -> &[Overtake] {
        &self.overtakes
    }

    /// Returns whether the chunk of `position` that was found last is at `address` or behind.
    pub(crate) fn is_behind(&self, position: Position, address: LogAddress) -> bool {
        self.directory.find(Prefix::of(position)).1.address() >= address
    }

    /// How many there are that were not met.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Takes the record at `address`, the next one of the cold log, of a key at `position`. Returns
    /// whether an entry names it. Calls `astray` for entries that lead to no record, or to this one
    /// with the bits of another position, each with the address that it leads to.
    pub(crate) fn meet(
        &mut self,
        address: LogAddress,
        position: Position,
        astray: &mut Astray<'_>,
    ) -> bool {
        let mut is_named = false;
        while let Some(named) = self.records.next_if(|named| named.address <= address) {
            if named.address < address {
                astray(named.address, self.leads_to_no_record(named));
            } else if named.prefix != Prefix::of(position) {
                let what = "a record of a key with another hash";
                astray(named.address, self.damage(named, what));
            } else {
                is_named = true;
            }
        }
        is_named
    }

    /// Ends after all records of the cold log were met: the entries that are left lead to no
    /// record.
    pub(crate) fn finish(mut self, astray: &mut Astray<'_>) {
        while let Some(named) = self.records.next() {
            astray(named.address, self.leads_to_no_record(named));
        }
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

/// Entries of one chunk, in their order: the newest of each tag first.
fn note_overtakes(entries: &[NamedRecord], into: &mut Vec<Overtake>) {
    for same in entries.chunk_by(|one, other| one.prefix == other.prefix) {
        for (at, newer) in same.iter().enumerate() {
            let older = same[at + 1..].iter().filter(|older| older.address > newer.address);
            into.extend(older.map(|older| Overtake { newer: newer.address, older: older.address }));
        }
    }
}

/// Adds the chunk at `at` to `directory`. It is behind all chunks that the directory knows.
fn restore(
    directory: &Directory,
    at: LogAddress,
    stored: &Stored<'_>,
) -> std::result::Result<(), Damage> {
    let chunk = Chunk::decode(stored.key, stored.value)?;
    let name = chunk.name;
    while directory.level() < name.level {
        directory.double(directory.level());
    }
    if name.level < directory.level() {
        return Err(Damage("a chunk of a level that was over"));
    }
    directory.restore(name.number, Word::new(at, chunk.len()));
    Ok(())
}

/// Reads `bytes` as the name and the entries of a chunk, and returns the written form of a chunk
/// that has the entries that lookups find in this one.
///
/// # Errors
/// Damage of the chunk.
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
