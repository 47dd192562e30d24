//! Rebuilding the sparse index from the space (Flex 5.4), if none is stored (`stored_index`).
//!
//! 1. The extents' tags show where intervals begin, without any I/O. Neighbours are taken as one
//!    while they are small together: an interval that becomes too large is split when it is next
//!    changed.
//! 2. The key of each one's first pair is read (X2): many concurrently, on a queue of the device
//!    for each of several threads, the pool's and the caller's.
//! 3. The tree is filled from its end.
//!
//! An interval whose first pair cannot be read belongs to the one before it: a reader of a key of
//! either gets the damage as an error, and all others can be read. The same holds for an interval
//! that begins below others before it: all from the one that has its first key on are one, and
//! damaged. If that is longer than an interval can be, it is several, all of them damaged. Then the
//! keys belong to the last one, except a few between its bound and theirs, which only appended
//! zeros can reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use codec::{Corruption, Reader};
use engine::{DeviceReads, Error, Host, PendingLookup, ReadSource, Result};
use flexspace::space::Snapshot;
use memory_budget::{Account, MemoryBudget};
use reads::InFlightReads;
use sync::locks::Mutex;
use workers::{Class, Group};

use crate::error::{DATA, from_space};
use crate::index::{self, Head, Index, Interval, Lie, START};
use crate::pair::{HEAD_BYTES_MAX, PairHead, StoreHeader};
use crate::space_read::SpaceRead;

/// Bytes that are read of an interval: its first pair's head, and most keys.
const FIRST_BYTES: u32 = 128;
/// Reads of a task that are in flight.
pub(crate) const DEPTH: usize = 64;
/// Intervals that a task takes at a time.
const CHUNK: usize = 64;
/// Tasks in addition to the caller's, and intervals for each: reads cost the processor time.
const TASKS: usize = 3;
const TASK_MIN: usize = 4 * CHUNK;

/// An interval as the tags show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its offset in the space.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// How long its first extent is.
    extent: u32,
    lie: Lie,
}

/// Returns the index to the data behind a space's header, with intervals of at least `step` bytes
/// each, if there are enough bytes.
pub(crate) fn index(
    space: &Snapshot,
    step: u64,
    host: &Host,
    group: &Group,
    heads: &Arc<Account>,
) -> Result<Index> {
    let candidates = candidates(space, step);
    let keys = first_keys(space, &candidates, host, group)?;
    let mut found: Vec<(Candidate, Vec<u8>)> = Vec::with_capacity(candidates.len());
    for (candidate, key) in candidates.into_iter().zip(keys) {
        let Some((before, _)) = found.last_mut() else {
            // All keys may be before the keys of the next one.
            found.push((candidate, key.unwrap_or_default()));
            continue;
        };
        let Ok(key) = key else {
            before.take_in(&candidate);
            continue;
        };
        if found.last().is_some_and(|(_, first)| *first < key) {
            found.push((candidate, key));
            continue;
        }
        // The content between the place of its first key and its own place is not known.
        let behind = found.partition_point(|(_, first)| *first <= key);
        let others = found.split_off(behind.max(1));
        if let Some((damaged, _)) = found.last_mut() {
            others.iter().for_each(|(other, _)| damaged.take_in(other));
            damaged.take_in(&candidate);
            damaged.lie.is_out_of_order = true;
        }
    }
    let mut index = Index::default();
    let mut found = found.into_iter().peekable();
    while let Some((mut candidate, first)) = found.next() {
        // Each of its parts has a bound of its own, below that of the next interval.
        while candidate.parts() > 1
            && let Some((next, _)) =
                found.next_if(|(_, next)| *next <= bound_of_part(&first, candidate.parts() - 1))
        {
            candidate.take_in(&next);
        }
        push(&mut index, &candidate, &first, heads);
    }
    Ok(index)
}

/// Returns the bound of a part of a damaged range: only a few keys are between it and the first
/// part's.
fn bound_of_part(first: &[u8], part: u64) -> Vec<u8> {
    let mut bound = first.to_vec();
    bound.resize(first.len() + part as usize, 0);
    bound
}

impl Candidate {
    /// Takes in the candidate behind it.
    fn take_in(&mut self, next: &Self) {
        self.length += next.length;
        self.lie = self.lie.with(&next.lie);
    }

