//! The file `BACKUP`: the catalog of the database, and a description of each file of a whole
//! backup.
//!
//! # Format
//! See `docs/formats/backup.md`. Written once, before the backup gets its name.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, Format, Reader, SeqNo, Writer};
use device::{Device, Mode, SyncKind};

use crate::catalog::read_whole;
use crate::error::Result;

/// The file's name.
pub(super) const FILE: &str = "BACKUP";
/// The first bytes of the file.
const FORMAT: Format = Format::new(*b"TCBACKUP", 1, 0);
/// Bytes of the longest file: some millions of files in a backup.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of the smallest entry of a file: an empty prefixed name, length, sum.
const ENTRY_BYTES_MIN: usize = 1 + 8 + 4;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSum {
    /// Its name in the backup's directory, and in the database's.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Over all of it, as `files.rs` makes it.
    pub(super) sum: u32,
}

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) made_at_ms: u64,
    pub(super) newest: SeqNo,
    pub(super) shared_bytes: u64,
    /// The bytes of the database's file `THERMOCLINE`.
    pub(super) catalog: Vec<u8>,
    /// By ascending name.
    pub(super) files: Vec<FileSum>,
}

impl Manifest {
    /// Returns the bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Returns whether the backup has a file like that one.
    pub(super) fn has(&self, sum: &FileSum) -> bool {
        let found = self.files.binary_search_by(|known| known.name.cmp(&sum.name));
        let Some(known) = found.ok().and_then(|at| self.files.get(at)) else { return false };
        known == sum
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body);
        writer.put_u64(self.made_at_ms);
        writer.put_u64(self.newest.get());
        writer.put_u64(self.shared_bytes);
        writer.put_prefixed(&self.catalog);
        writer.put_varint(self.files.len() as u64);
        for file in &self.files {
            writer.put_prefixed(file.name.as_bytes());
            writer.put_u64(file.bytes);
            writer.put_u32(file.sum);
        }
        let mut bytes = FORMAT.header(0).encode().to_vec();
        let mut writer = Writer::new(&mut bytes);
        writer.put_u32(codec::crc32c(&body));
        writer.put_bytes(&body);
        bytes
    }

    /// Reads the file's bytes; `name` is its name in errors.
    pub(super) fn decode(bytes: &[u8], name: &str) -> Result<Self> {
        FORMAT.decode(bytes).map_err(|error| Corruption::from(error).at(name, 0))?;
        Self::decode_body(bytes).map_err(|corruption| corruption.at(name, 0).into())
    }

    fn decode_body(bytes: &[u8]) -> std::result::Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        reader.take_bytes(codec::FileHeader::LEN)?;
        let checksum = reader.take_u32()?;
        if codec::crc32c(reader.rest()) != checksum {
            return Err(reader.corruption("the manifest's checksum does not match"));
        }
        let made_at_ms = reader.take_u64()?;
        let newest = SeqNo::new(reader.take_u64()?);
        let shared_bytes = reader.take_u64()?;
        let catalog = reader.take_prefixed()?.to_vec();
        let count = reader.take_count(ENTRY_BYTES_MIN)?;
        let mut files: Vec<FileSum> = Vec::with_capacity(count);
        for _ in 0..count {
            let file = FileSum {
                name: take_name(&mut reader)?,
                bytes: reader.take_u64()?,
                sum: reader.take_u32()?,
            };
            if files.last().is_some_and(|before| before.name >= file.name) {
                return Err(reader.corruption("names are not in order"));
            }
            files.push(file);
        }
        reader.finish()?;
        Ok(Self { made_at_ms, newest, shared_bytes, catalog, files })
    }

    /// Returns the manifest of the backup in `dir`; `None` if there is none.
    pub(super) fn load(device: &dyn Device, dir: &str) -> Result<Option<Self>> {
        let name = device::join(dir, FILE);
        let file = match device.open(&name, Mode::Read) {
            Ok(file) => file,
            Err(device::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let bytes = read_whole(&*file, &name, &FORMAT, FILE_BYTES_MAX)?;
        Self::decode(&bytes, &name).map(Some)
    }

    /// Writes it to `dir`; its name is durable once that directory is synced.
    pub(super) fn store(&self, device: &dyn Device, dir: &str) -> Result<()> {
        let file = device.open(&device::join(dir, FILE), Mode::CreateNew)?;
        file.write_at(0, &self.encode())?;
        Ok(file.sync(SyncKind::All)?)
    }
}

/// Reads a name that leads nowhere but into the directory.
fn take_name(reader: &mut Reader<'_>) -> std::result::Result<String, Corruption> {
    let bytes = reader.take_prefixed()?;
    match std::str::from_utf8(bytes) {
        Ok(name) if !name.is_empty() && device::check_name(name).is_ok() => Ok(name.to_owned()),
        _ => Err(reader.corruption("no name of a file")),
    }
}
