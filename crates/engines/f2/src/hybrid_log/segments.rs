//! The files of a log, each a fixed stretch of its addresses behind one block of header.
//!
//! Segment `n` holds the addresses from `n * segment_bytes` on. It is made when the first page of
//! it is flushed, and never again. After a restart the log continues in a segment of its own, whose
//! header contains the address at which the log had ended before. So no block of a segment is
//! written twice, and bytes that a crash left behind the end are never taken for the log.
//!
//! # Format
//! `docs/formats/f2-log.md`.

mod held;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use codec::{Corruption, FileHeader, Format, Place, Reader, Writer};
use device::{Buffer, Device, File, Mode, OnDemandFile, Queue, SyncKind};
use engine::{Error, Result};
use environment::Random;
use rand::Rng;
use sync::locks::{Mutex, RwLock};

use super::{BLOCK_BYTES, Gaps, Geometry};
use crate::address::LogAddress;
use crate::record::Damage;

pub(crate) use held::HeldSegments;

/// The header of a segment.
pub(crate) const FORMAT: Format = Format::new(*b"TCF2LOGS", 1, 0);
/// Header, number, salt, the address at which the log ended before, checksum.
const FIELDS_BYTES: usize = FileHeader::LEN + 8 + 8 + 8;

/// All segments of one log.
pub(crate) struct Segments {
    device: Arc<dyn Device>,
    prefix: &'static str,
    geometry: Geometry,
    open: RwLock<BTreeMap<u64, Arc<Segment>>>,
    unsynced: Mutex<Unsynced>,
    /// The address at which the log of the life before ended, until a segment of this life has it.
    previous_end: Mutex<Option<LogAddress>>,
    salts: Mutex<Random>,
    /// Bytes of pages that were written since it was opened.
    written_bytes: AtomicU64,
}

/// Files and names that have to be synced before a checkpoint may refer to them.
#[derive(Default)]
struct Unsynced {
    segments: BTreeSet<u64>,
    names: bool,
}

/// One file.
pub(crate) struct Segment {
    header: SegmentHeader,
    begin: LogAddress,
    file: Arc<OnDemandFile>,
    name: String,
    /// Bytes of the file that were written, in whole blocks.
    written: AtomicU64,
}

/// The fields of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    /// Goes into the checksum of each record.
    pub(crate) salt: u64,
    /// The address at which the log ended before it continued here: the segment's own beginning,
    /// except for the first one of a life.
    pub(crate) previous_end: LogAddress,
}

impl SegmentHeader {
    fn encode(self) -> Buffer {
        let mut fields = Vec::with_capacity(FIELDS_BYTES + 4);
        fields.extend_from_slice(&FORMAT.header(0).encode());
        let mut out = Writer::new(&mut fields);
        out.put_u64(self.number);
        out.put_u64(self.salt);
        out.put_u64(self.previous_end.get());
        let checksum = self.place().crc32c(&fields);
        Writer::new(&mut fields).put_u32(checksum);
        let mut block = Buffer::zeroed(BLOCK_BYTES as usize);
        block[..fields.len()].copy_from_slice(&fields);
        block
    }

    fn place(self) -> Place {
        Place { file: self.number, offset: 0, generation: 0 }
    }

    /// Reads a segment's first block.
    ///
    /// # Errors
    /// The damage in it.
    pub(crate) fn decode(block: &[u8]) -> std::result::Result<Self, Corruption> {
        FORMAT.decode(block)?;
        let mut fields = Reader::new(block);
        fields.take_bytes(FileHeader::LEN)?;
        let header = Self {
            number: fields.take_u64()?,
            salt: fields.take_u64()?,
            previous_end: LogAddress::new(fields.take_u64()?),
        };
        let covered = header.place().crc32c(fields.taken());
        if fields.take_u32()? != covered || fields.rest().iter().any(|byte| *byte != 0) {
            return Err(Corruption::new("a segment's header does not match its checksum", 0));
        }
        Ok(header)
    }
}

impl Segments {
    /// Opens the segments of the log `prefix` that hold anything between `begin` and `end`.
    ///
    /// # Errors
    /// A missing or damaged one, with its place.
    pub(crate) fn open(
        device: Arc<dyn Device>,
        prefix: &'static str,
        geometry: Geometry,
        begin: LogAddress,
        end: LogAddress,
        salts: Random,
    ) -> Result<Self> {
        let refuse = &mut |error| Err(error);
        Self::open_unless(device, prefix, geometry, (begin, end), salts, refuse)
    }