    /// Returns the number of intervals for it: one, except for damage of more than 4 GiB.
    fn parts(&self) -> u64 {
        self.length.div_ceil(u64::from(u32::MAX)).max(1)
    }
}

fn push(index: &mut Index, found: &Candidate, first: &[u8], heads: &Arc<Account>) {
    let parts = found.parts();
    // None of several may be taken for sound because it can be read.
    let is_out_of_order = found.lie.is_out_of_order || parts > 1;
    let lie = Lie { is_out_of_order, ..found.lie };
    let mut left = found.length;
    for part in 0..parts {
        let length = left.div_ceil(parts - part);
        left -= length;
        let bound = bound_of_part(first, part);
        let head = Head::new(&bound, &bound, lie, heads);
        index::append(index, length as u32, Interval::new(head));
    }
}

/// Returns the places at which intervals begin; the first of several that are closer than `step`
/// bytes.
pub(crate) fn candidates(space: &Snapshot, step: u64) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for extent in space.extents(StoreHeader::BYTES as u64..space.len()) {
        let length = u64::from(extent.length);
        let is_start = extent.extent.tag() == START;
        match found.last_mut() {
            Some(last) if !is_start || last.length + length <= step => {
                last.length += length;
                last.lie.fragments = last.lie.fragments.saturating_add(1);
                last.lie.has_inner_tags |= is_start;
            }
            _ => {
                let lie = Lie { fragments: 1, pairs: Lie::UNKNOWN, ..Lie::default() };
                found.push(Candidate { offset: extent.offset, length, extent: extent.length, lie });
            }
        }
    }
    found
}

/// The key of an interval's first pair; damage if it cannot be read.
type Found = std::result::Result<Vec<u8>, Corruption>;

/// The state that the tasks share.
struct Reading {
    space: Snapshot,
    source: Arc<dyn ReadSource>,
    memory: Arc<MemoryBudget>,
    candidates: Vec<Candidate>,
    next: AtomicUsize,
    done: Mutex<Done>,
}

/// The keys that finished tasks have read, and the number of tasks that have not finished.
struct Done {
    keys: Vec<Option<Found>>,
    running: usize,
    failure: Option<Error>,
}

/// Keys that a task has under way, each with the bytes that are read for it.
struct Task<'a> {
    shared: &'a Reading,
    reads: InFlightReads<usize>,
    /// Keys whose bytes have arrived.
    come: Vec<(usize, Result<Vec<u8>>)>,
    keys: Vec<(usize, Found)>,
}

impl Reading {
    /// Reads keys until there are no more.
    fn work(&self) {
        self.done.lock().running += 1;
        let reads = InFlightReads::new(DEPTH, &self.memory);
        let mut task = Task { shared: self, reads, come: Vec::new(), keys: Vec::new() };
        let read = task.read_all();
        let keys = task.keys;
        let mut done = self.done.lock();
        for (index, key) in keys {
            if let Some(slot) = done.keys.get_mut(index) {
                *slot = Some(key);
            }
        }
        if let Err(error) = read {
            // The others need not continue.
            self.next.store(self.candidates.len(), Relaxed);
            done.failure.get_or_insert(error);
        }
        done.running -= 1;
    }

    /// Returns some that no task has taken yet.
    fn take(&self) -> std::ops::Range<usize> {
        let count = self.candidates.len();
        let begin = self.next.fetch_add(CHUNK, Relaxed).min(count);
        begin..(begin + CHUNK).min(count)
    }
}

