//! Many pending lookups of one thread, whose reads are in flight concurrently.
//!
//! 1. [`InFlightReads::start`] takes a lookup and submits the reads of its round to the queue of
//!    their source. Reads that do not fit wait in the order of their arrival.
//! 2. [`InFlightReads::complete`] takes completions from the queues and resumes the lookups. It
//!    submits the reads of their next rounds, and reports the lookups that have ended.
//!
//! # Invariants
//! - F1. A slot has one lookup until all reads of its round are complete. The tag of a read is
//!   its slot and its index in the round. A read is on its queue or among the reads that wait. If
//!   any read waits, one is on a queue.
//! - F2. A completion stays in the table until it was processed, and a slot is free before the
//!   caller learns of its lookup. So neither a failure of a queue nor a panic of the callback
//!   leaves a lookup that nothing completes.
//! - F3. The budget counts every buffer, also while the device has it.
//! - F4. Dropping the table waits for the reads that the device has. The lookups are cancelled;
//!   they have changed nothing.

mod lost;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use device::{Completion, Doorbell, Queue, Request, Work};
use engine::{Error, PendingLookup, Progress, ReadSource, Result};
use memory_budget::MemoryBudget;

use crate::buffers::{Borrowed, Buffers};
use lost::LostLookups;

/// Most lookups of one table: a longer queue keeps no device busier.
const DEPTH_MAX: usize = 4096;
/// Reads of a queue at least: a single lookup may have several in a round.
const QUEUE_DEPTH_MIN: usize = 32;
/// Sources whose queues are kept while they are idle.
const SOURCES_MAX: usize = 8;
/// Bytes of reads on the queues at the same time, or one read that is longer.
const BYTES_MAX: usize = 4 << 20;
/// Bytes of the reads of all lookups in the table, or one lookup that reads more. A lookup may have
/// memory of its own for these bytes.
const LOOKUP_BYTES_MAX: usize = 8 << 20;
/// The same as a share of the budget: one byte in this many. Buffers take up to twice the bytes of
/// their reads, and the engine makes room for them only after they were allocated.
const LOOKUP_PARTS: u64 = 64;
/// The share is at least this, with which reads of a block keep a device busy.
const LOOKUP_BYTES_MIN: usize = 256 << 10;
/// Reads are held back, so that one system call submits several, until they are this share of the
/// lookups in flight. A read that is alone is submitted immediately.
const HELD_BACK_SHARE: usize = 8;
/// Memory for values that is kept from call to call.
const VALUE_BYTES_KEPT: usize = 64 << 10;

/// The pending lookups of one thread, each with a tag of the caller's.
pub struct InFlightReads<T> {
    /// Before the buffers: dropping a queue waits for its reads.
    sources: Vec<Source>,
    slots: Vec<Option<InFlight<T>>>,
    free: Vec<usize>,
    lost: LostLookups,
    /// Slots and reads that wait for room on a queue, the oldest first.
    waiting: VecDeque<(usize, usize)>,
    /// Lookups that have failed with their queue, and are not reported yet.
    failed: VecDeque<(InFlight<T>, Error)>,
    /// Lookups that have not ended, without the failed ones.
    active: usize,
    /// Bytes of the reads of their rounds.
    lookup_bytes: usize,
    depth: usize,
    bell: Option<Arc<Doorbell>>,
    value: Vec<u8>,
    buffers: Buffers,
}

/// The queue of one source.
struct Source {
    source: Arc<dyn ReadSource>,
    queue: Box<dyn Queue>,
    /// Completions that are not processed yet.
    completions: Vec<Completion>,
    /// Reads that the device may not have yet.
    held_back: usize,
    /// Bytes of the reads on the queue, and their number.
    bytes: usize,
    reads: usize,
}

/// A lookup whose reads are in flight.
struct InFlight<T> {
    lookup: Box<dyn PendingLookup>,
    tag: T,
    /// Reads of this round that have not come back.
    missing: usize,
    /// Bytes of this round's reads.
    bytes: usize,
    /// The failure of a read of this round.
    failure: Option<Error>,
}