    /// The same, but leaves out a segment that cannot be opened, unless `refuse` makes an error of
    /// the reason.
    ///
    /// # Errors
    /// Those of `refuse`.
    pub(crate) fn open_unless(
        device: Arc<dyn Device>,
        prefix: &'static str,
        geometry: Geometry,
        (begin, end): (LogAddress, LogAddress),
        salts: Random,
        refuse: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Self> {
        let segments = Self {
            device,
            prefix,
            geometry,
            open: RwLock::default(),
            unsynced: Mutex::default(),
            previous_end: Mutex::new(Some(end)),
            salts: Mutex::new(salts),
            written_bytes: AtomicU64::new(0),
        };
        let (first, last) = segments.numbers(begin, end);
        for number in first..last {
            match segments.open_one(number) {
                Ok(segment) => drop(segments.open.write().insert(number, Arc::new(segment))),
                Err(error) => refuse(error)?,
            }
        }
        Ok(segments)
    }

    /// The numbers of the segments that hold something between two addresses.
    fn numbers(&self, begin: LogAddress, end: LogAddress) -> (u64, u64) {
        let first = self.geometry.segment(begin);
        if begin == end {
            return (first, first);
        }
        (first, end.get().div_ceil(self.geometry.segment_bytes()))
    }

    /// The name of segment `number`.
    pub(crate) fn file_name(&self, number: u64) -> String {
        format!("{}-{number:016}", self.prefix)
    }

    /// The numbers of all files whose names are those of segments of this log.
    pub(crate) fn files(&self) -> Result<Vec<u64>> {
        let entries = self.device.list("")?;
        let number = |name: &str| {
            let number = name.strip_prefix(self.prefix)?.strip_prefix('-')?.parse().ok()?;
            (self.file_name(number) == name).then_some(number)
        };
        Ok(entries.iter().filter_map(|entry| number(&entry.name)).collect())
    }

    fn open_one(&self, number: u64) -> Result<Segment> {
        let name = self.file_name(number);
        let file = Arc::new(OnDemandFile::new(&self.device, name.clone(), Mode::Write));
        let mut block = Buffer::zeroed(BLOCK_BYTES as usize);
        let damaged = |damage: Corruption| damage.at(&name, 0);
        if file.len()? < BLOCK_BYTES {
            return Err(damaged(Corruption::new("a segment is cut short", 0)).into());
        }
        file.read_at(0, &mut block)?;
        let header = SegmentHeader::decode(&block).map_err(damaged)?;
        if header.number != number {
            let what = format!("this is segment {} under another name", header.number);
            return Err(damaged(Corruption::new(what, 0)).into());
        }
        let begin = self.geometry.segment_begin(number);
        let before = begin.get().saturating_sub(self.geometry.segment_bytes());
        if !(before..=begin.get()).contains(&header.previous_end.get()) {
            let what = "a segment says that the log before it ended elsewhere";
            return Err(damaged(Corruption::new(what, 0)).into());
        }
        // The log is written in whole blocks. Bytes behind the last whole block were added to the
        // file by another program, and are never read.
        let written = AtomicU64::new(file.len()? / BLOCK_BYTES * BLOCK_BYTES);
        Ok(Segment { header, begin, file, name, written })
    }

    /// The segment, if it is there.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Segment>> {
        self.open.read().get(&number).cloned()
    }

    /// The segment to write to, made if it is not there.
    pub(super) fn of_write(&self, number: u64) -> Result<Arc<Segment>> {
        if let Some(segment) = self.get(number) {
            return Ok(segment);
        }
        let begin = self.geometry.segment_begin(number);
        // The first segment of this life contains the address at which the life before ended.
        let mut previous_end = self.previous_end.lock();
        let header_end = previous_end.unwrap_or(begin);
        let header =
            SegmentHeader { number, salt: self.salts.lock().next_u64(), previous_end: header_end };
        let name = self.file_name(number);
        if self.device.exists(&name)? {
            self.device.remove(&name)?;
        }
        self.device.open_blocks(&name, Mode::CreateNew)?;
        let file = Arc::new(OnDemandFile::new(&self.device, name.clone(), Mode::Write));
        file.write_at(0, &header.encode())?;
        // Not before: another try has to write it, too.
        *previous_end = None;
        let segment =
            Arc::new(Segment { header, begin, file, name, written: AtomicU64::new(BLOCK_BYTES) });
        self.unsynced.lock().names = true;
        self.open.write().insert(number, Arc::clone(&segment));
        Ok(segment)
    }

    /// Notes that a page of the segment was written: the next sync covers it. Called before any
    /// thread may take the page for flushed, and not before it is written, since a concurrent sync
    /// would forget it.
    pub(super) fn note_written(&self, number: u64) {
        self.unsynced.lock().segments.insert(number);
    }

    /// The address at which the log of the life before ended, if it ended in segment `number` and
    /// no later segment has it yet.
    pub(super) fn pending_end(&self, number: u64) -> Option<LogAddress> {
        let end = (*self.previous_end.lock())?;
        (end != LogAddress::NONE && self.numbers(LogAddress::NONE, end).1 == number + 1)
            .then_some(end)
    }

    /// The gaps between the lives of a log that continues at `tail`.
    pub(super) fn gaps(&self, tail: LogAddress) -> Gaps {
        let open = self.open.read();
        let before = open.values().map(|segment| (segment.previous_end(), segment.begin));
        let last = self.previous_end.lock().map(|end| (end, tail));
        Gaps::new(before.chain(last))
    }

