//! The one atomic commit point of a store's files: a block with two slots, written in turn.
//!
//! 1. Everything that the new state refers to is written and synced first, and its name.
//! 2. [`Superblock::commit`] writes the slot that is not current, with the next generation, and
//!    syncs. Until that is durable the other slot is valid.
//! 3. On opening, the slot with the higher generation is the state.
//!
//! An open superblock keeps no file open, unless its owner says so: a process has many of them.
//!
//! # Invariants
//! - S1. Both slots are valid at any time. The file is made under another name and renamed when it
//!   is durable, and a slot is in one sector of 512 bytes, which a power cut does not tear. So an
//!   invalid slot is damage, and the file is not opened: the damaged slot may have been the newer
//!   one, and the files that the older one names may be removed.
//! - S2. The two generations differ by one, and each is in the slot of its parity.
//!
//! # Format
//! `docs/formats/superblock.md`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::{Corruption, FileHeader, Format, Place, Reader, Writer};
use device::{Device, File, Mode, SyncKind};

use crate::error::Result;

/// The file's header.
pub(crate) const FORMAT: Format = Format::new(*b"TCSUPERB", 1, 0);
/// The file: its header's block, then the two slots' blocks.
const BLOCK_BYTES: usize = 4096;
/// The whole file's length.
const FILE_BYTES: usize = 3 * BLOCK_BYTES;
/// Bytes of a slot, which is in one sector of its block. The rest of the block is zero.
const SLOT_BYTES: usize = 512;
/// Checksum, length, generation, kind.
const SLOT_HEADER_BYTES: usize = 4 + 4 + 8 + 8;
/// The suffix of the name under which the file is made.
const NEW_SUFFIX: &str = ".new";

/// A superblock, opened.
#[derive(Debug)]
pub struct Superblock {
    name: String,
    kind: [u8; 8],
    current: Slot,
    /// Whether this process has written the file, so that its syncs can be trusted.
    is_durable: bool,
    /// The file, once it is kept open.
    held: Option<Arc<dyn File>>,
}

/// The content of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    generation: u64,
    payload: Vec<u8>,
}

impl Superblock {
    /// The name of the file in the directory of each store. A keyspace without it is damaged.
    pub const NAME: &'static str = "superblock";

    /// Bytes of the file on the device.
    pub const FILE_BYTES: u64 = FILE_BYTES as u64;

    /// Longest payload in bytes.
    pub const PAYLOAD_BYTES_MAX: usize = SLOT_BYTES - SLOT_HEADER_BYTES;

    /// Makes the file `name` in the root of `device`, durable on return. `kind` says whose it is.
    ///
    /// # Errors
    /// The storage's. A file that is left then is not taken for a superblock.
    ///
    /// # Panics
    /// If the payload is longer than [`Self::PAYLOAD_BYTES_MAX`].
    pub fn create(device: &dyn Device, name: &str, kind: [u8; 8], payload: &[u8]) -> Result<Self> {
        let current = Slot { generation: 1, payload: payload.to_vec() };
        let mut made = Self { name: name.to_owned(), kind, current, is_durable: false, held: None };
        made.make_durable_in(device)?;
        Ok(made)
    }

    /// Puts a new file with `older` and `current` in the place of the old, durable on return.
    fn replace(&mut self, device: &dyn Device, older: Slot, current: Slot) -> Result<()> {
        let (name, kind) = (self.name.as_str(), self.kind);
        let temporary = format!("{name}{NEW_SUFFIX}");
        if device.exists(&temporary)? {
            device.remove(&temporary)?;
        }
        let mut bytes = device::Buffer::zeroed(FILE_BYTES);
        bytes[..FileHeader::LEN].copy_from_slice(&FORMAT.header(0).encode());
        for slot in [&older, &current] {
            let at = offset(slot.generation) as usize;
            bytes[at..at + BLOCK_BYTES].copy_from_slice(&slot.encode(kind));
        }
        let file = device.open(&temporary, Mode::CreateNew)?;
        if let Err(error) = file.write_at(0, &bytes) {
            // A device without room for all of it has taken a part. The next attempt removes a file
            // that stays.
            drop(file);
            let _left: device::Result<()> = device.remove(&temporary);
            return Err(error.into());
        }
        file.sync(SyncKind::All)?;
        drop(file);
        device.rename_synced(&temporary, name)?;
        (self.current, self.is_durable, self.held) = (current, true, None);
        Ok(())
    }

