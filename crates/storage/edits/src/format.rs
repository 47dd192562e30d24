//! The bytes of a chain's file and of the superblock's payload (`docs/formats/lsm-manifest.md`).
//!
//! # Format
//! A file is a header of 16 bytes and records. A record: the length of its edit (`u32`), the
//! checksum of the chain (`u32`: of the checksum before it, the length and the edit), the edit.

use codec::{Corruption, FileHeader, Reader, SeqNo, Writer, chain};

use crate::{Edit, Kind};

impl Kind {
    /// Returns the name of the chain's file with a number.
    pub(crate) fn file_name(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }

    /// Returns the number in the name of a chain's file.
    pub(crate) fn file_number(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(self.prefix)?.parse().ok()?;
        (self.file_name(number) == name).then_some(number)
    }

    /// Returns whether a file belongs to a store.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        self.file_number(name).is_some() || (self.is_of_store)(name)
    }

    /// Returns the checksum with which the chain of a file begins.
    pub(crate) fn first_checksum(&self, number: u64) -> u32 {
        chain(0, &[self.format.header(0).encode().as_slice(), &number.to_le_bytes()].concat())
    }
}

/// The current file, and how much of it counts: the superblock's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Every write up to this is in the store's files.
    pub persisted: SeqNo,
    /// The file's number; zero before there is one.
    pub file: u64,
    /// How far it counts.
    pub bytes: u64,
    /// The chain's checksum there.
    pub checksum: u32,
}

impl Committed {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.persisted.get());
        out.put_u64(self.file);
        out.put_u64(self.bytes);
        out.put_u32(self.checksum);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        let committed = Self {
            persisted: SeqNo::new(reader.take_u64()?),
            file: reader.take_u64()?,
            bytes: reader.take_u64()?,
            checksum: reader.take_u32()?,
        };
        reader.finish()?;
        Ok(committed)
    }
}

/// Returns the record of an edit behind `committed`, and advances `committed` to the record's end.
pub(crate) fn record(edit: &impl Edit, committed: &mut Committed) -> Vec<u8> {
    let edit = edit.encode();
    let len = (edit.len() as u32).to_le_bytes();
    committed.checksum = chain(committed.checksum, &[&len, edit.as_slice()].concat());
    let record = [&len, committed.checksum.to_le_bytes().as_slice(), &edit].concat();
    committed.bytes += record.len() as u64;
    record
}

/// Decodes all edits of a file as one. `bytes` end at the length that `committed` has.
pub(crate) fn decode<E: Edit>(bytes: &[u8], committed: &Committed) -> Result<E, Corruption> {
    E::KIND.format.decode(bytes)?;
    let mut reader = Reader::new(bytes);
    reader.take_bytes(FileHeader::LEN)?;
    let mut checksum = E::KIND.first_checksum(committed.file);
    let mut all = E::All::default();
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
        E::decode(edit).and_then(|edit| edit.apply(&mut all)).map_err(placed)?;
    }
    if checksum != committed.checksum {
        let what = "the chain of edits is not the one that the superblock names";
        return Err(Corruption::new(what, 0));
    }
    Ok(E::of_all(all))
}

/// See [`Edit::decode_chain`].
pub(crate) fn decode_chain<E: Edit>(bytes: &[u8]) -> Result<E::All, Corruption> {
    let mut reader = Reader::new(bytes);
    let mut all = E::All::default();
    while !reader.is_empty() {
        let len = reader.take_u32()? as usize;
        let edit = E::decode(reader.take_bytes(len)?)?;
        debug_assert_eq!(edit.encode().len(), len, "an edit has one encoding");
        edit.apply(&mut all)?;
    }
    Ok(all)
}

/// Decodes a superblock's payload that no checksum vouches for: the entry for fuzzing. Returns the
/// number of the file that it names, and the bytes of the file that count.
///
/// # Errors
/// The damage.
///
/// # Panics
/// If it has another encoding.
pub fn decode_committed(payload: &[u8]) -> Result<(u64, u64), Corruption> {
    let committed = Committed::decode(payload)?;
    assert_eq!(committed.encode(), payload, "one encoding");
    Ok((committed.file, committed.bytes))
}
