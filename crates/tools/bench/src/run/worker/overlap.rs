//! The same with gets and read-modify-writes under way at the same time, up to the run's depth.
//!
//! All other operations are done in their order, concurrently with the pending ones. After every
//! few of them the thread asks the store for completions. An operation is timed from its request to
//! the store's completion, and counts then.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::Ordering;

use environment::Monotonic;

use super::{Kind, Share, Signals, Tally, Worker, make_value};
use crate::shape::hash;
use crate::stores::{Got, Session, StoreError};
use crate::value::{Before, WRITERS_MAX, Write};
use crate::workload::{Operation, Place};

/// Returns the writers that a run wants of the version table: one of each thread for writes that it
/// waits for, and after them all writers for pending operations.
pub(in crate::run) fn writer_count(threads: usize, depth: usize) -> usize {
    threads * (1 + pending_writers(threads, depth))
}

/// Returns the writers of one thread for pending operations; none if the threads leave no room in
/// the table.
fn pending_writers(threads: usize, depth: usize) -> usize {
    if depth > 1 { depth.min(WRITERS_MAX / threads - 1) } else { 0 }
}

fn pending_writers_of(place: Place, depth: usize) -> Range<usize> {
    let each = pending_writers(place.threads, depth);
    let begin = place.threads + place.thread * each;
    begin..begin + each
}

/// Operations without a wait after which the thread asks the store for completions.
const ASKED_EVERY: u64 = 16;

/// An operation that is pending.
struct Asked {
    number: u64,
    key_hash: u64,
    key_bytes: usize,
    before: Before,
    begun: Monotonic,
    /// The write of a read-modify-write.
    writing: Option<Writing>,
}

struct Writing {
    writer: usize,
    write: Write,
    value_bytes: usize,
}

/// The pending operations, by their tags.
struct Pending {
    places: Vec<Option<Asked>>,
    free: Vec<usize>,
    /// Writers of the version table that are free.
    writers: Vec<usize>,
}

impl Pending {
    fn new(writers: Range<usize>) -> Self {
        Self { places: Vec::new(), free: Vec::new(), writers: writers.collect() }
    }

    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// A tag that none has.
    fn tag(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        })
    }

    fn take(&mut self, tag: u64) -> Option<Asked> {
        let asked = self.places.get_mut(tag as usize)?.take()?;
        self.free.push(tag as usize);
        Some(asked)
    }
}

impl Worker {
    pub(super) fn run_overlapped(
        &mut self,
        session: &mut dyn Session,
        share: Share,
        signals: &Signals,
    ) -> Result<Tally, StoreError> {
        let writers = pending_writers_of(self.place, self.depth);
        let overlaps_writes = !writers.is_empty();
        let (mut tally, mut pending) = (Tally::default(), Pending::new(writers));
        let is_left = |done: u64| done < share.operations && !signals.stop.load(Ordering::Relaxed);
        while is_left(tally.operations + pending.len() as u64) {
            let Some(operation) = self.stream.next() else { break };
            let now = match operation {
                Operation::Read(number) => {
                    self.ask(session, number, None, &mut pending, &mut tally)?
                }
                Operation::Rmw(number, bytes) if overlaps_writes => {
                    self.ask(session, number, Some(bytes), &mut pending, &mut tally)?
                }
                other => {
                    let (kind, begun, ended) = self.step(session, other, &mut tally)?;
                    tally.note(kind, (ended - begun).as_nanos() as u64);
                    if pending.len() > 0 && tally.operations.is_multiple_of(ASKED_EVERY) {
                        self.hear(session, false, &mut pending, &mut tally)?;
                    }
                    ended
                }
            };
            signals.done[self.place.thread].store(tally.operations, Ordering::Relaxed);
            if now >= share.deadline {
                break;
            }
        }
        while pending.len() > 0 {
            self.hear(session, true, &mut pending, &mut tally)?;
        }
        tally.verdict = std::mem::take(&mut self.verifier.verdict);
        Ok(tally)
    }

    /// Requests one key, once there is room; `writes` a value of its shape's size or of the given
    /// bytes. Returns the time of the request.
    fn ask(
        &mut self,
        session: &mut dyn Session,
        number: u64,
        writes: Option<Option<u32>>,
        pending: &mut Pending,
        tally: &mut Tally,
    ) -> Result<Monotonic, StoreError> {
        while writes.is_some() && pending.writers.is_empty() {
            self.hear(session, true, pending, tally)?;
        }
        self.keys.write(number, &mut self.key);
        let key_hash = hash(&self.key);
        let before = self.versions.before(number);
        let writing = writes.map(|bytes| {
            let writer = pending.writers.pop().expect("one was free");
            let write = self.versions.begin(writer, number, false);
            make_value(&self.shape, key_hash, write.version, bytes, &mut self.value);
            Writing { writer, write, value_bytes: self.value.len() }
        });
        let begun = self.env.now();
        let key_bytes = self.key.len();
        let asked = Asked { number, key_hash, key_bytes, before, begun, writing };
        loop {
            let tag = pending.tag();
            let (key, found) = (&self.key, &mut self.found);
            let got = match asked.writing {
                None => session.begin_get(tag as u64, key, found)?,
                Some(_) => session.begin_rmw(tag as u64, key, &self.value, found)?,
            };
            if got == Got::Pending {
                pending.places[tag] = Some(asked);
                return Ok(begun);
            }
            pending.free.push(tag);
            if got == Got::Full {
                self.hear(session, true, pending, tally)?;
                continue;
            }
            let found = std::mem::take(&mut self.found);
            let value = (got == Got::Found).then_some(found.as_slice());
            self.answered(asked, value, self.env.now(), pending, tally);
            self.found = found;
            return Ok(begun);
        }
    }

    /// Judges the store's result of an operation, and counts it.
    fn answered(
        &mut self,
        asked: Asked,
        value: Option<&[u8]>,
        ended: Monotonic,
        pending: &mut Pending,
        tally: &mut Tally,
    ) {
        self.verifier.read(asked.number, asked.key_hash, asked.before, value);
        tally.read_bytes += (asked.key_bytes + value.map_or(0, <[u8]>::len)) as u64;
        let kind = match asked.writing {
            None => Kind::Read,
            Some(Writing { writer, write, value_bytes }) => {
                self.versions.acknowledge(writer, write);
                pending.writers.push(writer);
                tally.write_bytes += (asked.key_bytes + value_bytes) as u64;
                Kind::Write
            }
        };
        tally.note(kind, (ended - asked.begun).as_nanos() as u64);
    }

    /// Takes the completed operations, and with `waits` at least one.
    fn hear(
        &mut self,
        session: &mut dyn Session,
        waits: bool,
        pending: &mut Pending,
        tally: &mut Tally,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut ended = None;
        session.complete(waits, &mut |tag, found| {
            let ended = *ended.get_or_insert_with(|| self.env.now());
            let Some(asked) = pending.take(tag) else {
                outcome = Err("the store reported an operation that was not begun".into());
                return;
            };
            match found {
                Ok(value) => self.answered(asked, value, ended, pending, tally),
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome
    }
}

impl Tally {
    /// Counts an operation that took so long.
    pub(super) fn note(&mut self, kind: Kind, nanos: u64) {
        match kind {
            Kind::Read => self.reads.record(nanos),
            Kind::Write => self.writes.record(nanos),
            Kind::Scan => self.scans.record(nanos),
        }
        self.operations += 1;
    }
}
