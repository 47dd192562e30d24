//! The reads of the device by an opening by tags: one for each interval, many concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use device::{
    Accounting, Completion, Device, Doorbell, Entry, File, Mode, Queue, Request, Result, Space,
};
use engine::{Engine, NoJournal};

use super::stores::{Bench, key, small};
use crate::Options;
use crate::recover::DEPTH;

/// A device that notes the most operations that a queue of it had in flight.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Device>,
    most: Arc<AtomicUsize>,
}

struct WatchedQueue {
    inner: Box<dyn Queue>,
    most: Arc<AtomicUsize>,
}

impl Queue for WatchedQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        self.inner.submit(request)?;
        self.most.fetch_max(self.inner.in_flight(), Relaxed);
        Ok(())
    }
    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        self.inner.poll(into)
    }
    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        self.inner.wait(count, into)
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.inner.ring(bell)
    }
}

impl Device for Watched {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.inner.open(name, mode)
    }
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        let (inner, most) = (self.inner.queue(depth)?, Arc::clone(&self.most));
        Ok(Box::new(WatchedQueue { inner, most }))
    }
    fn create_dir(&self, name: &str) -> Result<()> {
        self.inner.create_dir(name)
    }
    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.inner.list(dir)
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.link(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn remove_dir(&self, name: &str) -> Result<()> {
        self.inner.remove_dir(name)
    }
    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        self.inner.lock(name)
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
        let (inner, most) = (self.inner.subdevice(dir)?, Arc::clone(&self.most));
        Ok(Arc::new(Self { inner, most }))
    }
}

#[test]
fn the_keys_of_intervals_are_read_once_each_and_many_at_once() {
    let most = Arc::new(AtomicUsize::new(0));
    let device: Arc<dyn Device> =
        Arc::new(Watched { inner: device::memory(), most: Arc::clone(&most) });
    let open = || {
        let options = Options { interval_bytes: 256, ..small() };
        let (device, barrier) = (Arc::clone(&device), Arc::new(NoJournal));
        Bench::with(device, barrier, 1 << 20, options).expect("opens")
    };
    let bench = open();
    let long = |number: u64| [key(number), vec![b'-'; 300]].concat();
    for number in 0..2000 {
        bench.put(&key(number), &[7; 60]);
        if number % 100 == 0 {
            // Longer than the bytes that are read first.
            bench.put(&long(number), b"long");
        }
    }
    bench.flush();
    let pairs = bench.pairs();
    bench.store.close().expect("closes");
    most.store(0, Relaxed);
    let reads = |from: u64| device.accounting().counts().read_ops - from;
    let tree_reads = {
        let before = reads(0);
        let space = flexspace::space::FlexSpace::open(device.clone(), Default::default());
        space.expect("opens").close().expect("closes");
        reads(before)
    };
    let before = reads(0);
    let bench = open();
    let (keys, reads) = (bench.detail("opening_keys"), reads(before));
    assert!(keys > 400, "{keys} intervals");
    assert!(reads >= keys, "{reads} reads for {keys} intervals");
    let again = reads.saturating_sub(keys + tree_reads);
    assert!(again < keys / 8, "{again} of {keys} intervals were read twice");
    // The device gets them an eighth at a time, and this one completes them then.
    assert_eq!(most.load(Relaxed), DEPTH / 8);
    assert_eq!(bench.pairs(), pairs);
}
