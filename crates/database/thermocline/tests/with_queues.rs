//! A device whose queues a test makes. Another device does all other work.

use std::fmt;
use std::sync::Arc;

use device::{Accounting, Device, Entry, File, Mode, Queue, Space};

/// Makes a queue of that depth of the other device.
type Make = dyn Fn(&dyn Device, usize) -> device::Result<Box<dyn Queue>> + Send + Sync;

pub(crate) struct WithQueues {
    inner: Arc<dyn Device>,
    make: Arc<Make>,
}

impl WithQueues {
    pub(crate) fn on(
        inner: Arc<dyn Device>,
        make: impl Fn(&dyn Device, usize) -> device::Result<Box<dyn Queue>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, make: Arc::new(make) })
    }
}

impl fmt::Debug for WithQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithQueues").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Device for WithQueues {
    fn open(&self, name: &str, mode: Mode) -> device::Result<Arc<dyn File>> {
        self.inner.open(name, mode)
    }

    fn queue(&self, depth: usize) -> device::Result<Box<dyn Queue>> {
        (self.make)(&*self.inner, depth)
    }

    fn create_dir(&self, name: &str) -> device::Result<()> {
        self.inner.create_dir(name)
    }

    fn list(&self, dir: &str) -> device::Result<Vec<Entry>> {
        self.inner.list(dir)
    }

    fn exists(&self, name: &str) -> device::Result<bool> {
        self.inner.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> device::Result<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> device::Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, name: &str) -> device::Result<()> {
        self.inner.remove(name)
    }

    fn remove_dir(&self, name: &str) -> device::Result<()> {
        self.inner.remove_dir(name)
    }

    fn sync_dir(&self, dir: &str) -> device::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, name: &str) -> device::Result<Arc<dyn File>> {
        self.inner.lock(name)
    }

    fn space(&self) -> device::Result<Space> {
        self.inner.space()
    }

    fn accounting(&self) -> &Accounting {
        self.inner.accounting()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn subdevice(&self, dir: &str) -> device::Result<Arc<dyn Device>> {
        let (inner, make) = (self.inner.subdevice(dir)?, Arc::clone(&self.make));
        Ok(Arc::new(Self { inner, make }))
    }
}
