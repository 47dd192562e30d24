//! A file of a table: written once, from the beginning to the end, and finished. (S2)
//!
//! The checksums of its units are in its footer, and in memory once the file is open: four bytes
//! for each 4 KiB.

use std::sync::Arc;

use codec::Corruption;
use device::{Device, File, Mode, OnDemandFile, SyncKind};

use crate::error::{Error, Result};
use crate::format::{Footer, HEAD_BYTES, Head, UNIT_BYTES, unit_checksum};

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct FillingFile {
    pub(crate) head: Head,
    file: Arc<dyn File>,
    /// The checksums of the units that are written.
    units: Vec<u32>,
    /// The bytes of a unit that is not full yet.
    rest: Vec<u8>,
}

/// A finished file.
#[derive(Debug)]
pub(crate) struct TableFile {
    pub(crate) head: Head,
    file: Arc<dyn File>,
    footer: Footer,
}

impl FillingFile {
    /// Bytes of a file without content.
    pub(crate) const EMPTY_BYTES: u64 = (HEAD_BYTES + Footer::trailer_bytes()) as u64;

    /// Makes an empty file, which has its own name once it is finished. Nothing of it is durable.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn create(device: &dyn Device, head: Head) -> Result<Self> {
        let file = device.open(&head.name.part_path(), Mode::CreateNew)?;
        file.write_at(0, &head.encode())?;
        Ok(Self { head, file, units: Vec::new(), rest: Vec::new() })
    }

    /// Returns the length of the content so far.
    pub(crate) fn length(&self) -> u64 {
        (self.units.len() * UNIT_BYTES + self.rest.len()) as u64
    }

    /// Returns the bytes that the finished file will have, with `more` bytes of content more.
    pub(crate) fn file_bytes(&self, more: u64) -> u64 {
        let length = self.length() + more;
        let units = length.div_ceil(UNIT_BYTES as u64) * 4;
        Footer::begin(length) + units + Footer::trailer_bytes() as u64
    }

    /// Writes bytes at the end.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut whole = self.rest.clone();
        let at = (self.units.len() * UNIT_BYTES) as u64;
        whole.extend_from_slice(bytes);
        let full = whole.len() / UNIT_BYTES * UNIT_BYTES;
        let rest = whole.split_off(full);
        if !whole.is_empty() {
            self.file.write_at(HEAD_BYTES as u64 + at, &whole)?;
        }
        let identity = self.head.identity();
        for (number, unit) in (0..).zip(whole.chunks(UNIT_BYTES)) {
            let offset = at + number * UNIT_BYTES as u64;
            self.units.push(unit_checksum(identity, offset, unit));
        }
        self.rest = rest;
        Ok(())
    }

    /// Finishes the file: it is durable on return, with its name.
    ///
    /// # Errors
    /// The device's. The file is not finished then.
    pub(crate) fn finish(mut self, device: &Arc<dyn Device>) -> Result<TableFile> {
        let length = self.length();
        if !self.rest.is_empty() {
            // The rest of the last unit is zero.
            let missing = UNIT_BYTES - self.rest.len();
            self.write(&vec![0; missing])?;
        }
        let footer = Footer { length, units: std::mem::take(&mut self.units) };
        let bytes = footer.encode(self.head.identity());
        self.file.write_at(Footer::begin(length), &bytes)?;
        self.file.sync(SyncKind::All).map_err(Error::Sync)?;
        let (part, path) = (self.head.name.part_path(), self.head.name.path());
        device.rename_synced(&part, &path).map_err(Error::Sync)?;
        let file = on_demand(device, path);
        Ok(TableFile { head: self.head, file, footer })
    }
}

/// Returns a finished file, which is open only while it is used: there may be more files than
/// descriptors.
fn on_demand(device: &Arc<dyn Device>, path: String) -> Arc<dyn File> {
    Arc::new(OnDemandFile::new(device, path, Mode::Read))
}

impl TableFile {
    /// Opens a file that was finished.
    ///
    /// # Errors
    /// The device's; damage of the footer.
    pub(crate) fn open(device: &Arc<dyn Device>, head: Head) -> Result<Self> {
        let path = head.name.path();
        let file = on_demand(device, path.clone());
        let bytes = file.len()?;
        let mut last = [0; Footer::trailer_bytes()];
        let damaged = || Corruption::new("a file has no footer", bytes).at(&path, 0);
        let at = bytes.checked_sub(last.len() as u64).ok_or_else(damaged)?;
        file.read_at(at, &mut last)?;
        let footer_bytes = Footer::bytes_of(bytes, &last).ok_or_else(damaged)?;
        let begin = bytes - footer_bytes;
        let mut footer = vec![0; footer_bytes as usize];
        file.read_at(begin, &mut footer)?;
        let footer = Footer::decode(&footer, head.identity());
        let footer = footer.map_err(|damage| damage.at(&path, begin))?;
        Ok(Self { head, file, footer })
    }

    /// Returns the length of the content.
    pub(crate) fn length(&self) -> u64 {
        self.footer.length
    }

    /// Returns the bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        let units = self.footer.units.len() * 4 + Footer::trailer_bytes();
        Footer::begin(self.footer.length) + units as u64
    }

    /// Reads bytes of the content, and verifies the units that have them.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; the device's; damage.
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let end = offset.saturating_add(bytes);
        if end > self.footer.length {
            return Err(Error::PastEnd { name: self.head.name, length: self.footer.length });
        }
        let unit = UNIT_BYTES as u64;
        let (first, last) = (offset / unit, end.div_ceil(unit));
        let mut whole = vec![0; (last.saturating_sub(first) * unit) as usize];
        self.file.read_at(HEAD_BYTES as u64 + first * unit, &mut whole)?;
        for (number, content) in (first..).zip(whole.chunks(UNIT_BYTES)) {
            self.verify(number, content)?;
        }
        let skipped = (offset - first * unit) as usize;
        whole.truncate(skipped + bytes as usize);
        Ok(whole.split_off(skipped))
    }

    fn verify(&self, number: u64, content: &[u8]) -> Result<()> {
        let offset = number * UNIT_BYTES as u64;
        let expected = self.footer.units.get(number as usize).copied();
        if expected == Some(unit_checksum(self.head.identity(), offset, content)) {
            return Ok(());
        }
        let (what, at) = ("a unit has a wrong checksum", HEAD_BYTES as u64 + offset);
        Err(Corruption::new(what, at).at(&self.head.name.path(), 0).into())
    }

    /// Reads and verifies all units.
    ///
    /// # Errors
    /// The device's; the first damage.
    pub(crate) fn verify_all(&self) -> Result<()> {
        let mut unit = vec![0; UNIT_BYTES];
        for number in 0..self.footer.units.len() as u64 {
            self.file.read_at(HEAD_BYTES as u64 + number * UNIT_BYTES as u64, &mut unit)?;
            self.verify(number, &unit)?;
        }
        Ok(())
    }
}
