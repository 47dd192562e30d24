//! The directory in a file of its own, so that opening a store reads the chunk log's end alone.
//!
//! 1. Before a checkpoint cuts the chunk log, it notes the log's tail at a moment at which no
//!    thread changes the index: records below it were installed, or discarded. Then the directory's
//!    words are written, each with its value at the time of writing.
//! 2. The file is synced, and the superblock of the checkpoint names it.
//! 3. Opening takes the words, and reads the chunk log from the noted tail on ([`super::rebuild`]).
//!    If the file is damaged, missing or unreadable, it reads the whole log.
//!
//! A snapshot is only a help. If it cannot be written, the checkpoint keeps naming the one before,
//! and the next checkpoint tries again.
//!
//! # Format
//! `docs/formats/f2-directory.md`.
//!
//! # Invariants
//! - S1. Every word leads below the cut, which comes later: to a chunk that the checkpoint has.
//! - S2. A word that was changed since the tail was noted leads above it, or its newest version
//!   does, and opening meets that there [N2].
//! - S3. All words are of one level. While the directory doubles no snapshot is made.
//! - S4. A word that leads below the log's beginning is of a chunk that compaction has forgotten,
//!   and of which opening meets nothing: it has no entries [N4].

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::{Corruption, FileHeader, Format, Place, Reader, Writer};
use device::{Device, File, Mode, SyncKind};
use engine::{GoOn, Result};

use super::chunk::Name;
use super::directory::{Directory, Word};
use super::{BASE_BITS, ColdIndex, LEVEL_MAX};
use crate::address::LogAddress;

pub(crate) const FORMAT: Format = Format::new(*b"TCF2DIRS", 1, 0);
/// Header, number, tail, level, checksum.
const HEAD_BYTES: usize = FileHeader::LEN + 8 + 8 + 4 + 4;
/// Words with one checksum.
const PIECE_WORDS: usize = 8192;
const WORD_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;
/// Bytes appended to the chunk log before a snapshot is made, as a multiple of the snapshot's
/// bytes.
pub(super) const SHARE: u64 = 8;
const PREFIX: &str = "directory-";

/// A snapshot that a checkpoint names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedSnapshot {
    /// Its file's; 0: there is none.
    pub(crate) number: u64,
    /// Address from which on the chunk log has the changes that are not in it.
    pub(crate) from: LogAddress,
}

/// Fields at the beginning of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) named: NamedSnapshot,
    pub(super) level: u32,
}

/// A directory as written to the file, with chunks that compaction has forgotten since [S4].
pub(super) struct Snapshot {
    pub(super) directory: Directory,
    pub(super) from: LogAddress,
}

impl NamedSnapshot {
    /// Returns whether a superblock can name this, for logs that end below `end`. The tail of a log
    /// that has just continued in another segment is behind the log's end.
    pub(crate) fn is_sound(self, end: u64) -> bool {
        self.from.get() < end
    }

    fn place(self, offset: usize) -> Place {
        Place { file: self.number, offset: offset as u64, generation: 0 }
    }

    fn file_name(self) -> String {
        format!("{PREFIX}{:016}", self.number)
    }

    /// Removes its file, if it has one.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn remove(self, device: &dyn Device) -> Result<()> {
        let name = self.file_name();
        if self.number != 0 && device.exists(&name)? {
            device.remove(&name)?;
        }
        Ok(())
    }

    /// Opening: removes all others, which a crash left. Files of any other name stay.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn remove_others(self, device: &dyn Device) -> Result<()> {
        for name in self.others(device)? {
            device.remove(&name)?;
        }
        Ok(())
    }

    /// Returns whether a crash has left others.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn has_others(self, device: &dyn Device) -> Result<bool> {
        Ok(!self.others(device)?.is_empty())
    }

    fn others(self, device: &dyn Device) -> Result<Vec<String>> {
        let own = self.file_name();
        let is_snapshot = |name: &str| {
            let number = name.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
            number.is_some_and(|number| Self { number, ..self }.file_name() == name)
        };
        let names = device.list("")?.into_iter().map(|entry| entry.name);
        Ok(names.filter(|name| is_snapshot(name) && *name != own).collect())
    }

    /// Its file, if it has one.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn open(self, device: &dyn Device) -> Result<Option<Arc<dyn File>>> {
        let name = self.file_name();
        if self.number == 0 || !device.exists(&name)? {
            return Ok(None);
        }
        Ok(Some(device.open(&name, Mode::Read)?))
    }

    /// Refuses a file of it that a newer release wrote: the store would open without it.
    ///
    /// # Errors
    /// [`engine::Error::NewerVersion`]; the storage's.
    pub(crate) fn refuse_newer(self, device: &dyn Device) -> Result<()> {
        let Some(file) = self.open(device)? else { return Ok(()) };
        let mut header = [0; FileHeader::LEN];
        if file.len()? >= FileHeader::LEN as u64 {
            file.read_at(0, &mut header)?;
        }
        Ok(FORMAT.refuse_newer(&header, &self.file_name())?)
    }

    /// Returns the bytes that its file takes; 0 if there is none, or its length cannot be read.
    fn file_bytes(self, device: &dyn Device) -> u64 {
        let file = self.open(device).ok().flatten();
        file.and_then(|file| file.len().ok()).unwrap_or_default()
    }

    /// Writes a copy of its file to `into`, durable except for its name.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn copy(self, file: &dyn File, into: &dyn Device, go_on: &GoOn<'_>) -> Result<()> {
        let copy = into.open(&self.file_name(), Mode::CreateNew)?;
        let mut at = 0;
        let mut buffer = vec![0; PIECE_WORDS * WORD_BYTES];
        let len = file.len()?;
        while at < len {
            go_on()?;
            let bytes = (len - at).min(buffer.len() as u64) as usize;
            file.read_at(at, &mut buffer[..bytes])?;
            copy.write_at(at, &buffer[..bytes])?;
            at += bytes as u64;
        }
        copy.sync(SyncKind::All)?;
        Ok(())
    }
}