    /// Opens the file `name`.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if any part of it differs from the written bytes.
    pub fn open(device: &dyn Device, name: &str, kind: [u8; 8]) -> Result<Self> {
        let file = device.open(name, Mode::Read)?;
        let len = file.len()?;
        let mut bytes = device::Buffer::zeroed(FILE_BYTES);
        let there = bytes.get_mut(..len.min(FILE_BYTES as u64) as usize).unwrap_or_default();
        file.read_at(0, there)?;
        // Before the length, which another version may change.
        FORMAT.refuse_newer(there, name)?;
        if len != FILE_BYTES as u64 {
            let what = format!("a superblock has {FILE_BYTES} bytes, this one {len}");
            return Err(Corruption::new(what, 0).at(name, 0).into());
        }
        let current = decode(&bytes, kind).map_err(|damage| damage.at(name, 0))?;
        Ok(Self { name: name.to_owned(), kind, current, is_durable: false, held: None })
    }

    /// Makes the payload that opening read durable. The commit that wrote it may not have been
    /// synced: a process that was killed before its sync, or whose sync failed, leaves a slot that
    /// only the page cache holds. A caller that acts upon the payload (removes replaced files,
    /// trims the journal) makes it durable first. Writes a new file, since the results of the old
    /// one's syncs cannot be trusted. Does nothing if this process has written the file.
    ///
    /// # Errors
    /// The storage's; nothing must be done upon the payload then.
    pub fn make_durable_in(&mut self, device: &dyn Device) -> Result<()> {
        if self.is_durable {
            return Ok(());
        }
        let current = self.current.clone();
        let older = Slot { generation: current.generation - 1, ..current.clone() };
        self.replace(device, older, current)
    }

    /// Returns whether its content is known to be durable, because this process has written the
    /// file.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Keeps the file open from now on, so that a commit needs no descriptor. Only for a superblock
    /// that is durable.
    ///
    /// # Errors
    /// The storage's.
    pub fn hold_open(&mut self, device: &dyn Device) -> Result<()> {
        debug_assert!(self.is_durable, "another file will take its place");
        self.held = Some(device.open(&self.name, Mode::Write)?);
        Ok(())
    }

    /// Returns the last committed payload.
    pub fn payload(&self) -> &[u8] {
        &self.current.payload
    }

    /// Returns how often something was committed, the creation included.
    pub fn generation(&self) -> u64 {
        self.current.generation
    }

    /// Commits a new payload to the file, which `device` has: durable on return. One write and one
    /// sync, if it is durable; otherwise a new file takes its place.
    ///
    /// # Errors
    /// The storage's. After a temporary failure ([`crate::Error::is_retryable`]) the old payload is
    /// valid; a superblock that is durable and held open has no such failure. After any other it is
    /// unknown which of the two payloads is valid; both must stay usable, and nothing more must be
    /// committed.
    ///
    /// # Panics
    /// If the payload is longer than [`Self::PAYLOAD_BYTES_MAX`].
    pub fn commit(&mut self, device: &dyn Device, payload: &[u8]) -> Result<()> {
        let next = Slot { generation: self.current.generation + 1, payload: payload.to_vec() };
        if !self.is_durable {
            return self.replace(device, self.current.clone(), next);
        }
        let block = device::Buffer::copy_of(&next.encode(self.kind));
        let file = match &self.held {
            Some(file) => Arc::clone(file),
            None => device.open(&self.name, Mode::Write)?,
        };
        let written = file.write_at(offset(next.generation), &block);
        // The file has its room already. If the write is refused nevertheless, its effect is not
        // known, as after any other failure.
        written.map_err(device::Error::for_good)?;
        file.sync(SyncKind::Data)?;
        self.current = next;
        Ok(())
    }

