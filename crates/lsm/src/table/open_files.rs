//! The files of tables that are open for reading: those that were used last, and no more than some
//! number, so that a store may have more tables than a process may have files.
//!
//! Where the process has no descriptor left, half of them are closed and it is tried once more:
//! what they are needed for may be a flush.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use device::{Device, Error, FailedOperation, File, Mode, Result};
use parking_lot::Mutex;

/// The numbers by which the operating system says that the process, or all together, have too many
/// files open.
const TOO_MANY: [i32; 2] = [24, 23];

/// The open files of a device, by a table's number.
#[derive(Debug)]
pub(super) struct OpenFiles {
    device: Arc<dyn Device>,
    files_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    files: HashMap<u64, Used>,
    /// Counts the uses.
    clock: u64,
}

#[derive(Debug)]
struct Used {
    file: Arc<dyn File>,
    last: u64,
}

/// Whether there were too many files open. It may pass.
pub(crate) fn is_out_of_files(error: &Error) -> bool {
    matches!(error, Error::Io { operation: FailedOperation::Open, code, .. } if TOO_MANY.contains(code))
}

impl OpenFiles {
    /// None yet; at most `files_max` at once, beside those that somebody still reads.
    pub(super) fn on(device: Arc<dyn Device>, files_max: usize) -> Self {
        Self { device, files_max: files_max.max(1), held: Mutex::default() }
    }

    /// The file of this table, under this name. May open it, and close others.
    pub(super) fn get(&self, number: u64, name: &str) -> Result<Arc<dyn File>> {
        if let Some(file) = self.held.lock().find(number) {
            return Ok(file);
        }
        let file = self.open(name, Mode::Read)?;
        self.held.lock().keep(number, Arc::clone(&file), self.files_max);
        Ok(file)
    }

    /// Opens a file that is not kept.
    pub(super) fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        match self.device.open_blocks(name, mode) {
            Err(error) if is_out_of_files(&error) => {
                let mut held = self.held.lock();
                let half = held.files.len() / 2;
                held.shrink(half);
                drop(held);
                self.device.open_blocks(name, mode)
            }
            opened => opened,
        }
    }

    /// The table is to be removed.
    pub(super) fn forget(&self, number: u64) {
        self.held.lock().files.remove(&number);
    }
}

impl Held {
    fn find(&mut self, number: u64) -> Option<Arc<dyn File>> {
        self.clock += 1;
        let used = self.files.get_mut(&number)?;
        used.last = self.clock;
        Some(Arc::clone(&used.file))
    }

    fn keep(&mut self, number: u64, file: Arc<dyn File>, files_max: usize) {
        self.shrink(files_max - 1);
        self.files.insert(number, Used { file, last: self.clock });
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
