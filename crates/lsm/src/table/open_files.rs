//! The files of tables that are open for reading: those that were used last, and no more than some
//! number, so that a store may have more tables than a process may have files.
//!
//! The number is the process's, not a store's: all stores that are open share it out in equal
//! parts. So one that comes takes files from those that are there, and one that goes gives its part
//! back. Where the process has no descriptor left nevertheless, for whatever it needs one, a journal
//! or a flush, all of them are closed.
//!
//! # Concurrency
//! Lock order: the process's stores, then what one of them holds. A store is dropped under neither.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use device::{Device, File, Mode, Result};
use parking_lot::Mutex;

/// Files of tables that a process keeps open, at most: with tables of 16 MiB these are 4 GiB.
const FILES_MAX: u64 = 256;
/// No more than this part of what it may have open, of files and sockets.
const LIMIT_PART: u64 = 4;

/// This process.
pub(super) static PROCESS: LazyLock<Arc<Process>> = LazyLock::new(|| {
    device::close_when_out_of_files(|| PROCESS.give_back());
    let limit = device::open_files_limit().unwrap_or(u64::MAX);
    Process::of((limit / LIMIT_PART).min(FILES_MAX) as usize)
});

/// The open stores of a process, and how many files all of them may keep open.
#[derive(Debug)]
pub(super) struct Process {
    files_max: usize,
    stores: Mutex<Vec<Weak<OpenFiles>>>,
}

/// The open files of a device, by a table's number.
#[derive(Debug)]
pub(super) struct OpenFiles {
    device: Arc<dyn Device>,
    process: Arc<Process>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    files: HashMap<u64, Used>,
    files_max: usize,
    /// Counts the uses.
    clock: u64,
}

#[derive(Debug)]
struct Used {
    file: Arc<dyn File>,
    last: u64,
}

impl Process {
    /// One that keeps so many files open, or one for each store if these are more.
    pub(super) fn of(files_max: usize) -> Arc<Self> {
        Arc::new(Self { files_max, stores: Mutex::default() })
    }

    fn share_out(&self, new: Option<&Arc<OpenFiles>>) {
        let mut stores = self.stores.lock();
        stores.extend(new.map(Arc::downgrade));
        stores.retain(|store| store.strong_count() > 0);
        let open: Vec<Arc<OpenFiles>> = stores.iter().filter_map(Weak::upgrade).collect();
        let share = (self.files_max / open.len().max(1)).max(1);
        open.iter().for_each(|store| store.held.lock().limit_to(share));
        // Before `open`, which may be the last owner of a store by now.
        drop(stores);
    }

    /// Closes all files.
    fn give_back(&self) {
        let open: Vec<_> = self.stores.lock().iter().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|store| store.held.lock().shrink(0));
    }

    fn leave(&self, store: &OpenFiles) {
        self.stores.lock().retain(|other| !std::ptr::eq(other.as_ptr(), store));
    }
}

impl OpenFiles {
    /// None yet; of what the process may have a share, beside those that somebody still reads.
    pub(super) fn on(device: Arc<dyn Device>, process: &Arc<Process>) -> Arc<Self> {
        let (process, held) = (Arc::clone(process), Mutex::default());
        let files = Arc::new(Self { device, process, held });
        files.process.share_out(Some(&files));
        files
    }

    /// The file of this table, under this name. May open it, and close others.
    pub(super) fn get(&self, number: u64, name: &str) -> Result<Arc<dyn File>> {
        if let Some(file) = self.held.lock().find(number) {
            return Ok(file);
        }
        let file = self.open(name, Mode::Read)?;
        self.held.lock().keep(number, Arc::clone(&file));
        Ok(file)
    }

    /// Opens a file that is not kept.
    pub(super) fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        match self.device.open_blocks(name, mode) {
            // The device of a test may say so without the system.
            Err(error) if error.is_out_of_files() => {
                self.held.lock().shrink(0);
                self.device.open_blocks(name, mode)
            }
            opened => opened,
        }
    }

    /// The table is to be removed.
    pub(super) fn forget(&self, number: u64) {
        self.held.lock().files.remove(&number);
    }

    /// Closes all, and keeps none open from now on.
    pub(super) fn close(&self) {
        self.process.leave(self);
        self.held.lock().limit_to(0);
        self.process.share_out(None);
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        self.process.share_out(None);
    }
}

impl Held {
    fn find(&mut self, number: u64) -> Option<Arc<dyn File>> {
        self.clock += 1;
        let used = self.files.get_mut(&number)?;
        used.last = self.clock;
        Some(Arc::clone(&used.file))
    }

    fn keep(&mut self, number: u64, file: Arc<dyn File>) {
        let Some(others_max) = self.files_max.checked_sub(1) else { return };
        self.shrink(others_max);
        self.files.insert(number, Used { file, last: self.clock });
    }

    fn limit_to(&mut self, files_max: usize) {
        self.files_max = files_max;
        self.shrink(files_max);
    }

    /// Closes those that were not used for longest, until there are no more than so many.
    fn shrink(&mut self, files_max: usize) {
        while self.files.len() > files_max {
            let oldest = self.files.iter().min_by_key(|(_, used)| used.last);
            let Some(number) = oldest.map(|(number, _)| *number) else { return };
            self.files.remove(&number);
        }
    }
}
