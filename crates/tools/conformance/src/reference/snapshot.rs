//! The snapshot file: all pairs of one moment.
//!
//! # Format
//! A file header (magic `TCREFSNP`), then
//!
//! | size | field |
//! |---:|---|
//! | 8 | generation |
//! | 8 | persisted: the number of the moment |
//! | varint | pairs |
//! | each | key and value, each a varint length and the bytes |
//! | 4 | CRC32C of the place and everything after the header |

use std::sync::Arc;

use codec::{Corruption, FileHeader, Format, Place, Reader, Writer};
use device::{Device, Mode, SyncKind};
use engine::{GoOn, Result};

use super::superblock::Commit;
use super::versions::Pair;

pub(super) const SNAPSHOT: Format = Format::new(*b"TCREFSNP", 1, 0);

/// Bytes of one write, and between two calls of [`GoOn`].
const WRITE_BYTES: usize = 1 << 20;
/// A pair takes at least its two lengths.
const PAIR_BYTES_MIN: usize = 2;

pub(super) fn name(generation: u64) -> String {
    format!("snapshot-{generation:08}")
}

fn place(generation: u64) -> Place {
    Place { file: generation, offset: FileHeader::LEN as u64, generation }
}

/// Writes a snapshot and makes it and its name durable.
pub(super) fn write(
    device: &Arc<dyn Device>,
    generation: u64,
    persisted: u64,
    bytes: &[u8],
    go_on: &GoOn<'_>,
) -> Result<Commit> {
    // A crash before the commit leaves a file of this name behind.
    let file = device.open(&name(generation), Mode::Create)?;
    file.set_len(0)?;
    for (index, piece) in bytes.chunks(WRITE_BYTES).enumerate() {
        go_on()?;
        file.write_at((index * WRITE_BYTES) as u64, piece)?;
    }
    go_on()?;
    file.sync(SyncKind::All)?;
    device.sync_dir("")?;
    Ok(Commit { generation, persisted, bytes: bytes.len() as u64 })
}

pub(super) fn encode<'a>(
    generation: u64,
    persisted: u64,
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Vec<u8> {
    let mut listed = Vec::new();
    let mut count = 0;
    let mut out = Writer::new(&mut listed);
    for (key, value) in pairs {
        out.put_prefixed(key);
        out.put_prefixed(value);
        count += 1;
    }
    let mut bytes = SNAPSHOT.header(0).encode().to_vec();
    let mut out = Writer::new(&mut bytes);
    out.put_u64(generation);
    out.put_u64(persisted);
    out.put_varint(count);
    out.put_bytes(&listed);
    let checksum = place(generation).crc32c(bytes.get(FileHeader::LEN..).unwrap_or_default());
    Writer::new(&mut bytes).put_u32(checksum);
    bytes
}

/// Reads the snapshot that `commit` names.
pub(super) fn read(device: &Arc<dyn Device>, commit: Commit) -> Result<Vec<Pair>> {
    let name = name(commit.generation);
    let damaged = |what: String| Corruption::new(what, 0).at(&name, 0);
    let file = match device.open(&name, Mode::Read) {
        Err(device::Error::NotFound { .. }) => {
            return Err(damaged("the snapshot is missing".to_owned()).into());
        }
        opened => opened?,
    };
    let len = file.len()?;
    if len != commit.bytes {
        return Err(damaged(format!("{len} bytes instead of {}", commit.bytes)).into());
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(|error| damaged(error.to_string()))?];
    file.read_at(0, &mut bytes)?;
    decode(&bytes, commit).map_err(|damage| damage.at(&name, 0).into())
}

fn decode(bytes: &[u8], commit: Commit) -> std::result::Result<Vec<Pair>, Corruption> {
    let header = SNAPSHOT.decode(bytes);
    header.map_err(|error| Corruption::new(error.to_string(), 0))?;
    let content = bytes.get(FileHeader::LEN..).unwrap_or_default();
    let Some((content, stored)) = content.split_last_chunk::<4>() else {
        return Err(Corruption::new("the snapshot is too short", FileHeader::LEN as u64));
    };
    if place(commit.generation).crc32c(content) != u32::from_le_bytes(*stored) {
        return Err(Corruption::new("the checksum is wrong", FileHeader::LEN as u64));
    }
    let mut fields = Reader::new(content);
    if fields.take_u64()? != commit.generation || fields.take_u64()? != commit.persisted {
        return Err(Corruption::new("another moment than committed", FileHeader::LEN as u64));
    }
    let count = fields.take_count(PAIR_BYTES_MIN)?;
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        pairs.push((fields.take_prefixed()?.to_vec(), fields.take_prefixed()?.to_vec()));
    }
    fields.finish()?;
    Ok(pairs)
}
