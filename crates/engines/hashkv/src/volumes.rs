//! Volumes: files with places for segments.
//!
//! A volume has a header and [`PLACES`] places of equal length. A segment takes one place. A longer
//! one takes several that follow one another. A segment that is longer than a volume has a volume
//! of its own, whose places beyond the first [`PLACES`] no other segment gets.
//!
//! # Invariants
//! - V1. A place is taken before anything is written to it, and released after no table names it.
//!   So a place is never written by two segments.
//! - V2. [`Volumes::sync`] makes durable all writes before it, and the names of new volumes.

pub(crate) mod overlapped;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use codec::{Corruption, Format};
use device::{Buffer, Device, File, Mode, OnDemandFile, SyncKind};
use engine::{Error, Result};
use sync::Mutex;

use crate::segment::record::BLOCK_BYTES;

/// The header of a volume.
pub(crate) const FORMAT: Format = Format::new(*b"TCHKVVOL", 1, 0);
/// Places of a volume, unless it has a single longer segment.
pub(crate) const PLACES: u32 = 256;
/// The header's block.
pub(crate) const HEADER_BYTES: u64 = BLOCK_BYTES as u64;
const PREFIX: &str = "volume-";
/// Bytes that are written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// Places of a volume that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) volume: u32,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Returns the name of a volume's file.
pub(crate) fn file_name(number: u32) -> String {
    format!("{PREFIX}{number}")
}

/// Returns the number of the volume with a file of this name.
pub(crate) fn file_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// A volume.
#[derive(Debug)]
struct Volume {
    file: Arc<OnDemandFile>,
    /// Whether each place is taken.
    taken: Vec<bool>,
    /// Whether it has its header. Before that its file is not opened: an older file of that name
    /// may be removed.
    is_made: bool,
    /// Whether it was written since it was synced.
    is_dirty: bool,
}

/// The volumes of an open store.
#[derive(Debug)]
pub(crate) struct Volumes {
    device: Arc<dyn Device>,
    /// [`Mode::Read`] if no file may be made.
    mode: Mode,
    place_bytes: u64,
    /// Changes while the volumes are locked.
    is_closed: AtomicBool,
    /// By number. Held for moments only: nothing is read or written under it.
    volumes: Mutex<BTreeMap<u32, Volume>>,
}

impl Volume {
    fn new(device: &Arc<dyn Device>, mode: Mode, number: u32, places: u32) -> Self {
        let file = OnDemandFile::new(device, file_name(number), mode);
        let taken = vec![false; places as usize];
        Self { file: Arc::new(file), taken, is_made: false, is_dirty: false }
    }

    /// Returns the first of `count` free places that follow one another, among the first
    /// [`PLACES`].
    fn free_run(&self, count: usize) -> Option<usize> {
        let mut begin = 0;
        for (at, is_taken) in self.taken.iter().take(PLACES as usize).enumerate() {
            if *is_taken {
                begin = at + 1;
            } else if at + 1 - begin == count {
                return Some(begin);
            }
        }
        None
    }

    fn places(&mut self, place: Place) -> &mut [bool] {
        let (first, count) = (place.first as usize, place.count as usize);
        self.taken.get_mut(first..first + count).unwrap_or_default()
    }
}

impl Volumes {
    /// Returns the volumes of a device with places of `place_bytes` bytes, without any volume.
    pub(crate) fn new(device: Arc<dyn Device>, place_bytes: u32) -> Self {
        Self::with_mode(device, Mode::Create, place_bytes)
    }

    /// Returns the same to read them only: no file is made or changed.
    pub(crate) fn to_read(device: Arc<dyn Device>, place_bytes: u32) -> Self {
        Self::with_mode(device, Mode::Read, place_bytes)
    }

    fn with_mode(device: Arc<dyn Device>, mode: Mode, place_bytes: u32) -> Self {
        let (place_bytes, is_closed, volumes) =
            (u64::from(place_bytes), false.into(), Mutex::default());
        Self { device, mode, place_bytes, is_closed, volumes }
    }

