//! A queue of the simulated disk, whose completions come late and out of order.
//!
//! Each request draws the number of polls for which it is under way. Its effect happens when it
//! completes, so a sync covers requests that completed before it was submitted and nothing else. A
//! write that is under way may be found done, in part or not at all, by a crash. A read's buffer is
//! poisoned until it completes.

use std::any::Any;
use std::sync::Arc;

use sync::locks::Mutex;

use crate::blocking_queue::perform;
use crate::doorbell::Doorbell;
use crate::error::Result;
use crate::file::File;
use crate::queue::{Completion, Queue, Request, Work};

use super::disk::{Disk, POISON};
use super::event::Event;
use super::file::SimulatedFile;

pub(super) struct SimulatedQueue {
    disk: Arc<Mutex<Disk>>,
    depth: usize,
    polls: u64,
    /// In the order in which they came.
    held: Vec<Held>,
    bell: Option<Arc<Doorbell>>,
}

struct Held {
    request: Request,
    /// The poll at which it completes.
    due: u64,
    /// The disk's sequence number when it was submitted.
    submitted: u64,
    /// The ticket of its [`Event::Started`], if there was one.
    ticket: Option<u64>,
}

impl SimulatedQueue {
    pub(super) fn new(disk: Arc<Mutex<Disk>>, depth: usize) -> Self {
        Self { disk, depth: depth.max(1), polls: 0, held: Vec::new(), bell: None }
    }

    /// The simulated file behind a request, if it is one of this queue's disk.
    fn ours<'a>(&self, file: &'a Arc<dyn File>) -> Option<&'a SimulatedFile> {
        let file: &dyn Any = &**file;
        file.downcast_ref().filter(|file: &&SimulatedFile| Arc::ptr_eq(&file.disk, &self.disk))
    }

    fn complete(&mut self, held: Held) -> Completion {
        let Held { request, submitted, ticket, .. } = held;
        let Some(file) = self.ours(&request.file) else { return perform(request) };
        match request.work {
            Work::Sync(kind) => {
                let result = file.sync_until(kind, submitted);
                Completion { tag: request.tag, buffer: None, result }
            }
            Work::Read { .. } | Work::Write { .. } => {
                let completion = perform(request);
                if let Some(ticket) = ticket {
                    self.disk.lock().happen(Event::Ended { ticket });
                }
                completion
            }
        }
    }

    /// Completes the requests that are due by the poll `polls`.
    fn advance(&mut self, polls: u64, into: &mut Vec<Completion>) -> usize {
        self.polls = self.polls.max(polls);
        let mut due: Vec<Held> = Vec::new();
        let mut later = Vec::with_capacity(self.held.len());
        for held in self.held.drain(..) {
            if held.due <= self.polls { due.push(held) } else { later.push(held) }
        }
        self.held = later;
        // Stable: of requests due at the same poll, the first submitted comes first.
        due.sort_by_key(|held| held.due);
        let count = due.len();
        for held in due {
            let completion = self.complete(held);
            into.push(completion);
        }
        if !self.held.is_empty() {
            // It is the polls that it is late by.
            self.tell();
        }
        count
    }

    fn tell(&self) {
        self.bell.iter().for_each(|bell| bell.ring());
    }
}

impl Queue for SimulatedQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        let mut request = request.on_open_file();
        if self.held.len() == self.depth {
            return Err(request);
        }
        if let Work::Read { buffer, .. } = &mut request.work {
            buffer.fill(POISON);
        }
        let mut disk = self.disk.lock();
        let latest = u64::from(disk.faults.latency_polls_max);
        let latency = if latest == 0 { 0 } else { disk.dice.below(latest + 1) };
        let submitted = disk.state.sequence;
        let ticket = match (self.ours(&request.file), &request.work) {
            (Some(file), Work::Write { offset, buffer }) => disk.start(file.id(), *offset, buffer),
            _ => None,
        };
        drop(disk);
        self.held.push(Held { request, due: self.polls + latency, submitted, ticket });
        self.tell();
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        Ok(self.advance(self.polls + 1, into))
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        let count = count.min(self.held.len());
        let mut done = 0;
        while done < count {
            let next = self.held.iter().map(|held| held.due).min().unwrap_or(self.polls);
            done += self.advance(next.max(self.polls + 1), into);
        }
        Ok(done)
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }
}

impl Drop for SimulatedQueue {
    fn drop(&mut self) {
        self.advance(u64::MAX, &mut Vec::new());
    }
}
