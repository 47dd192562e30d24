//! A queue that does its work by the files' own blocking calls.
//!
//! It serves devices whose storage completes immediately (memory) and devices for which the
//! operating system offers nothing better. Requests are done in the order in which they came, while
//! the caller waits, so nothing overlaps.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::doorbell::Doorbell;
use crate::error::Result;
use crate::queue::{Completion, Queue, Request, Work};

/// Requests that were taken and not yet done.
pub(crate) struct BlockingQueue {
    held: VecDeque<Request>,
    depth: usize,
    bell: Option<Arc<Doorbell>>,
}

impl BlockingQueue {
    /// A queue with room for `depth` requests, at least one.
    pub(crate) fn new(depth: usize) -> Self {
        let depth = depth.max(1);
        Self { held: VecDeque::with_capacity(depth), depth, bell: None }
    }

    fn complete(&mut self, count: usize, into: &mut Vec<Completion>) -> usize {
        let count = count.min(self.held.len());
        into.extend(self.held.drain(..count).map(perform));
        if !self.held.is_empty() {
            self.tell();
        }
        count
    }

    /// Rings the bell: requests that are held complete at the next `poll` or `wait`.
    fn tell(&self) {
        self.bell.iter().for_each(|bell| bell.ring());
    }
}

/// Does one request by its file's blocking calls.
pub fn perform(request: Request) -> Completion {
    let Request { tag, file, work } = request;
    match work {
        Work::Read { offset, mut buffer } => {
            let result = file.read_at(offset, &mut buffer);
            Completion { tag, buffer: Some(buffer), result }
        }
        Work::Write { offset, buffer } => {
            let result = file.write_at(offset, &buffer);
            Completion { tag, buffer: Some(buffer), result }
        }
        Work::Sync(kind) => Completion { tag, buffer: None, result: file.sync(kind) },
    }
}

impl Queue for BlockingQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        if self.held.len() == self.depth {
            return Err(request);
        }
        self.held.push_back(request);
        if self.held.len() == 1 {
            self.tell();
        }
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        Ok(self.complete(usize::MAX, into))
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        Ok(self.complete(count, into))
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }
}

impl Drop for BlockingQueue {
    fn drop(&mut self) {
        self.complete(usize::MAX, &mut Vec::new());
    }
}
