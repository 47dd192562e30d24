//! How many reads of old values are under way at once: by counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use device::{
    Accounting, Completion, Device, Doorbell, Entry, FaultDevice, File, Mode, OperationKind, Queue,
    Request, Space, Work,
};
use futures::executor::block_on;

use super::{Held, KEYS, filled, pending, read};

/// A device that knows how many reads its queues had in flight at most, and is as slow as its users let it be.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Device>,
    most: Arc<AtomicUsize>,
}

struct CountingQueue {
    inner: Box<dyn Queue>,
    most: Arc<AtomicUsize>,
}

impl Queue for CountingQueue {
    fn submit(&mut self, request: Request) -> Result<(), Request> {
        let is_read = matches!(request.work, Work::Read { .. });
        self.inner.submit(request)?;
        if is_read {
            self.most.fetch_max(self.inner.in_flight(), SeqCst);
        }
        Ok(())
    }

    /// As on a slow device: nothing is there before somebody waits for it.
    fn poll(&mut self, _into: &mut Vec<Completion>) -> device::Result<usize> {
        Ok(0)
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> device::Result<usize> {
        self.inner.wait(count, into)
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> device::Result<()> {
        self.inner.ring(bell)
    }
}

impl Device for Counting {
    fn open(&self, name: &str, mode: Mode) -> device::Result<Arc<dyn File>> {
        self.inner.open(name, mode)
    }

    fn queue(&self, depth: usize) -> device::Result<Box<dyn Queue>> {
        let (inner, most) = (self.inner.queue(depth)?, Arc::clone(&self.most));
        Ok(Box::new(CountingQueue { inner, most }))
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
        let (inner, most) = (self.inner.subdevice(dir)?, Arc::clone(&self.most));
        Ok(Arc::new(Self { inner, most }))
    }
}

/// While the first read is held up, the others are handed in: all of them are then under way together.
#[test]
fn updates_of_cold_keys_have_their_reads_under_way_together() {
    const UPDATES: usize = 100;
    for journaled in [false, true] {
        let most = Arc::new(AtomicUsize::new(0));
        let faults = FaultDevice::new(device::memory());
        let inner = Arc::clone(&faults) as Arc<dyn Device>;
        let device: Arc<dyn Device> = Arc::new(Counting { inner, most: Arc::clone(&most) });
        let (db, space) = filled(&device, journaled);
        most.store(0, SeqCst);
        let before = faults.count(Some(OperationKind::Read));
        let held = Held::new(&faults, OperationKind::Read);
        let futures = pending(&space, 0, UPDATES);
        assert_eq!(futures[UPDATES - 1].0, UPDATES as u64 - 1, "the oldest are all on disk");
        drop(held);
        for (at, future) in futures {
            assert!(block_on(future).unwrap().is_some());
            assert_eq!(read(&space, at), at + 1);
        }
        let reads = faults.count(Some(OperationKind::Read)) - before;
        assert_eq!(reads, UPDATES as u64, "one for each");
        let most = most.load(SeqCst);
        // Those that the thread had taken by then, or all the others.
        assert!(most >= UPDATES / 2, "{most} at once at most");
        assert_eq!(read(&space, KEYS - 1), KEYS - 1);
        db.close().unwrap();
    }
}