impl Task<'_> {
    fn read_all(&mut self) -> Result<()> {
        let mut taken = self.shared.take();
        loop {
            while !self.reads.is_full() {
                let Some(index) = taken.next() else {
                    taken = self.shared.take();
                    if taken.is_empty() { break } else { continue }
                };
                let Some(candidate) = self.shared.candidates.get(index) else { break };
                self.begin(index, candidate.first_bytes())?;
            }
            if self.reads.is_empty() && self.come.is_empty() {
                return Ok(());
            }
            self.complete(self.come.is_empty());
            for (index, read) in std::mem::take(&mut self.come) {
                self.look(index, read)?;
            }
        }
    }

    fn complete(&mut self, waits: bool) {
        self.reads.complete(waits, &mut |index, done| {
            let bytes = done.value.map(|bytes| bytes.map(std::mem::take).unwrap_or_default());
            self.come.push((index, bytes));
        });
    }

    fn begin(&mut self, index: usize, bytes: u64) -> Result<()> {
        let Some(candidate) = self.shared.candidates.get(index) else { return Ok(()) };
        let begun = self.shared.space.begin_read(candidate.offset, bytes).map_err(from_space)?;
        if begun.missing() == 0 {
            self.come.push((index, Ok(begun.into_bytes())));
            return Ok(());
        }
        let mut read: Box<dyn PendingLookup> =
            Box::new(SpaceRead::new(begun, &self.shared.source, &self.shared.memory));
        while let Err((refused, _)) = self.reads.start(read, index) {
            self.complete(true);
            read = refused;
        }
        Ok(())
    }

    /// Damage is no failure, but the storage's is.
    fn look(&mut self, index: usize, read: Result<Vec<u8>>) -> Result<()> {
        let Some(candidate) = self.shared.candidates.get(index) else { return Ok(()) };
        let found = match read {
            Ok(bytes) => candidate.key_in(&bytes),
            Err(Error::Corruption(damage)) => Err(damage),
            Err(error) => return Err(error),
        };
        match found {
            Ok(First::Key(key)) => self.keys.push((index, Ok(key))),
            Ok(First::Longer(bytes)) => self.begin(index, bytes)?,
            Err(damage) => self.keys.push((index, Err(damage))),
        }
        Ok(())
    }
}

/// The key of each interval's first pair.
fn first_keys(
    space: &Snapshot,
    candidates: &[Candidate],
    host: &Host,
    group: &Group,
) -> Result<Vec<Found>> {
    let count = candidates.len();
    let keys = std::iter::repeat_with(|| None).take(count).collect();
    let reading = Arc::new(Reading {
        space: space.clone(),
        source: Arc::new(DeviceReads(Arc::clone(&host.device))),
        memory: Arc::clone(&host.memory),
        candidates: candidates.to_vec(),
        next: AtomicUsize::new(0),
        done: Mutex::new(Done { keys, running: 0, failure: None }),
    });
    for _ in 0..TASKS.min(count.div_ceil(TASK_MIN).saturating_sub(1)) {
        let shared = Arc::clone(&reading);
        // This thread does the work that no task takes.
        let _ = group.submit(Class::Flush, "flexdb recover", move |_stop| shared.work());
    }
    reading.work();
    // All work is taken now, so a task that begins from here on reads nothing.
    let waited = group.wait_until(|| reading.done.lock().running == 0);
    waited.map_err(|_| Error::Closed)?;
    let mut done = reading.done.lock();
    if let Some(failure) = done.failure.take() {
        return Err(failure);
    }
    let keys = std::mem::take(&mut done.keys);
    let unread = || Err(Corruption::new("an interval was not read", 0).at(DATA, 0));
    Ok(keys.into_iter().map(|key| key.unwrap_or_else(unread)).collect())
}

/// The content of an interval's first bytes.
enum First {
    Key(Vec<u8>),
    /// This number of bytes has to be read.
    Longer(u64),
}

impl Candidate {
    /// Bytes that are read of it first: no more than one extent has.
    fn first_bytes(&self) -> u64 {
        u64::from(self.extent.min(FIRST_BYTES))
    }

    /// The key of its first pair, if its first bytes have all of it.
    fn key_in(&self, bytes: &[u8]) -> std::result::Result<First, Corruption> {
        let head_bytes = self.length.min(HEAD_BYTES_MAX as u64);
        if (bytes.len() as u64) < head_bytes {
            return Ok(First::Longer(head_bytes));
        }
        let head = PairHead::take(&mut Reader::new(bytes));
        let head = head.map_err(|damage| damage.at(DATA, self.offset))?;
        let len = head.head_len + head.key_len;
        if let Some(key) = bytes.get(head.head_len..len) {
            return Ok(First::Key(key.to_vec()));
        }
        if len as u64 > self.length {
            let what = "a pair that is longer than its interval";
            return Err(Corruption::new(what, self.offset).at(DATA, 0));
        }
        Ok(First::Longer(len as u64))
    }
}