/// A lookup that has ended.
pub struct Done<'a> {
    /// The lookup, which can say whether the value is the key's newest.
    pub lookup: Box<dyn PendingLookup>,
    /// The value of the key, if it has one, or the failure of the lookup. The callback may take
    /// the memory.
    pub value: Result<Option<&'a mut Vec<u8>>>,
    /// The bytes of the read that completed last: arbitrary if that read failed, and none if the
    /// queue failed.
    pub bytes: &'a [u8],
}

/// The callback of [`InFlightReads::complete`]: called with the tag of a lookup that has ended, and
/// its result.
pub type EachDone<'a, T> = dyn FnMut(T, Done<'_>) + 'a;

impl<T> InFlightReads<T> {
    /// Makes a table for up to `depth` lookups, or fewer if their reads would take too large a part
    /// of `budget`, to which its buffers are charged. It makes its queues when they are needed.
    pub fn new(depth: usize, budget: &Arc<MemoryBudget>) -> Self {
        let depth = depth.clamp(1, DEPTH_MAX);
        Self::keeping(depth, depth, budget)
    }

    /// The same, with the number of buffers that it keeps for other reads.
    pub(crate) fn keeping(depth: usize, spare_max: usize, budget: &Arc<MemoryBudget>) -> Self {
        Self {
            sources: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            lost: LostLookups::default(),
            waiting: VecDeque::new(),
            failed: VecDeque::new(),
            active: 0,
            lookup_bytes: 0,
            depth,
            bell: None,
            value: Vec::new(),
            buffers: Buffers::new(spare_max, budget),
        }
    }

    /// Returns the number of lookups that are not reported yet.
    pub fn len(&self) -> usize {
        self.active + self.failed.len()
    }

    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether all lookups are reported.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the most bytes of the reads of all lookups. The budget may change at any time.
    fn lookup_bytes_max(&self) -> usize {
        let share = self.buffers.budget_bytes() / LOOKUP_PARTS;
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        share.clamp(LOOKUP_BYTES_MIN, LOOKUP_BYTES_MAX)
    }

    /// Returns whether there is no room for another lookup. [`InFlightReads::start`] may also
    /// refuse a lookup whose reads are long.
    pub fn is_full(&self) -> bool {
        self.len() >= self.depth
    }

