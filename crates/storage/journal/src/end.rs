//! The file `END`: how far the journal is known to reach, so that a lost end is noticed.
//!
//! The end of a journal that was not closed looks like the end of one whose newest segments, or
//! whose last records, are lost. `END` distinguishes the two as far as this is possible. It is
//! written
//!
//! 1. when the journal is made, before its first segment gets its name;
//! 2. when a segment was begun, by opening or by rotation: after the segment's name is durable, and
//!    before anything that is appended to it is acknowledged;
//! 3. when the journal is closed, after everything else.
//!
//! # Invariants
//! - E1. Its content was durable before it was written, and stays true: a journal never falls back
//!   below it. So an old version of the file is no error, and no crash can make it one.
//! - E2. If there is a segment, there is this file. Otherwise the file is lost.
//! - E3. It is written in place, within one sector, which a power cut does not tear.
//!
//! # Format
//! See `docs/formats/journal.md`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, FileHeader, Format, HeaderError, Reader, SeqNo, Writer, hash64};
use device::{Mode, SyncKind};

use crate::error::OpenError;
use crate::files::Found;
use crate::segment::{SECTOR_BYTES, SegmentHeader, file_name};
use crate::store::SegmentStore;

/// The file's name.
pub(crate) const FILE: &str = "END";
/// The name under which it is made.
const UNFINISHED: &str = "END.new";
/// Magic and version of the file.
const FORMAT: Format = Format::new(*b"TCJOUEND", 1, 0);
/// Bytes of the longest file: one block of a device with the largest alignment.
const FILE_BYTES_MAX: u64 = 1 << 16;

/// The fields of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The journal's id; 0 before its first segment.
    pub(crate) journal: u64,
    /// The newest segment, which exists; 0 before the first.
    pub(crate) index: u64,
    /// A record that is in the journal, or was trimmed; 0 for none.
    pub(crate) last: SeqNo,
}

impl End {
    /// Returns the fields that are true once the segment with this header exists.
    pub(crate) fn beginning(header: &SegmentHeader) -> Self {
        Self { journal: header.journal, index: header.index, last: header.previous_last }
    }

    fn encode(&self, block: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(block);
        let mut out = Writer::new(&mut bytes);
        out.put_bytes(&FORMAT.header(0).encode());
        out.put_u64(self.journal);
        out.put_u64(self.index);
        out.put_u64(self.last.get());
        let checksum = hash64(0, &bytes);
        Writer::new(&mut bytes).put_u64(checksum);
        bytes.resize(block, 0);
        bytes
    }

    /// Reads the file's bytes; `file` is its name in errors.
    fn decode(bytes: &[u8], file: &str) -> Result<Self, OpenError> {
        match FORMAT.decode(bytes) {
            Ok(_) => {}
            Err(source @ (HeaderError::Version { .. } | HeaderError::Flags { .. })) => {
                return Err(OpenError::Unsupported { file: file.to_owned(), source });
            }
            Err(error) => return Err(Corruption::new(error.to_string(), 0).at(file, 0).into()),
        }
        Self::decode_body(bytes).map_err(|damage| damage.at(file, 0).into())
    }

    fn decode_body(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        fields.take_bytes(FileHeader::LEN)?;
        let journal = fields.take_u64()?;
        let index = fields.take_u64()?;
        let last = SeqNo::new(fields.take_u64()?);
        let computed = hash64(0, fields.taken());
        if fields.take_u64()? != computed {
            return Err(fields.corruption("the checksum does not match"));
        }
        if fields.rest().iter().any(|byte| *byte != 0) {
            return Err(fields.corruption("bytes follow the checksum that are not zero"));
        }
        Ok(Self { journal, index, last })
    }
}

/// Decodes the bytes of a file `END`, and encodes them again: the entry for fuzzing.
///
/// # Errors
/// The damage.
///
/// # Panics
/// If the decoded fields change when they are encoded again.
pub fn decode_end(bytes: &[u8]) -> Result<(), Corruption> {
    let end = End::decode_body(bytes)?;
    assert_eq!(End::decode_body(&end.encode(SECTOR_BYTES)), Ok(end), "what was encoded decodes");
    Ok(())
}

/// Reads the file; `None` if there is none.
pub(crate) fn load(store: &dyn SegmentStore) -> Result<Option<End>, OpenError> {
    let name = store.place_of(FILE);
    let file = match store.open(FILE, Mode::Read) {
        Ok(file) => file,
        Err(device::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let len = file.len()?;
    if len > FILE_BYTES_MAX {
        let what = format!("the file has {len} bytes, at most {FILE_BYTES_MAX} are expected");
        return Err(Corruption::new(what, 0).at(&name, 0).into());
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_at(0, &mut bytes)?;
    End::decode(&bytes, &name).map(Some)
}

/// Makes the file of a journal that has no segment yet, durable on return.
pub(crate) fn create(store: &dyn SegmentStore) -> device::Result<()> {
    let file = store.open(UNFINISHED, Mode::Create)?;
    file.set_len(0)?;
    file.write_at(0, &End::default().encode(file.alignment().max(SECTOR_BYTES)))?;
    file.sync(SyncKind::All)?;
    drop(file);
    store.rename(UNFINISHED, FILE)?;
    store.sync_names()
}

/// Writes the file in place; durable on return. Its content must be durable already [E1].
pub(crate) fn note(store: &dyn SegmentStore, end: &End) -> device::Result<()> {
    let file = store.open(FILE, Mode::Write)?;
    file.write_at(0, &end.encode(file.alignment().max(SECTOR_BYTES)))?;
    file.sync(SyncKind::Data)
}

/// Checks that a journal has all records that it is known to have had. `newest` is its newest
/// segment; `last` its last record, if that could be determined; `reached` a record that the caller
/// knows it to have had.
pub(crate) fn check(
    store: &dyn SegmentStore,
    end: Option<&End>,
    newest: Option<&Found>,
    last: Option<SeqNo>,
    reached: SeqNo,
) -> Result<(), OpenError> {
    let missing = |file: String, what: String| Err(OpenError::Missing { file, what });
    match (end, newest) {
        (None, Some(_)) => {
            let what = "the file that says how far the journal reaches is not there";
            return missing(store.place_of(FILE), what.to_owned());
        }
        (Some(end), _) if end.index > newest.map_or(0, |newest| newest.header.index) => {
            let first = newest.map_or(0, |newest| newest.header.index) + 1;
            let what = match newest {
                Some(newest) => format!("{} is the newest that is there", newest.name),
                None => "no segment is there".to_owned(),
            };
            let what = format!("the journal had segments up to {}, but {what}", end.index);
            return missing(store.place_of(&file_name(first)), what);
        }
        (Some(end), Some(newest)) if end.index > 0 && end.journal != newest.header.journal => {
            let what = "the file belongs to another journal than the segments";
            return Err(Corruption::new(what, 0).at(&store.place_of(FILE), 0).into());
        }
        _ => {}
    }
    let Some(last) = last else { return Ok(()) };
    let file = || newest.map_or_else(|| store.place_of(FILE), |newest| newest.name.clone());
    match end {
        Some(end) if last < end.last => {
            let had = end.last;
            missing(file(), format!("the journal ends with record {last}, but it had record {had}"))
        }
        _ if last < reached => {
            let what = format!(
                "the journal ends with record {last}, but other files hold data of record {reached}"
            );
            missing(file(), what)
        }
        _ => Ok(()),
    }
}
