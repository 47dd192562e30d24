//! Reads of the space that wait for the device beside each other, on one queue.
//!
//! A read wants a run of blocks for each extent. These are asked for as far as there is room on the
//! queue, the rest as others come.
//!
//! # Invariants
//! - R1. A read has a place as long as one of its runs may be on the queue; a run's tag is its read's
//!   place and its index.
//! - R2. One run is on the queue if any is wanted.
//! - R3. The budget knows of every buffer that is read into.

use std::collections::VecDeque;
use std::sync::Arc;

use device::{Buffer, Completion, Device, Doorbell, Queue, Request, Work};
use engine::Result;
use flexspace::space::{self, Reading};

use crate::error::from_space;
use memory_budget::{Account, MemoryBudget};

/// Bytes of runs on the queue at once, or one run that is longer.
const BYTES_MAX: usize = 4 << 20;
/// Runs on the queue at once.
pub(crate) const DEPTH: usize = 64;

/// Reads of one thread, each with a `T` that says whose it is.
pub(crate) struct Reads<T> {
    queue: Option<Box<dyn Queue>>,
    bell: Option<Arc<Doorbell>>,
    places: Vec<Option<Flying<T>>>,
    pending: usize,
    /// Runs that wait for room on the queue, the first to come first.
    held_up: VecDeque<(usize, usize)>,
    /// Bytes of the runs on the queue, and of all reads.
    flying_bytes: usize,
    read_bytes: usize,
    /// The device may not have heard of the last runs.
    is_held_back: bool,
    completions: Vec<Completion>,
    /// Behind the queue, which is dropped first and waits for its buffers.
    charge: Account,
}

struct Flying<T> {
    reading: Reading,
    whose: T,
    /// Runs that have not come.
    left: usize,
    failure: Option<space::Error>,
}

/// Who is told of a read that has ended.
pub(crate) type Tell<'a, T> = dyn FnMut(T, Result<Vec<u8>>) + 'a;

impl<T> Reads<T> {
    /// None yet; their buffers are charged to `memory`.
    pub(crate) fn new(memory: &Arc<MemoryBudget>) -> Self {
        Self {
            queue: None,
            bell: None,
            places: Vec::new(),
            pending: 0,
            held_up: VecDeque::new(),
            flying_bytes: 0,
            read_bytes: 0,
            is_held_back: false,
            completions: Vec::new(),
            charge: Account::new(memory),
        }
    }

    /// How many have not ended.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Bytes of those that have not ended.
    pub(crate) fn bytes(&self) -> usize {
        self.read_bytes
    }

    /// Has `bell` rung when [`Reads::complete`] has something to do.
    pub(crate) fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        if let Some(queue) = &mut self.queue {
            queue.ring(bell)?;
        }
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }

    /// Begins a read that wants something of the device, and does not wait for it.
    pub(crate) fn begin(&mut self, device: &dyn Device, reading: Reading, whose: T) -> Result<()> {
        if self.queue.is_none() {
            let mut queue = device.queue(DEPTH)?;
            if let Some(bell) = &self.bell {
                queue.ring(bell)?;
            }
            self.queue = Some(queue);
        }
        let left = reading.wanted().len();
        debug_assert!(left > 0, "who needs no device need not wait for it");
        self.read_bytes += reading.len();
        let place = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        let flying = Some(Flying { reading, whose, left, failure: None });
        match self.places.get_mut(place) {
            Some(free) => *free = flying,
            None => self.places.push(flying),
        }
        self.pending += 1;
        self.held_up.extend((0..left).map(|run| (place, run)));
        self.fly_on();
        Ok(())
    }

    /// Tells of the reads that have ended, and where `waits`, not before there was one, if any is
    /// pending. Answers how many there were.
    pub(crate) fn complete(&mut self, waits: bool, tell: &mut Tell<'_, T>) -> Result<usize> {
        let mut ended = 0;
        // Also what a panic of who was told has left (R2).
        self.fly_on();
        while self.pending > 0 {
            let Some(queue) = &mut self.queue else { break };
            if waits && self.completions.is_empty() {
                queue.wait(1, &mut self.completions)?;
            } else {
                queue.poll(&mut self.completions)?;
            }
            self.is_held_back = false;
            while let Some(completion) = self.completions.pop() {
                ended += usize::from(self.land(completion, tell));
            }
            self.fly_on();
            if !waits || ended > 0 {
                break;
            }
        }
        if self.is_held_back
            && let Some(queue) = &mut self.queue
        {
            queue.poll(&mut self.completions)?;
            self.is_held_back = false;
        }
        Ok(ended)
    }

    /// Gives a run to its read; answers whether that has ended.
    fn land(&mut self, completion: Completion, tell: &mut Tell<'_, T>) -> bool {
        let (place, run) = ((completion.tag >> 32) as usize, completion.tag as u32 as usize);
        let Some(slot) = self.places.get_mut(place) else { return false };
        let Some(flying) = slot else { return false };
        self.flying_bytes -= flying.reading.wanted().get(run).map_or(0, |wanted| wanted.bytes);
        let blocks = completion.buffer.as_deref().unwrap_or_default();
        let given = flying.reading.give(run, completion.result.map(|()| blocks));
        flying.failure = flying.failure.take().or(given.err());
        flying.left -= 1;
        let has_ended = flying.left == 0;
        drop(completion.buffer);
        if has_ended && let Some(Flying { reading, whose, failure, .. }) = slot.take() {
            self.pending -= 1;
            self.read_bytes -= reading.len();
            tell(whose, failure.map_or_else(|| Ok(reading.into_bytes()), |it| Err(from_space(it))));
        }
        self.charge.set((self.flying_bytes + self.read_bytes) as u64);
        has_ended
    }

    /// Has the runs read that there is room for.
    fn fly_on(&mut self) {
        let Some(queue) = &mut self.queue else { return };
        while let Some(&(place, run)) = self.held_up.front()
            && let Some(Some(Flying { reading, .. })) = self.places.get(place)
            && let Some(wanted) = reading.wanted().get(run)
        {
            let is_full = queue.in_flight() >= DEPTH;
            if is_full || self.flying_bytes > 0 && self.flying_bytes + wanted.bytes > BYTES_MAX {
                break;
            }
            self.held_up.pop_front();
            self.flying_bytes += wanted.bytes;
            let work = Work::Read { offset: wanted.offset, buffer: Buffer::zeroed(wanted.bytes) };
            let tag = (place as u64) << 32 | run as u64;
            let request = Request { tag, file: Arc::clone(reading.file()), work };
            let submitted = queue.submit(request);
            assert!(submitted.is_ok(), "fewer are in flight than the queue has room for");
            self.is_held_back = true;
        }
        self.charge.set((self.flying_bytes + self.read_bytes) as u64);
    }
}
