//! Files that are open only while they are used, or while there are descriptors to spare.
//!
//! An [`OnDemandFile`] opens its file when a caller wants it. The process keeps such files open up
//! to a number that follows from its limit, all stores together, and closes the files that were not
//! used for longest (a clock). If no descriptor is left for anything else, all of them are closed.
//!
//! # Invariants
//! - P1. A file that was written to stays open until it is synced: if it were closed in between,
//!   the sync might not report that the system could not write. A sync releases the file only if no
//!   write was in progress when the sync began, and none has begun since. Of a write on a queue the
//!   file only sees the beginning: the caller collects its completion before any thread syncs the
//!   file.
//!
//! # Concurrency
//! Lock order: the clock, then a file's place. A place is never locked while its file is closed.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use sync::locks::Mutex;

use crate::Device;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::file::{File, Mode, SyncKind};
use crate::limit::{close_when_out_of_files, open_files_limit};
use crate::process::PerProcess;
use crate::queue::{Request, Work};

/// Files that a process keeps open in this way, at most: with tables of 16 MiB these are 4 GiB.
const FILES_MAX: u64 = 256;
/// Share of the files and sockets that it may have open, as a divisor.
const LIMIT_SHARE: u64 = 4;

/// The files of this process.
static PROCESS: PerProcess<Arc<Pool>> = PerProcess::new(|| {
    close_when_out_of_files(|| PROCESS.close_all());
    let limit = open_files_limit().unwrap_or(u64::MAX);
    Arc::new(Pool::new((limit / LIMIT_SHARE).min(FILES_MAX) as usize))
});

/// A file of a device that is opened when it is used. The file must have this name as long as this
/// is used, unless it is held open ([`OnDemandFile::hold`]), and must not be replaced under it.
///
/// It is a [`File`] itself, and a queue reads it as it reads the file that is open.
#[derive(Debug)]
pub struct OnDemandFile {
    device: Arc<dyn Device>,
    name: String,
    mode: Mode,
    pool: Arc<Pool>,
    place: Arc<Place>,
}

/// The file, if it is open.
#[derive(Debug, Default)]
struct Place {
    file: Mutex<Option<Arc<dyn File>>>,
    held: Mutex<Held>,
    /// Whether it was used since the clock's hand came by.
    is_used: AtomicBool,
}

/// The file while it must stay open (P1).
#[derive(Debug, Default)]
struct Held {
    file: Option<Arc<dyn File>>,
    /// Number of calls of [`OnDemandFile::hold`] so far.
    holds: u64,
    /// Number of writes in progress.
    writes: u64,
}

/// A write in progress to the held file.
struct HeldWrite<'a> {
    place: &'a Place,
    file: Arc<dyn File>,
}

/// The open files, in the order in which the clock's hand comes by.
#[derive(Debug)]
struct Pool {
    files_max: usize,
    clock: Mutex<VecDeque<Weak<Place>>>,
}

impl OnDemandFile {
    /// The file `name` of `device`, which holds whole blocks ([`Device::open_blocks`]). Opens
    /// nothing.
    pub fn new(device: &Arc<dyn Device>, name: String, mode: Mode) -> Self {
        Self::of(&PROCESS, device, name, mode)
    }

    fn of(pool: &Arc<Pool>, device: &Arc<dyn Device>, name: String, mode: Mode) -> Self {
        let (device, pool) = (Arc::clone(device), Arc::clone(pool));
        Self { device, name, mode, pool, place: Arc::default() }
    }

    /// Returns the file, which may have to be opened. It stays open as long as the caller holds it.
    ///
    /// # Errors
    /// As [`Device::open_blocks`].
    pub fn get(&self) -> Result<Arc<dyn File>> {
        if let Some(file) = self.place.held_file() {
            return Ok(file);
        }
        if let Some(file) = &*self.place.file.lock() {
            self.place.is_used.store(true, Relaxed);
            return Ok(Arc::clone(file));
        }
        let file = match self.open() {
            // Another thread may have held the file and removed its name since the first look.
            Err(error @ Error::NotFound { .. }) => return self.place.held_file().ok_or(error),
            opened => opened?,
        };
        if self.pool.files_max > 0 {
            self.keep(&file);
        }
        Ok(file)
    }

    /// Opens the file, and keeps it open as long as this exists or until it is synced: its name may
    /// go then.
    ///
    /// # Errors
    /// As [`Device::open_blocks`].
    pub fn hold(&self) -> Result<Arc<dyn File>> {
        self.hold_in(&mut self.place.held.lock())
    }

