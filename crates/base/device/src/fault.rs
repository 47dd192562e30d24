//! A device over another one that fails chosen operations, or has something done before them.
//!
//! It counts operations by kind, so that a harness can run a workload once to learn how many there
//! are, and then once for each of them with that one failing:
//!
//! ```
//! use thermocline_device::*;
//! # fn workload(device: &dyn Device) -> Result<()> {
//! #     device.open("a", Mode::CreateNew)?.write_at(0, b"bytes")?;
//! #     device.sync_dir("")
//! # }
//! let device = FaultDevice::new(memory());
//! workload(&*device)?;
//! for nth in 1..=device.count(None) {
//!     let device = FaultDevice::new(memory());
//!     device.fail(Fault { kind: None, nth, failure: Failure::Io, lasting: Lasting::Once });
//!     assert!(workload(&*device).is_err(), "the workload reports every failure");
//! }
//! # Ok::<(), Error>(())
//! ```

mod file;
mod plan;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use sync::locks::Mutex;

use crate::Device;
use crate::accounting::Accounting;
use crate::blocking_queue::BlockingQueue;
use crate::error::Result;
use crate::file::{Entry, File, Mode, Space};
use crate::name::split;
use crate::queue::Queue;

use file::FaultFile;
use plan::{Interposed, Plan};
use queue::FaultQueue;

pub use plan::{Failure, Fault, Lasting, OperationKind};

/// A wrapper of another device whose operations fail when a test asks for it.
#[derive(Debug)]
pub struct FaultDevice {
    inner: Arc<dyn Device>,
    plan: Arc<Plan>,
    /// Plans of directories, by name, for the subdevices that are made of them.
    plans_of_dirs: Arc<Mutex<BTreeMap<String, Arc<Plan>>>>,
}

impl FaultDevice {
    /// A wrapper of `inner` in which nothing fails yet.
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self { inner, plan: Arc::default(), plans_of_dirs: Arc::default() })
    }

    /// Makes an operation fail on subdevices of `dir` that are made after the first such call.
    /// Their operations are counted apart from those of this device, from 1 on.
    pub fn fail_in(&self, dir: &str, fault: Fault) {
        self.plans_of_dirs.lock().entry(dir.to_owned()).or_default().add(fault);
    }

    /// Makes an operation fail. Several faults may be set.
    pub fn fail(&self, fault: Fault) {
        self.plan.add(fault);
    }

    /// Has `action` done once, before the next operation of `kind` that the calling thread does
    /// here: so a test puts another thread's possible work exactly there.
    pub fn interpose(&self, kind: OperationKind, action: impl FnOnce() + Send + 'static) {
        let (thread, action) = (Some(std::thread::current().id()), Box::new(action));
        self.plan.interpose(Interposed { thread, kind, action });
    }

    /// The same before the next operation of `kind` on any thread: so a test delays work that is
    /// done in the background.
    pub fn interpose_anywhere(&self, kind: OperationKind, action: impl FnOnce() + Send + 'static) {
        self.plan.interpose(Interposed { thread: None, kind, action: Box::new(action) });
    }

    /// From now on each operation waits before it begins, until [`FaultDevice::go_on`]. So a test
    /// shows that other work needs no operation to end.
    pub fn park(&self) {
        self.plan.park();
    }

    /// Resumes the operations that [`FaultDevice::park`] has stopped.
    pub fn go_on(&self) {
        self.plan.go_on();
    }

    /// Returns the number of operations that wait now.
    pub fn parked(&self) -> u64 {
        self.plan.parked()
    }

    /// Forgets all faults that were set.
    pub fn heal(&self) {
        self.plan.clear();
        self.plans_of_dirs.lock().values().for_each(|plan| plan.clear());
    }

    /// How many operations of a kind, or of all kinds, there were so far, failed ones included.
    /// Opening, making a queue, reading, writing, resizing, syncing, listing, asking for the
    /// existence of a name and changes of names count; asking for lengths and for room does not.
    pub fn count(&self, kind: Option<OperationKind>) -> u64 {
        self.plan.count(kind)
    }

    /// How many operations were made to fail.
    pub fn failed(&self) -> u64 {
        let in_dirs: u64 = self.plans_of_dirs.lock().values().map(|plan| plan.failed()).sum();
        self.plan.failed() + in_dirs
    }

    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultFile { inner, device: self.inner.clone(), plan: self.plan.clone() })
    }
}

impl Device for FaultDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.plan.check(OperationKind::Open, name)?;
        Ok(self.wrap(self.inner.open(name, mode)?))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        let inner = match self.plan.strike(OperationKind::Queue, "") {
            // As the system's device does.
            Some((Failure::OutOfFiles, _)) => Box::new(BlockingQueue::new(depth)),
            Some((_, error)) => return Err(error),
            None => self.inner.queue(depth)?,
        };
        Ok(Box::new(FaultQueue::new(inner, self.plan.clone(), depth)))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.plan.check(OperationKind::CreateDir, name)?;
        self.inner.create_dir(name)
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.plan.check(OperationKind::List, dir)?;
        self.inner.list(dir)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.plan.check(OperationKind::Exists, name)?;
        self.inner.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.plan.check(OperationKind::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn rename_synced(&self, from: &str, to: &str) -> Result<()> {
        self.plan.check(OperationKind::Rename, from)?;
        let (dir, _) = split(to);
        match self.plan.strike(OperationKind::SyncDir, dir) {
            None => self.inner.rename_synced(from, to),
            Some((Failure::OutOfFiles, error)) => Err(error),
            Some((_, error)) => {
                self.accounting().note_failure();
                self.inner.rename(from, to).and(Err(error))
            }
        }
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.plan.check(OperationKind::Link, to)?;
        self.inner.link(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.plan.check(OperationKind::Remove, name)?;
        self.inner.remove(name)
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.plan.check(OperationKind::Remove, name)?;
        self.inner.remove_dir(name)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.accounting().ended(self.plan.check(OperationKind::SyncDir, dir))?;
        self.inner.sync_dir(dir)
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        self.plan.check(OperationKind::Open, name)?;
        Ok(self.wrap(self.inner.lock(name)?))
    }

    fn space(&self) -> Result<Space> {
        self.inner.space()
    }

    fn accounting(&self) -> &Accounting {
        self.inner.accounting()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.plan.check(OperationKind::CreateDir, dir)?;
        let of_dir = self.plans_of_dirs.lock().get(dir).cloned();
        let plan = of_dir.unwrap_or_else(|| self.plan.clone());
        Ok(Arc::new(Self {
            inner: self.inner.subdevice(dir)?,
            plan,
            plans_of_dirs: Arc::default(),
        }))
    }
}