    /// Reads a superblock's payload and generation from its file's bytes, as opening does: the
    /// entry for whatever checks bytes offline.
    ///
    /// # Errors
    /// The damage, with its offset.
    pub fn decode(bytes: &[u8], kind: [u8; 8]) -> std::result::Result<(Vec<u8>, u64), Corruption> {
        decode(bytes, kind).map(|slot| (slot.payload, slot.generation))
    }
}

/// Returns the offset of the slot of a generation.
fn offset(generation: u64) -> u64 {
    (1 + generation % 2) * BLOCK_BYTES as u64
}

fn place(generation: u64) -> Place {
    Place { file: 0, offset: offset(generation), generation }
}

impl Slot {
    fn encode(&self, kind: [u8; 8]) -> Vec<u8> {
        assert!(self.payload.len() <= Superblock::PAYLOAD_BYTES_MAX, "the payload is too long");
        let mut content = Vec::with_capacity(BLOCK_BYTES);
        let mut out = Writer::new(&mut content);
        out.put_u32(self.payload.len() as u32);
        out.put_u64(self.generation);
        out.put_bytes(&kind);
        out.put_bytes(&self.payload);
        content.resize(BLOCK_BYTES - 4, 0);
        let checksum = place(self.generation).crc32c(&content);
        let mut block = checksum.to_le_bytes().to_vec();
        block.append(&mut content);
        block
    }

    /// Reads the slot at `index` of the two.
    fn decode(block: &[u8], kind: [u8; 8], index: u64) -> std::result::Result<Self, Corruption> {
        let mut fields = Reader::new(block);
        let checksum = fields.take_u32()?;
        let content = fields.rest();
        let len = fields.take_u32()?;
        let generation = fields.take_u64()?;
        if place(generation).crc32c(content) != checksum || generation % 2 != index {
            return Err(Corruption::new("the slot's checksum does not match", 0));
        }
        let found = fields.take_array::<8>()?;
        if found != kind {
            let (found, kind) = (found.escape_ascii(), kind.escape_ascii());
            let what = format!("the superblock is of kind \"{found}\" instead of \"{kind}\"");
            return Err(Corruption::new(what, 16));
        }
        let len = usize::try_from(len).ok().filter(|len| *len <= Superblock::PAYLOAD_BYTES_MAX);
        let len = len.ok_or_else(|| Corruption::new("the payload's length is too large", 4))?;
        Ok(Self { generation, payload: fields.take_bytes(len)?.to_vec() })
    }
}

fn decode(bytes: &[u8], kind: [u8; 8]) -> std::result::Result<Slot, Corruption> {
    FORMAT.decode(bytes)?;
    let mut blocks = Reader::new(bytes);
    let head = blocks.take_bytes(BLOCK_BYTES)?;
    if head.iter().skip(FileHeader::LEN).any(|byte| *byte != 0) {
        return Err(Corruption::new("the header's block is not zero behind the header", 0));
    }
    let mut slots = Vec::new();
    for index in 0..2 {
        let at = blocks.position() as u64;
        let block = blocks.take_bytes(BLOCK_BYTES)?;
        let slot = Slot::decode(block, kind, index);
        slots.push(slot.map_err(|damage| Corruption::new(damage.what, damage.offset + at))?);
    }
    blocks.finish()?;
    slots.sort_by_key(|slot| slot.generation);
    match <[Slot; 2]>::try_from(slots) {
        Ok([older, newer]) if older.generation.checked_add(1) == Some(newer.generation) => {
            Ok(newer)
        }
        _ => Err(Corruption::new("the slots' generations do not follow each other", 0)),
    }
}