impl Head {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&FORMAT.header(0).encode());
        let mut out = Writer::new(&mut bytes);
        out.put_u64(self.named.number);
        out.put_u64(self.named.from.get());
        out.put_u32(self.level);
        let checksum = self.named.place(0).crc32c(&bytes);
        Writer::new(&mut bytes).put_u32(checksum);
        bytes
    }

    /// # Errors
    /// Damage in the first bytes of a snapshot.
    fn decode(bytes: &[u8]) -> std::result::Result<Self, Corruption> {
        FORMAT.decode(bytes)?;
        let mut fields = Reader::new(bytes);
        fields.take_bytes(FileHeader::LEN)?;
        let number = fields.take_u64()?;
        let named = NamedSnapshot { number, from: LogAddress::new(fields.take_u64()?) };
        let level = fields.take_u32()?;
        let head = Self { named, level };
        let covered = named.place(0).crc32c(fields.taken());
        if fields.take_u32()? != covered {
            return Err(Corruption::new("a directory's head does not match its checksum", 0));
        }
        if level > LEVEL_MAX || number == 0 {
            return Err(Corruption::new("a directory's head makes no sense", 0));
        }
        Ok(head)
    }

    fn chunks(&self) -> usize {
        1 << (BASE_BITS + self.level)
    }

    /// Returns the bytes that the file takes.
    fn file_bytes(&self) -> u64 {
        let checksums = self.chunks().div_ceil(PIECE_WORDS) * CHECKSUM_BYTES;
        (HEAD_BYTES + self.chunks() * WORD_BYTES + checksums) as u64
    }

    /// Returns the offset of each piece in the file, and the range of its words.
    fn pieces(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        let chunks = self.chunks();
        (0..chunks).step_by(PIECE_WORDS).enumerate().map(move |(piece, first)| {
            let offset = HEAD_BYTES + piece * (PIECE_WORDS * WORD_BYTES + CHECKSUM_BYTES);
            (offset, first..chunks.min(first + PIECE_WORDS))
        })
    }
}

