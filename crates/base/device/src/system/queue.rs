//! A queue of the operating system's device: an io_uring, or blocking calls while there is none.
//!
//! A ring takes a descriptor and kernel memory. If a process has none left, reads and writes must
//! continue. The queue then does its requests by blocking calls. From time to time it tries to make
//! the ring, when nothing is in flight.
//!
//! Making a ring takes longer than a read, so a few that are idle are kept for the whole process.
//! If a descriptor is missing for anything else, they are closed.

use std::sync::Arc;

use sync::locks::Mutex;

use crate::blocking_queue::BlockingQueue;
use crate::doorbell::Doorbell;
use crate::error::Result;
use crate::limit::close_when_out_of_files;
use crate::process::PerProcess;
use crate::queue::{Completion, Queue, Request};

use super::uring::UringQueue;

/// Requests that are done by blocking calls before the queue tries again to make a ring.
const REQUESTS_BEFORE_RETRY: u32 = 256;

/// Idle rings that a process keeps, at most.
const SPARE_MAX: usize = 8;

/// Idle rings, each with its depth. Nothing rings a bell for them.
static SPARE: PerProcess<Mutex<Spare>> = PerProcess::new(|| {
    close_when_out_of_files(|| SPARE.lock().clear());
    Mutex::default()
});
type Spare = Vec<(usize, Box<UringQueue>)>;

/// A ring, or its substitute.
pub(super) struct SystemQueue {
    way: Way,
    depth: usize,
    /// Whether the ring has a bell, which it keeps.
    has_bell: bool,
}

/// How requests are done.
enum Way {
    Ring(Box<UringQueue>),
    Blocking {
        queue: BlockingQueue,
        bell: Option<Arc<Doorbell>>,
        /// Requests since the last attempt to make a ring.
        requests: u32,
    },
}

impl SystemQueue {
    /// Makes a queue with room for `depth` requests.
    pub(super) fn new(depth: usize) -> Self {
        let ring = take_spare(depth).map_or_else(|| UringQueue::new(depth).map(Box::new), Ok);
        let way = ring.map_or_else(
            |_| Way::Blocking { queue: BlockingQueue::new(depth), bell: None, requests: 0 },
            Way::Ring,
        );
        Self { way, depth, has_bell: false }
    }

    fn queue(&mut self) -> &mut dyn Queue {
        match &mut self.way {
            Way::Ring(queue) => &mut **queue,
            Way::Blocking { queue, .. } => queue,
        }
    }

    /// Counts a request, and makes the ring if it is time to try again and nothing is in flight.
    fn count_request(&mut self) {
        let Way::Blocking { queue, bell, requests } = &mut self.way else { return };
        *requests += 1;
        if *requests <= REQUESTS_BEFORE_RETRY || queue.in_flight() > 0 {
            return;
        }
        *requests = 0;
        let Ok(mut ring) = UringQueue::new(self.depth) else { return };
        if bell.as_ref().is_none_or(|bell| ring.ring(bell).is_ok()) {
            self.way = Way::Ring(Box::new(ring));
        }
    }
}

impl Queue for SystemQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        self.count_request();
        self.queue().submit(request.on_open_file())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        self.queue().poll(into)
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        self.queue().wait(count, into)
    }

    fn in_flight(&self) -> usize {
        match &self.way {
            Way::Ring(queue) => queue.in_flight(),
            Way::Blocking { queue, .. } => queue.in_flight(),
        }
    }

    fn ring(&mut self, new_bell: &Arc<Doorbell>) -> Result<()> {
        if let Way::Blocking { bell, .. } = &mut self.way {
            *bell = Some(Arc::clone(new_bell));
        }
        self.has_bell = true;
        self.queue().ring(new_bell)
    }
}

impl Drop for SystemQueue {
    fn drop(&mut self) {
        let none = Way::Blocking { queue: BlockingQueue::new(1), bell: None, requests: 0 };
        let Way::Ring(ring) = std::mem::replace(&mut self.way, none) else { return };
        if ring.in_flight() > 0 || self.has_bell {
            return;
        }
        let mut spare = SPARE.lock();
        if spare.len() < SPARE_MAX {
            spare.push((self.depth, ring));
        }
    }
}

/// Takes an idle ring of this depth.
fn take_spare(depth: usize) -> Option<Box<UringQueue>> {
    let mut spare = SPARE.lock();
    let at = spare.iter().position(|(known, _)| *known == depth)?;
    Some(spare.swap_remove(at).1)
}

#[cfg(test)]
mod tests {
    //! A queue that could not have a ring gets one later.

    use super::*;
    use crate::buffer::Buffer;
    use crate::file::{File, Mode};
    use crate::memory;
    use crate::process::testing::Child;
    use crate::queue::Work;

    #[test]
    fn a_ring_is_made_as_soon_as_it_can_be() {
        if UringQueue::new(1).is_err() {
            return;
        }
        let way = Way::Blocking { queue: BlockingQueue::new(2), bell: None, requests: 0 };
        let mut queue = SystemQueue { way, depth: 2, has_bell: false };
        let file = memory().open("file", Mode::CreateNew).unwrap();
        file.write_at(0, &[1; 8]).unwrap();
        let mut done = Vec::new();
        for tag in 0..=u64::from(REQUESTS_BEFORE_RETRY) {
            assert!(matches!(queue.way, Way::Blocking { .. }), "{tag}");
            let work = Work::Read { offset: 0, buffer: Buffer::zeroed(8) };
            assert!(queue.submit(Request { tag, file: file.clone(), work }).is_ok());
            assert_eq!(queue.wait(1, &mut done).unwrap(), 1);
        }
        assert!(matches!(queue.way, Way::Ring(_)));
        assert!(done.iter().all(|one| one.buffer.as_deref() == Some(&[1; 8][..])));
    }

    fn read_of(file: &Arc<dyn File>, depth: usize) -> String {
        let mut queue = SystemQueue::new(depth);
        let work = Work::Read { offset: 0, buffer: Buffer::zeroed(8) };
        assert!(queue.submit(Request { tag: 1, file: file.clone(), work }).is_ok());
        let mut done = Vec::new();
        assert_eq!(queue.wait(1, &mut done).unwrap(), 1);
        format!("{:?}", done[0].buffer.as_deref())
    }

    /// The rings that a process keeps are shared with no other process.
    #[test]
    fn a_child_takes_no_idle_ring_of_its_parent() {
        // No other test uses this depth, so the ring stays idle until the fork.
        const DEPTH: usize = 13;
        let dir = tempfile::tempdir().unwrap();
        let device = crate::open(dir.path(), crate::Options::default()).unwrap();
        let file = device.open("file", Mode::CreateNew).unwrap();
        file.write_at(0, &[1; 8]).unwrap();
        let read = read_of(&file, DEPTH);
        let child = Child::fork(|_| {
            let device = crate::open(dir.path(), crate::Options::default()).unwrap();
            let file = device.open("file", Mode::Read).unwrap();
            let parents = take_spare(DEPTH).is_some();
            let read = read_of(&file, DEPTH);
            format!("{parents} {read} {}", take_spare(DEPTH).is_some())
        });
        assert_eq!(child.join(), format!("false {read} true"), "it makes its own, and keeps that");
        assert_eq!(read_of(&file, DEPTH), read, "the parent's ring works on");
    }
}