    /// Takes the place of a segment that the table names.
    ///
    /// # Errors
    /// Another segment has it.
    pub(crate) fn claim(&self, place: Place) -> Result<()> {
        let mut volumes = self.volumes.lock();
        let places = place.count.max(PLACES);
        let volume = volumes.entry(place.volume).or_insert_with(|| {
            let mut volume = Volume::new(&self.device, self.mode, place.volume, places);
            volume.is_made = true;
            volume
        });
        let places = volume.places(place);
        if places.len() != place.count as usize || places.contains(&true) {
            let what = format!("two segments have the same place {}", place.first);
            return Err(Corruption::new(what, 0).at(&file_name(place.volume), 0).into());
        }
        places.fill(true);
        Ok(())
    }

    /// Takes `count` free places that follow one another, and returns whether their volume is new.
    /// Does no I/O: a new volume is made by the first write to it.
    pub(crate) fn take(&self, count: u32) -> (Place, bool) {
        let mut volumes = self.volumes.lock();
        let found = volumes.iter().find_map(|(number, volume)| {
            Some(Place { volume: *number, first: volume.free_run(count as usize)? as u32, count })
        });
        let is_new = found.is_none();
        let place = found.unwrap_or_else(|| {
            let volume = volumes.keys().last().map_or(0, |last| last + 1);
            let places = count.max(PLACES);
            volumes.insert(volume, Volume::new(&self.device, self.mode, volume, places));
            Place { volume, first: 0, count }
        });
        if let Some(volume) = volumes.get_mut(&place.volume) {
            volume.places(place).fill(true);
        }
        (place, is_new)
    }

    /// Returns the room of a place to the device, and then the place to later segments. A volume
    /// that is not made has no room: its file, if there is one, is older than the store's opening.
    ///
    /// # Errors
    /// The device's; the place stays taken.
    pub(crate) fn release(&self, place: Place) -> Result<()> {
        if self.is_made(place.volume) {
            let file = self.file(place.volume)?;
            file.punch(self.offset(place), u64::from(place.count) * self.place_bytes)?;
        }
        if let Some(volume) = self.volumes.lock().get_mut(&place.volume) {
            volume.is_dirty |= volume.is_made;
            volume.places(place).fill(false);
        }
        Ok(())
    }

