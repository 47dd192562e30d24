//! Counts how many reads of old values are under way at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use device::{Completion, Device, Doorbell, FaultDevice, OperationKind, Queue, Request, Work};
use futures::executor::block_on;

use super::{Held, KEYS, filled, pending, read};
use crate::with_queues::WithQueues;

/// Knows how many reads were in flight at most, and is as slow as its users let it be.
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

    /// As on a slow device: nothing completes before a caller waits for it.
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

/// While the first read is held up, the others are handed in: all of them are then under way
/// together.
#[test]
fn updates_of_cold_keys_have_their_reads_under_way_together() {
    const UPDATES: usize = 100;
    for journaled in [false, true] {
        let most = Arc::new(AtomicUsize::new(0));
        let faults = FaultDevice::new(device::memory());
        let inner = Arc::clone(&faults) as Arc<dyn Device>;
        let counted = Arc::clone(&most);
        let device: Arc<dyn Device> = WithQueues::on(inner, move |device, depth| {
            let (inner, most) = (device.queue(depth)?, Arc::clone(&counted));
            Ok(Box::new(CountingQueue { inner, most }))
        });
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
        // An update may begin again although its key was not written, and then reads again.
        let again = reads - UPDATES as u64;
        assert!(again <= UPDATES as u64 / 10, "{again} more than one for each");
        let most = most.load(SeqCst);
        // The updates that the thread had already taken, or all the others.
        assert!(most >= UPDATES / 2, "{most} at once at most");
        assert_eq!(read(&space, KEYS - 1), KEYS - 1);
        db.close().unwrap();
    }
}