    fn hold_in(&self, held: &mut Held) -> Result<Arc<dyn File>> {
        held.holds += 1;
        if let Some(file) = &held.file {
            return Ok(Arc::clone(file));
        }
        let open = self.place.file.lock().clone();
        let file = open.map_or_else(|| self.open(), Ok)?;
        Ok(Arc::clone(held.file.insert(file)))
    }

    /// Holds the file for a write, which lasts until the returned value is dropped.
    fn hold_for_write(&self) -> Result<HeldWrite<'_>> {
        let mut held = self.place.held.lock();
        let file = self.hold_in(&mut held)?;
        held.writes += 1;
        Ok(HeldWrite { place: &self.place, file })
    }

    fn open(&self) -> Result<Arc<dyn File>> {
        match self.device.open_blocks(&self.name, self.mode) {
            // The system's device has already closed all others; one of a test has not.
            Err(error) if error.is_out_of_files() => {
                self.pool.close_all();
                self.device.open_blocks(&self.name, self.mode)
            }
            opened => opened,
        }
    }

    fn keep(&self, file: &Arc<dyn File>) {
        let before = self.place.file.lock().replace(Arc::clone(file));
        if before.is_none() {
            self.pool.add(&self.place);
        }
    }
}

impl File for OnDemandFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.get()?.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.hold_for_write()?.file.write_at(offset, bytes)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        let (file, holds, is_writing) = {
            let held = self.place.held.lock();
            (held.file.clone(), held.holds, held.writes > 0)
        };
        file.map_or_else(|| self.get(), Ok)?.sync(kind)?;
        let mut held = self.place.held.lock();
        // The sync may not cover a write that was in progress, or one that has begun since.
        let released = if is_writing || held.holds != holds { None } else { held.file.take() };
        drop(held);
        drop(released);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.get()?.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.hold_for_write()?.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.hold_for_write()?.file.allocate(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.hold_for_write()?.file.punch(offset, len)
    }

    fn alignment(&self) -> usize {
        self.get().map_or(Buffer::ALIGNMENT, |file| file.alignment())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Request {
    /// Returns the same request on the file that is open, if it is on one that is opened on demand.
    /// If that cannot be opened the request keeps it, and fails when it is done.
    #[must_use]
    pub fn on_open_file(mut self) -> Self {
        let any: &dyn Any = &*self.file;
        let Some(on_demand) = any.downcast_ref::<OnDemandFile>() else { return self };
        let opened = match self.work {
            Work::Write { .. } => on_demand.hold(),
            Work::Read { .. } => on_demand.get(),
            // Which of its writes are covered is the file's to know.
            Work::Sync(_) => return self,
        };
        if let Ok(file) = opened {
            self.file = file;
        }
        self
    }
}

impl Drop for HeldWrite<'_> {
    fn drop(&mut self) {
        self.place.held.lock().writes -= 1;
    }
}

impl Place {
    fn held_file(&self) -> Option<Arc<dyn File>> {
        self.held.lock().file.clone()
    }

    fn close(&self) {
        let closed = self.file.lock().take();
        drop(closed);
    }
}

impl Pool {
    fn new(files_max: usize) -> Self {
        Self { files_max, clock: Mutex::default() }
    }

    /// Takes in a file that was opened, and closes others if they are too many.
    fn add(&self, place: &Arc<Place>) {
        let mut clock = self.clock.lock();
        clock.push_back(Arc::downgrade(place));
        // Each file is passed over once at most.
        let mut passes = 2 * clock.len();
        while clock.len() > self.files_max && passes > 0 {
            passes -= 1;
            let Some(next) = clock.pop_front() else { return };
            let Some(other) = next.upgrade() else { continue };
            if other.file.lock().is_none() {
                continue;
            }
            if other.is_used.swap(false, Relaxed) {
                clock.push_back(next);
            } else {
                other.close();
            }
        }
    }

    fn close_all(&self) {
        let all = std::mem::take(&mut *self.clock.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|place| place.close());
    }

    #[cfg(test)]
    fn open_files(&self) -> usize {
        let clock = self.clock.lock();
        let is_open = |place: &Arc<Place>| place.file.lock().is_some();
        clock.iter().filter_map(Weak::upgrade).filter(is_open).count()
    }
}
