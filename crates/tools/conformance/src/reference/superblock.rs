//! The superblock: two slots, the newer one says which snapshot counts.
//!
//! # Format
//! A file header (magic `TCREFSUP`), then at 512 and at 1024 a slot, which is one sector and so
//! never torn:
//!
//! | offset | size | field |
//! |---:|---:|---|
//! | 0 | 8 | generation, from 1; it is in slot `generation % 2` |
//! | 8 | 8 | persisted |
//! | 16 | 8 | length of the snapshot file |
//! | 24 | 4 | CRC32C of the place and the fields above |
//! | 28 | 484 | zeros |

use std::sync::Arc;

use codec::{Corruption, Format, Place, Reader, Writer};
use device::{Device, File, Mode, SyncKind};
use engine::Result;

pub(super) const SUPERBLOCK: Format = Format::new(*b"TCREFSUP", 1, 0);
const SLOT_BYTES: usize = 512;
const FILE_BYTES: usize = 3 * SLOT_BYTES;
const NAME: &str = "superblock";

/// The content of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Commit {
    /// The snapshot's generation; zero before the first.
    pub(super) generation: u64,
    /// The number up to which the snapshot has all writes.
    pub(super) persisted: u64,
    /// The snapshot's length.
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Superblock {
    file: Arc<dyn File>,
}

fn slot_offset(generation: u64) -> usize {
    SLOT_BYTES * (1 + (generation % 2) as usize)
}

fn place(generation: u64) -> Place {
    Place { file: 0, offset: slot_offset(generation) as u64, generation }
}

impl Superblock {
    /// Opens the superblock, making an empty one in a directory that has none.
    pub(super) fn open(device: &Arc<dyn Device>) -> Result<(Self, Commit)> {
        if device.exists(NAME)? {
            let file = device.open(NAME, Mode::Write)?;
            let commit = read(file.as_ref())?;
            return Ok((Self { file }, commit));
        }
        // The file gets its name only when it is whole, so a short one is damage, not a crash.
        let file = device.open("superblock.new", Mode::Create)?;
        let mut bytes = SUPERBLOCK.header(0).encode().to_vec();
        bytes.resize(FILE_BYTES, 0);
        file.set_len(0)?;
        file.write_at(0, &bytes)?;
        file.sync(SyncKind::All)?;
        device.rename("superblock.new", NAME)?;
        device.sync_dir("")?;
        Ok((Self { file: device.open(NAME, Mode::Write)? }, Commit::default()))
    }

    /// Makes `commit` the one that counts; durable on return.
    pub(super) fn commit(&self, commit: Commit) -> Result<()> {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        let mut out = Writer::new(&mut bytes);
        out.put_u64(commit.generation);
        out.put_u64(commit.persisted);
        out.put_u64(commit.bytes);
        let checksum = place(commit.generation).crc32c(&bytes);
        Writer::new(&mut bytes).put_u32(checksum);
        bytes.resize(SLOT_BYTES, 0);
        self.file.write_at(slot_offset(commit.generation) as u64, &bytes)?;
        self.file.sync(SyncKind::Data)?;
        Ok(())
    }
}

/// Returns the superblock's content of `device`, without changing anything; `None` if there is
/// none.
pub(super) fn inspect(device: &Arc<dyn Device>) -> Result<Option<Commit>> {
    if !device.exists(NAME)? {
        return Ok(None);
    }
    read(device.open(NAME, Mode::Read)?.as_ref()).map(Some)
}

fn read(file: &dyn File) -> Result<Commit> {
    let len = file.len()?;
    if len != FILE_BYTES as u64 {
        let what = format!("the superblock has {len} bytes instead of {FILE_BYTES}");
        return Err(Corruption::new(what, 0).at(NAME, 0).into());
    }
    let mut bytes = vec![0; FILE_BYTES];
    file.read_at(0, &mut bytes)?;
    let header = SUPERBLOCK.decode(&bytes);
    header.map_err(|error| Corruption::new(error.to_string(), 0).at(NAME, 0))?;
    let (even, odd) = (slot(&bytes, 0)?, slot(&bytes, 1)?);
    let newest = even.into_iter().chain(odd).max_by_key(|commit| commit.generation);
    Ok(newest.unwrap_or_default())
}

/// Returns a slot's commit; `None` where nothing was ever written.
fn slot(bytes: &[u8], parity: u64) -> std::result::Result<Option<Commit>, Corruption> {
    let offset = slot_offset(parity);
    let slot = bytes.get(offset..offset + SLOT_BYTES).unwrap_or_default();
    if slot.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let placed = |damage: Corruption| damage.at(NAME, offset as u64);
    let mut fields = Reader::new(slot);
    let generation = fields.take_u64().map_err(placed)?;
    let persisted = fields.take_u64().map_err(placed)?;
    let bytes = fields.take_u64().map_err(placed)?;
    let computed = place(generation).crc32c(fields.taken());
    let stored = fields.take_u32().map_err(placed)?;
    let padded = fields.rest().iter().all(|byte| *byte == 0);
    if stored != computed || generation % 2 != parity || !padded {
        return Err(placed(Corruption::new("the slot's checksum is wrong", 0)));
    }
    Ok(Some(Commit { generation, persisted, bytes }))
}