    /// Has `bell` rung from now on whenever [`InFlightReads::complete`] may have something to
    /// report. It may be rung without need. For a table without lookups.
    ///
    /// # Errors
    /// The device's.
    pub fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        for source in &mut self.sources {
            source.queue.ring(bell)?;
        }
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }

    /// Begins the reads of a lookup. Never waits for a device. If no queue can be made, the lookup
    /// ends with that error, and [`InFlightReads::complete`] reports it.
    ///
    /// # Errors
    /// Returns the lookup and its tag if the table is full, by the number of its lookups or by the
    /// bytes that they read.
    pub fn start(
        &mut self,
        lookup: Box<dyn PendingLookup>,
        tag: T,
    ) -> std::result::Result<(), (Box<dyn PendingLookup>, T)> {
        let bytes = lookup.reads().iter().map(|read| read.len).sum::<usize>();
        let is_much = !self.is_empty() && self.lookup_bytes + bytes > self.lookup_bytes_max();
        if self.is_full() || is_much {
            return Err((lookup, tag));
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.begin_round(slot, InFlight { lookup, tag, missing: 0, bytes: 0, failure: None });
        self.submit_held_back(HELD_BACK_SHARE);
        self.ring_for_the_rest();
        Ok(())
    }

    /// Takes completions, resumes their lookups, and calls `done` for each lookup that has ended.
    /// Waits until one has ended if it `waits`. Returns the number of calls of `done`: 0 only if
    /// nothing is in flight, or if it does not wait.
    ///
    /// A source whose queue fails ends its lookups with that error. The next lookup makes another
    /// queue.
    pub fn complete(&mut self, waits: bool, done: &mut EachDone<'_, T>) -> usize {
        // A callback that panicked may have left these three.
        self.drop_lost_completions();
        self.submit_waiting();
        let mut count = self.report_failed(done);
        while self.active > 0 {
            self.collect(waits && count == 0);
            while let Some(completion) = self.next_completion() {
                count += usize::from(self.process(completion, done));
            }
            self.submit_waiting();
            count += self.report_failed(done);
            if !waits || count > 0 {
                break;
            }
        }
        self.submit_held_back(usize::MAX);
        self.ring_for_the_rest();
        self.value.clear();
        self.value.shrink_to(VALUE_BYTES_KEPT);
        count
    }

    /// Frees memory that only a busy table needs.
    pub(crate) fn trim(&mut self) {
        self.buffers.trim();
    }

    /// Submits the reads of a lookup's round, or lets them wait.
    fn begin_round(&mut self, slot: usize, mut in_flight: InFlight<T>) {
        let reads = in_flight.lookup.reads();
        let made = reads.first().map_or(Ok(()), |read| self.make_queue(&read.source));
        (in_flight.missing, in_flight.bytes) = (reads.len(), reads.iter().map(|it| it.len).sum());
        debug_assert!(in_flight.missing > 0, "a pending lookup has a read");
        if let Err(error) = made {
            self.free.push(slot);
            self.failed.push_back((in_flight, error.into()));
            return;
        }
        self.waiting.extend((0..in_flight.missing).map(|read| (slot, read)));
        self.put(slot, in_flight);
        self.submit_waiting();
    }

    /// Makes the queue of a source if there is none.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn make_queue(&mut self, source: &Arc<dyn ReadSource>) -> device::Result<()> {
        if self.sources.iter().any(|it| Arc::ptr_eq(&it.source, source)) {
            return Ok(());
        }
        let mut queue = source.queue(self.depth.max(QUEUE_DEPTH_MIN))?;
        if let Some(bell) = &self.bell {
            queue.ring(bell)?;
        }
        if self.sources.len() >= SOURCES_MAX {
            let (slots, waiting) = (&self.slots, &self.waiting);
            let waits = |source: &Source| {
                waiting.iter().any(|&(slot, index)| {
                    let in_flight = slots.get(slot).and_then(Option::as_ref);
                    let read = in_flight.and_then(|it| it.lookup.reads().get(index));
                    read.is_some_and(|read| Arc::ptr_eq(&read.source, &source.source))
                })
            };
            self.sources.retain(|source| source.reads > 0 || waits(source));
        }
        let (source, completions) = (Arc::clone(source), Vec::new());
        self.sources.push(Source { source, queue, completions, held_back: 0, bytes: 0, reads: 0 });
        Ok(())
    }

    /// Submits the reads that wait, as far as there is room.
    fn submit_waiting(&mut self) {
        let queue_depth = self.depth.max(QUEUE_DEPTH_MIN);
        while let Some(&(slot, index)) = self.waiting.front() {
            let bytes: usize = self.sources.iter().map(|source| source.bytes).sum();
            let in_flight = self.slots.get(slot).and_then(Option::as_ref);
            let read = in_flight.and_then(|it| it.lookup.reads().get(index));
            let source = read.and_then(|read| {
                self.sources.iter_mut().find(|it| Arc::ptr_eq(&it.source, &read.source))
            });
            let (Some(read), Some(source)) = (read, source) else {
                // A panic has lost the lookup.
                self.waiting.pop_front();
                self.note_lost_read(slot);
                continue;
            };
            let has_room = bytes == 0 || bytes + read.len <= BYTES_MAX;
            if !has_room || source.queue.in_flight() >= queue_depth {
                break;
            }
            self.waiting.pop_front();
            source.bytes += read.len;
            source.reads += 1;
            let work = Work::Read { offset: read.offset, buffer: self.buffers.take(read.len) };
            let request = Request { tag: tag_of(slot, index), file: Arc::clone(&read.file), work };
            let submitted = source.queue.submit(request);
            assert!(submitted.is_ok(), "the queue has room for {queue_depth} reads");
            source.held_back += 1;
        }
    }

    /// Hands reads that were held back to the device, if they are at least one in `share` of the
    /// lookups in flight.
    fn submit_held_back(&mut self, share: usize) {
        let mut failed = None;
        for (index, source) in self.sources.iter_mut().enumerate() {
            if source.held_back == 0 || source.held_back.saturating_mul(share) < self.active {
                continue;
            }
            source.held_back = 0;
            if let Err(error) = source.queue.poll(&mut source.completions) {
                failed = Some((index, error));
                break;
            }
        }
        if let Some((index, error)) = failed {
            self.end_source(index, &error.into());
        }
    }

    /// Rings the bell if the next call has something to report or to process, of which no queue
    /// knows any more.
    fn ring_for_the_rest(&self) {
        let has_completion = |source: &Source| !source.completions.is_empty();
        if let Some(bell) = &self.bell
            && (!self.failed.is_empty() || self.sources.iter().any(has_completion))
        {
            bell.ring();
        }
    }

    /// Takes the completions that are there from all queues. If it `waits` and there is none, it
    /// waits for the first queue with reads.
    fn collect(&mut self, waits: bool) {
        let has_one = |source: &Source| !source.completions.is_empty();
        let waits = waits && !self.sources.iter().any(has_one);
        // A wait takes completions, too: one system call suffices for a single queue.
        if !waits || self.sources.len() > 1 {
            self.poll_all();
        }
        if !waits || !self.failed.is_empty() || self.sources.iter().any(has_one) {
            return;
        }
        let busy = self.sources.iter().position(|source| source.queue.in_flight() > 0);
        if let Some(index) = busy
            && let Some(source) = self.sources.get_mut(index)
        {
            source.held_back = 0;
            if let Err(error) = source.queue.wait(1, &mut source.completions) {
                self.end_source(index, &error.into());
            }
        }
    }

    fn poll_all(&mut self) {
        let mut index = 0;
        while let Some(source) = self.sources.get_mut(index) {
            source.held_back = 0;
            match source.queue.poll(&mut source.completions) {
                Ok(_) => index += 1,
                Err(error) => self.end_source(index, &error.into()),
            }
        }
    }

    /// Returns the next completion.
    fn next_completion(&mut self) -> Option<Completion> {
        let mut sources = self.sources.iter_mut();
        sources.find_map(|source| {
            let completion = source.completions.pop()?;
            source.bytes -= completion.buffer.as_ref().map_or(0, |buffer| buffer.len());
            source.reads -= 1;
            Some(completion)
        })
    }

    /// Resumes the lookup of a read. Returns whether it has ended and was reported.
    fn process(&mut self, completion: Completion, done: &mut EachDone<'_, T>) -> bool {
        let Completion { tag, buffer, result } = completion;
        let (slot, index) = place_of(tag);
        let taken = self.slots.get_mut(slot).and_then(Option::take);
        let borrowed = Borrowed { buffers: &mut self.buffers, buffer };
        let Some(mut in_flight) = taken else {
            drop(borrowed);
            self.note_lost_read(slot);
            return false;
        };
        // From here to the end of the round, a panic loses this lookup alone [F2].
        self.active -= 1;
        self.lookup_bytes -= in_flight.bytes;
        in_flight.missing -= 1;
        let is_last = in_flight.missing == 0;
        if is_last {
            self.free.push(slot);
        } else {
            let source = in_flight.lookup.reads().first().map(|read| &read.source);
            self.lost.begin(slot, in_flight.missing, source);
        }
        let bytes = borrowed.buffer.as_deref().unwrap_or_default();
        let progress = match in_flight.failure.take() {
            Some(failure) => Err(failure),
            None => {
                let bytes = result.map(|()| bytes).map_err(Error::from);
                in_flight.lookup.resume(index, bytes, &mut self.value)
            }
        };
        match progress {
            Err(failure) if !is_last => in_flight.failure = Some(failure),
            Ok(Progress::Waiting) if !is_last => {}
            Ok(Progress::NextRound) => {
                debug_assert!(is_last, "a round ends with its last read");
                drop(borrowed);
                self.free.pop();
                self.begin_round(slot, in_flight);
                return false;
            }
            ended => {
                let InFlight { lookup, tag, .. } = in_flight;
                let value = match ended {
                    Ok(Progress::Found) => Ok(Some(&mut self.value)),
                    Ok(Progress::Absent) => Ok(None),
                    Err(error) => Err(error),
                    Ok(Progress::Waiting | Progress::NextRound) => {
                        unreachable!("the last read of a round ends it")
                    }
                };
                done(tag, Done { lookup, value, bytes });
                return true;
            }
        }
        drop(borrowed);
        self.lost.undo();
        self.put(slot, in_flight);
        false
    }

    /// Drops completions of lost lookups.
    fn drop_lost_completions(&mut self) {
        if self.lost.is_empty() {
            return;
        }
        let (slots, buffers, mut ended) = (&self.slots, &mut self.buffers, Vec::new());
        for source in &mut self.sources {
            let is_lost = |completion: &mut Completion| {
                let (slot, _) = place_of(completion.tag);
                slots.get(slot).is_none_or(Option::is_none)
            };
            for Completion { tag, buffer, .. } in source.completions.extract_if(.., is_lost) {
                source.reads -= 1;
                source.bytes -= buffer.as_ref().map_or(0, |buffer| buffer.len());
                drop(Borrowed { buffers, buffer });
                ended.push(place_of(tag).0);
            }
        }
        ended.into_iter().for_each(|slot| self.note_lost_read(slot));
    }

    /// Notes that a read of a lost lookup has ended.
    fn note_lost_read(&mut self, slot: usize) {
        if self.lost.note_read(slot) {
            self.free.push(slot);
        }
    }

    fn put(&mut self, slot: usize, in_flight: InFlight<T>) {
        self.active += 1;
        self.lookup_bytes += in_flight.bytes;
        self.slots[slot] = Some(in_flight);
    }

    /// Ends the lookups of a source whose queue has failed. Waits for the reads that the device
    /// has.
    fn end_source(&mut self, index: usize, error: &Error) {
        let Source { source, queue, completions, bytes, reads, .. } =
            self.sources.swap_remove(index);
        drop((queue, completions));
        self.buffers.note_lost(reads, bytes);
        self.lost.end_source(&source, &mut self.free);
        for (slot, place) in self.slots.iter_mut().enumerate() {
            // All reads of a round have the same source, so none of them is on another queue.
            let is_of_source = |in_flight: &mut InFlight<T>| {
                let mut reads = in_flight.lookup.reads().iter();
                reads.any(|read| Arc::ptr_eq(&read.source, &source))
            };
            if let Some(in_flight) = place.take_if(is_of_source) {
                self.active -= 1;
                self.lookup_bytes -= in_flight.bytes;
                self.free.push(slot);
                self.waiting.retain(|(waiting, _)| *waiting != slot);
                self.failed.push_back((in_flight, error.clone()));
            }
        }
    }

    /// Reports the lookups that have failed with their queue.
    fn report_failed(&mut self, done: &mut EachDone<'_, T>) -> usize {
        let mut count = 0;
        while let Some((InFlight { lookup, tag, .. }, error)) = self.failed.pop_front() {
            count += 1;
            done(tag, Done { lookup, value: Err(error), bytes: &[] });
        }
        count
    }
}

/// The tag of a read.
fn tag_of(slot: usize, read: usize) -> u64 {
    (slot as u64) << 32 | read as u64
}

/// The slot and the index of a read.
fn place_of(tag: u64) -> (usize, usize) {
    ((tag >> 32) as usize, (tag & u64::from(u32::MAX)) as usize)
}

impl<T> fmt::Debug for InFlightReads<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightReads")
            .field("len", &self.len())
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}
