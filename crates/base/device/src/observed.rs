//! A device that keeps the failures of operations on it, so that the user of two devices can find
//! out which of them failed.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Device;
use crate::accounting::Accounting;
use crate::blocking_queue::BlockingQueue;
use crate::error::{Error, Result};
use crate::file::{Entry, File, Mode, Space, SyncKind};
use crate::queue::Queue;

/// Different failures that are kept.
const KEPT_MAX: usize = 256;

/// A device that passes everything on and keeps the failures, also of its files and subdevices.
#[derive(Debug)]
pub struct ObservedDevice {
    inner: Arc<dyn Device>,
    failures: Failures,
}

/// The failures, each once.
#[derive(Clone, Debug, Default)]
struct Failures(Arc<Mutex<Vec<Error>>>);

impl Failures {
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT_MAX && !kept.contains(error) {
                kept.push(error.clone());
            }
        })
    }
}

impl ObservedDevice {
    /// Observes `inner` from now on.
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self { inner, failures: Failures::default() })
    }

    /// Returns whether an operation here has failed with `error`. No room is one failure whatever
    /// file is named: stores name another one, or report it as a failure for good.
    pub fn has_failed_by(&self, error: &Error) -> bool {
        self.failures
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|kept| kept == error || (is_for_want_of_room(kept) && is_for_want_of_room(error)))
    }

    fn wrap(&self, opened: Result<Arc<dyn File>>) -> Result<Arc<dyn File>> {
        let (inner, failures) = (self.failures.note(opened)?, self.failures.clone());
        Ok(Arc::new(ObservedFile { inner, failures }))
    }
}

fn is_for_want_of_room(error: &Error) -> bool {
    let number = rustix::io::Errno::NOSPC.raw_os_error();
    matches!(error, Error::NoSpace { .. })
        || matches!(error, Error::Io { code, .. } if *code == number)
}

impl Device for ObservedDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.wrap(self.inner.open(name, mode))
    }

    fn open_blocks(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.wrap(self.inner.open_blocks(name, mode))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        // By the files' own calls, whose failures are kept.
        Ok(Box::new(BlockingQueue::new(depth)))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.failures.note(self.inner.create_dir(name))
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.failures.note(self.inner.list(dir))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.failures.note(self.inner.exists(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.failures.note(self.inner.rename(from, to))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.failures.note(self.inner.link(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.failures.note(self.inner.remove(name))
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.failures.note(self.inner.remove_dir(name))
    }

    fn remove_empty_dir(&self, name: &str) -> Result<bool> {
        self.failures.note(self.inner.remove_empty_dir(name))
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.failures.note(self.inner.sync_dir(dir))
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        self.failures.note(self.inner.lock(name))
    }

    fn lock_shared(&self, name: &str) -> Result<Arc<dyn File>> {
        self.failures.note(self.inner.lock_shared(name))
    }

    fn space(&self) -> Result<Space> {
        self.failures.note(self.inner.space())
    }

    fn accounting(&self) -> &Accounting {
        self.inner.accounting()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        let (inner, failures) =
            (self.failures.note(self.inner.subdevice(dir))?, self.failures.clone());
        Ok(Arc::new(Self { inner, failures }))
    }
}

#[derive(Debug)]
struct ObservedFile {
    inner: Arc<dyn File>,
    failures: Failures,
}

impl File for ObservedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.failures.note(self.inner.read_at(offset, into))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.failures.note(self.inner.write_at(offset, bytes))
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.failures.note(self.inner.sync(kind))
    }

    fn len(&self) -> Result<u64> {
        self.failures.note(self.inner.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.failures.note(self.inner.set_len(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.failures.note(self.inner.allocate(offset, len))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.failures.note(self.inner.punch(offset, len))
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}