    /// Returns the room of a place behind `end` to the device.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn trim(&self, place: Place, end: usize) -> Result<()> {
        let (bytes, end) = (u64::from(place.count) * self.place_bytes, end as u64);
        let file = self.file(place.volume)?;
        file.punch(self.offset(place) + end, bytes.saturating_sub(end))?;
        self.note_dirty(place.volume);
        Ok(())
    }

    /// Writes whole blocks to a place, from `offset` of it on.
    ///
    /// # Errors
    /// The device's. The same bytes may be written again.
    pub(crate) fn write(&self, place: Place, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file_to_write(place.volume)?;
        let mut at = self.offset(place) + offset;
        for part in bytes.chunks(WRITE_BYTES) {
            file.write_at(at, &Buffer::copy_of(part))?;
            at += part.len() as u64;
        }
        // A sync that began meanwhile may have missed the write.
        self.note_dirty(place.volume);
        Ok(())
    }

    /// Returns whether a volume has its header.
    fn is_made(&self, number: u32) -> bool {
        self.volumes.lock().get(&number).is_some_and(|volume| volume.is_made)
    }

    fn note_dirty(&self, number: u32) {
        if let Some(volume) = self.volumes.lock().get_mut(&number) {
            volume.is_dirty = true;
        }
    }

    /// Returns `len` bytes of a place, from `offset` of it on. Bytes that were never written are
    /// zeros.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn read(&self, place: Place, offset: u64, len: usize) -> Result<Buffer> {
        let file = self.file(place.volume)?;
        let begin = self.offset(place) + offset;
        let there = file.len()?.saturating_sub(begin).min(len as u64) as usize;
        let mut bytes = Buffer::zeroed(len);
        file.read_at(begin, bytes.get_mut(..there).unwrap_or_default())?;
        Ok(bytes)
    }

    /// Returns the room of all places but `named` to the device, and removes the files of volumes
    /// that the opening has not found in the segment table. The table is durable, and no other
    /// place was written since the opening.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn discard_all_but(&self, named: &[Place]) -> Result<()> {
        let mut runs: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
        for place in named {
            let begin = self.offset(*place);
            let end = begin + u64::from(place.count) * self.place_bytes;
            runs.entry(place.volume).or_default().push(begin..end);
        }
        for entry in self.device.list("")? {
            let Some(number) = file_number(&entry.name) else { continue };
            // The volume may have lost all its segments since the opening.
            if !self.is_made(number) {
                self.device.remove(&entry.name)?;
                continue;
            }
            let mut runs = runs.remove(&number).unwrap_or_default();
            runs.sort_unstable_by_key(|run| run.start);
            let file = self.file(number)?;
            let len = file.len()?;
            let mut free_from = HEADER_BYTES;
            // A longer segment than all of these may have been here.
            for Range { start, end } in runs.iter().chain([&(len..len)]) {
                if free_from < *start.min(&len) {
                    file.punch(free_from, *start.min(&len) - free_from)?;
                    self.note_dirty(number);
                }
                free_from = *end;
            }
        }
        Ok(())
    }

    /// Returns the offset of a place in its file.
    pub(crate) fn offset(&self, place: Place) -> u64 {
        HEADER_BYTES + u64::from(place.first) * self.place_bytes
    }

    /// Closes all files, except for those of reads that have begun.
    pub(crate) fn close(&self) {
        let mut volumes = self.volumes.lock();
        self.is_closed.store(true, Relaxed);
        volumes.clear();
    }

    /// Returns the file of a volume.
    ///
    /// # Errors
    /// There is no such volume; [`Error::Closed`].
    pub(crate) fn file(&self, number: u32) -> Result<Arc<OnDemandFile>> {
        let volumes = self.volumes.lock();
        if self.is_closed.load(Relaxed) {
            return Err(Error::Closed);
        }
        let volume = volumes.get(&number).ok_or_else(|| {
            Corruption::new("a volume that the segment table names is missing", 0)
                .at(&file_name(number), 0)
        })?;
        Ok(Arc::clone(&volume.file))
    }

    /// Returns the file of a volume, which has a header then, and notes that it has to be synced.
    fn file_to_write(&self, number: u32) -> Result<Arc<OnDemandFile>> {
        if !self.is_made(number) {
            return self.write_header(number);
        }
        if let Some(volume) = self.volumes.lock().get_mut(&number) {
            volume.is_dirty = true;
        }
        self.file(number)
    }

    /// Writes the header of a volume, and returns the file.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_header(&self, number: u32) -> Result<Arc<OnDemandFile>> {
        let file = self.file(number)?;
        let mut block = Buffer::zeroed(HEADER_BYTES as usize);
        block.iter_mut().zip(FORMAT.header(0).encode()).for_each(|(to, byte)| *to = byte);
        file.write_at(0, &block)?;
        if let Some(volume) = self.volumes.lock().get_mut(&number) {
            (volume.is_made, volume.is_dirty) = (true, true);
        }
        Ok(file)
    }

    /// Makes durable all writes before the call, and the names of new volumes. (V2)
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut files = Vec::new();
        for (number, volume) in self.volumes.lock().iter_mut().filter(|(_, it)| it.is_dirty) {
            volume.is_dirty = false;
            files.push((*number, Arc::clone(&volume.file)));
        }
        if files.is_empty() {
            return Ok(());
        }
        let synced = files.iter().try_for_each(|(_, file)| file.sync(SyncKind::Data));
        let synced = synced.and_then(|()| self.device.sync_dir(""));
        if synced.is_err() {
            let mut volumes = self.volumes.lock();
            for (number, _) in &files {
                volumes.entry(*number).and_modify(|volume| volume.is_dirty = true);
            }
        }
        Ok(synced?)
    }

    /// Returns the number of volumes.
    pub(crate) fn count(&self) -> usize {
        self.volumes.lock().len()
    }
}

/// Verifies the headers of the volumes that a table names.
///
/// # Errors
/// A volume is missing, damaged or of a newer version.
pub(crate) fn check_headers(device: &dyn Device, numbers: impl Iterator<Item = u32>) -> Result<()> {
    for number in numbers {
        let name = file_name(number);
        let file = match device.open(&name, Mode::Read) {
            Err(device::Error::NotFound { .. }) => {
                let what = "a volume that the segment table names is missing";
                return Err(Corruption::new(what, 0).at(&name, 0).into());
            }
            opened => opened?,
        };
        let mut block = Buffer::zeroed(HEADER_BYTES as usize);
        let there = file.len()?.min(HEADER_BYTES) as usize;
        file.read_at(0, block.get_mut(..there).unwrap_or_default())?;
        FORMAT.refuse_newer(&block, &name)?;
        let header = FORMAT.decode(&block);
        header.map_err(|error| Corruption::new(error.to_string(), 0).at(&name, 0))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