    /// Makes everything that was written durable, and the names of new files.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut unsynced = std::mem::take(&mut *self.unsynced.lock());
        let synced = self.sync_each(&mut unsynced);
        // If this sync could not begin one of them, the next sync must cover it.
        let mut next = self.unsynced.lock();
        next.segments.append(&mut unsynced.segments);
        next.names |= unsynced.names;
        synced
    }

    /// Syncs the files and the directory, and takes each out of `unsynced` once it is durable.
    fn sync_each(&self, unsynced: &mut Unsynced) -> Result<()> {
        while let Some(number) = unsynced.segments.first().copied() {
            if let Some(segment) = self.get(number) {
                segment.file.sync(SyncKind::All)?;
            }
            unsynced.segments.remove(&number);
        }
        if unsynced.names {
            self.device.sync_dir("")?;
            unsynced.names = false;
        }
        Ok(())
    }

    /// Removes every segment that is wholly below `begin`.
    pub(crate) fn remove_below(&self, begin: LogAddress) -> Result<()> {
        let first = self.geometry.segment(begin);
        let gone: Vec<u64> = self.open.read().range(..first).map(|(number, _)| *number).collect();
        for number in gone {
            // A lookup that has begun may still read it.
            if let Some(segment) = self.get(number) {
                segment.file.hold()?;
            }
            // First, so that a removal that could not begin is tried again.
            self.device.remove(&self.file_name(number))?;
            self.open.write().remove(&number);
        }
        Ok(())
    }

    /// Opening: removes every segment behind `end`. No superblock of before names one of them, so
    /// this needs no other step to be durable, and releases its room before anything is written.
    pub(crate) fn remove_behind(&self, end: LogAddress) -> Result<()> {
        // Also if the log is empty: the superblock before may name records below its end.
        let last = end.get().div_ceil(self.geometry.segment_bytes());
        for number in self.files()?.into_iter().filter(|number| *number >= last) {
            self.device.remove(&self.file_name(number))?;
        }
        Ok(())
    }

    /// Returns whether a segment is there that holds nothing between `begin` and `end`.
    pub(crate) fn has_outside(&self, begin: LogAddress, end: LogAddress) -> Result<bool> {
        let (first, last) = self.numbers(begin, end);
        Ok(self.files()?.into_iter().any(|number| number < first || number >= last))
    }

    /// Opening: removes every segment that holds nothing between `begin` and `end`.
    pub(crate) fn remove_outside(&self, begin: LogAddress, end: LogAddress) -> Result<()> {
        let (first, last) = self.numbers(begin, end);
        for number in self.files()? {
            if number < first || number >= last {
                self.open.write().remove(&number);
                self.device.remove(&self.file_name(number))?;
            }
        }
        Ok(())
    }

    /// A queue for `depth` concurrent reads of the segments.
    pub(super) fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(self.device.queue(depth)?)
    }

    pub(super) fn count_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Relaxed);
    }

    /// Bytes of pages that were written since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Relaxed)
    }

    /// Bytes of the files that are there.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let open = self.open.read();
        open.values().map(|segment| segment.written.load(Acquire)).sum()
    }

    /// Releases the files; a read that holds one keeps it open.
    pub(crate) fn close(&self) {
        self.open.write().clear();
    }
}

impl Segment {
    pub(crate) fn salt(&self) -> u64 {
        self.header.salt
    }

    pub(super) fn number(&self) -> u64 {
        self.header.number
    }

    /// The address at which the log ended before it continued here.
    pub(crate) fn previous_end(&self) -> LogAddress {
        self.header.previous_end
    }

    /// The offset of an address in the file.
    pub(crate) fn offset(&self, address: LogAddress) -> u64 {
        BLOCK_BYTES + (address.get() - self.begin.get())
    }

    /// The address at which the written part ends.
    pub(super) fn end(&self) -> LogAddress {
        self.begin.plus(self.written.load(Acquire).saturating_sub(BLOCK_BYTES))
    }

    /// Returns the error of a read of the bytes that begin at `from`, which has failed with
    /// `error`.
    pub(super) fn read_error(&self, from: LogAddress, error: Error) -> Error {
        match error {
            // A file that is shorter than it was is damaged, whatever took its end.
            Error::Device(device::Error::UnexpectedEnd { .. }) => {
                let what = "a segment is cut short";
                Corruption::new(what, self.offset(from)).at(&self.name, 0).into()
            }
            error => error,
        }
    }

    /// The file, for reads on a queue.
    pub(super) fn file(&self) -> Arc<dyn File> {
        Arc::clone(&self.file) as Arc<dyn File>
    }

    pub(super) fn write(&self, from: LogAddress, bytes: &[u8]) -> Result<()> {
        let offset = self.offset(from);
        self.file.write_at(offset, bytes)?;
        self.written.store(offset + bytes.len() as u64, Release);
        Ok(())
    }

    /// Returns the damage at `address`, with its place in the file.
    pub(crate) fn damage(&self, address: LogAddress, damage: Damage) -> Corruption {
        Corruption::new(damage.0, self.offset(address)).at(&self.name, 0)
    }
}