/// The words of one piece.
///
/// # Errors
/// Damage of the piece.
fn decode_piece(
    named: NamedSnapshot,
    offset: usize,
    bytes: &[u8],
) -> std::result::Result<impl Iterator<Item = Word>, Corruption> {
    let damaged =
        || Corruption::new("a piece of a directory does not match its checksum", offset as u64);
    let (words, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(damaged)?;
    if named.place(offset).crc32c(words) != u32::from_le_bytes(*checksum) {
        return Err(damaged());
    }
    let (words, []) = words.as_chunks::<WORD_BYTES>() else { return Err(damaged()) };
    Ok(words.iter().map(|word| Word::from_bits(u64::from_le_bytes(*word))))
}

impl ColdIndex {
    /// Has each checkpoint make one.
    #[cfg(test)]
    pub(crate) fn snapshot_always(&self) {
        self.snapshot_share.store(0, Relaxed);
    }

    /// During opening: notes the bytes of the file that the checkpoint names.
    pub(crate) fn note_snapshot(&self, named: NamedSnapshot, device: &dyn Device) {
        self.snapshot_bytes.store(named.file_bytes(device), Relaxed);
    }

    /// Writes a snapshot numbered `number`, if enough was appended to the chunk log since `last`.
    /// It is durable then, and is to be named. Blocks; the caller is not protected, and has the
    /// chunk log cut afterwards [S1]. `None` also if it cannot be written, for want of space or
    /// another reason.
    ///
    /// # Errors
    /// A directory that cannot be synced: others have names in it.
    pub(crate) fn snapshot_if_due(
        &self,
        device: &dyn Device,
        last: NamedSnapshot,
        number: u64,
    ) -> Result<Option<NamedSnapshot>> {
        let from = last.from.max(self.log.begin());
        let read = self.log.gaps.bytes_between(from, self.log.tail());
        if read < self.snapshot_share.load(Relaxed) * self.directory.bytes() {
            return Ok(None);
        }
        self.write_snapshot(device, number)
    }

    /// The same, whether it is due or not; `None` if the directory doubled meanwhile.
    ///
    /// # Errors
    /// The same.
    pub(super) fn write_snapshot(
        &self,
        device: &dyn Device,
        number: u64,
    ) -> Result<Option<NamedSnapshot>> {
        let (level, from) = self.directory.while_unchanged(|level| (level, self.log.tail()));
        let named = NamedSnapshot { number, from };
        let head = Head { named, level };
        if !self.write_file(device, &head).unwrap_or(false) {
            // No superblock names the rest of it; the next snapshot of this number removes it.
            let _left: Result<()> = named.remove(device);
            return Ok(None);
        }
        device.sync_dir("")?;
        // The one before is removed once this one is named.
        self.snapshot_bytes.store(head.file_bytes(), Relaxed);
        Ok(Some(named))
    }

    fn write_file(&self, device: &dyn Device, head: &Head) -> Result<bool> {
        head.named.remove(device)?;
        let file = device.open(&head.named.file_name(), Mode::CreateNew)?;
        let is_whole = self.write_words(&*file, head)?;
        if is_whole {
            file.sync(SyncKind::All)?;
        }
        Ok(is_whole)
    }

    fn write_words(&self, file: &dyn File, head: &Head) -> Result<bool> {
        file.write_at(0, &head.encode())?;
        let mut bytes = Vec::with_capacity(PIECE_WORDS * WORD_BYTES + CHECKSUM_BYTES);
        for (offset, numbers) in head.pieces() {
            bytes.clear();
            for number in numbers {
                // [S3]
                let name = Name { level: head.level, number };
                let Some(word) = self.directory.load_at(name) else { return Ok(false) };
                bytes.extend_from_slice(&word.bits().to_le_bytes());
            }
            let checksum = head.named.place(offset).crc32c(&bytes);
            bytes.extend_from_slice(&checksum.to_le_bytes());
            file.write_at(offset as u64, &bytes)?;
        }
        Ok(true)
    }
}

impl Snapshot {
    /// Reads the snapshot that a checkpoint names, whose chunk log ends at `end`; `None` if it is
    /// missing, or differs from the data written: the chunk log has it all.
    ///
    /// # Errors
    /// The storage's.
    pub(super) fn read(
        device: &dyn Device,
        named: NamedSnapshot,
        end: LogAddress,
    ) -> Result<Option<Self>> {
        let Some(file) = named.open(device)? else { return Ok(None) };
        let len = file.len()?;
        let read = |offset: usize, bytes: &mut [u8]| -> Result<bool> {
            if offset as u64 + bytes.len() as u64 > len {
                return Ok(false);
            }
            Ok(file.read_at(offset as u64, bytes).map(|()| true)?)
        };
        let mut bytes = vec![0; HEAD_BYTES];
        if !read(0, &mut bytes)? {
            return Ok(None);
        }
        FORMAT.refuse_newer(&bytes, &named.file_name())?;
        let Some(head) = Head::decode(&bytes).ok().filter(|head| head.named == named) else {
            return Ok(None);
        };
        let directory = Directory::of_level(head.level);
        for (offset, numbers) in head.pieces() {
            bytes.resize(numbers.len() * WORD_BYTES + CHECKSUM_BYTES, 0);
            if !read(offset, &mut bytes)? {
                return Ok(None);
            }
            let Ok(words) = decode_piece(named, offset, &bytes) else { return Ok(None) };
            for (number, word) in numbers.zip(words) {
                // [S1]
                if word.address() >= end {
                    return Ok(None);
                }
                directory.restore(number, word);
            }
        }
        Ok(Some(Self { directory, from: named.from }))
    }
}

/// Reads `bytes` as a snapshot and returns the number of its words.
///
/// # Errors
/// Damage of the snapshot.
pub(crate) fn check_snapshot(bytes: &[u8]) -> std::result::Result<usize, Corruption> {
    let head = Head::decode(bytes)?;
    let mut end = HEAD_BYTES;
    for (offset, numbers) in head.pieces() {
        end = offset + numbers.len() * WORD_BYTES + CHECKSUM_BYTES;
        let short = || Corruption::new("a directory is cut short", offset as u64);
        let _words = decode_piece(head.named, offset, bytes.get(offset..end).ok_or_else(short)?)?;
    }
    match bytes.len() == end {
        true => Ok(head.chunks()),
        false => Err(Corruption::new("a directory is too long", end as u64)),
    }
}
