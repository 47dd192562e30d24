//! One thread of a run: takes operations from its stream, times them, and has results judged.

mod overlap;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use environment::{Environment, Monotonic};

use super::pace::Pace;
use super::verifier::{Verdict, Verifier};
use crate::measure::Latencies;
use crate::shape::{Keys, Shape, hash};
use crate::stores::{Pairs, Session, Store, StoreError};
use crate::value::{VALUE_BYTES_MIN, Versions, fill};
use crate::workload::{Operation, Place, Stream};

pub(super) use overlap::writer_count;

/// The operations of a thread in a phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) reads: Latencies,
    pub(crate) writes: Latencies,
    pub(crate) scans: Latencies,
    pub(crate) verdict: Verdict,
}

/// The signals that the threads of a phase share.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Makes all threads stop after their operation.
    pub(crate) stop: AtomicBool,
    /// Operations done, by thread.
    pub(crate) done: Vec<crossbeam_utils::CachePadded<AtomicU64>>,
}

/// A thread's part of the phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Operations to do at most.
    pub(crate) operations: u64,
    /// When to stop at the latest.
    pub(crate) deadline: Monotonic,
    /// Beat of all threads together, in operations a second.
    pub(crate) rate: Option<f64>,
    /// When the phase began.
    pub(crate) start: Monotonic,
}

/// A thread's state, which outlives a phase.
pub(crate) struct Worker {
    pub(crate) place: Place,
    pub(crate) stream: Stream,
    pub(crate) keys: Keys,
    pub(crate) shape: Shape,
    pub(crate) versions: Arc<Versions>,
    pub(crate) verifier: Verifier,
    pub(crate) env: Environment,
    /// Operations to keep under way at the same time.
    depth: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    found: Vec<u8>,
    pairs: Pairs,
}

/// The kind of an operation, for its histogram.
enum Kind {
    Read,
    Write,
    Scan,
}

impl Worker {
    pub(crate) fn new(
        place: Place,
        stream: Stream,
        (keys, shape): (Keys, Shape),
        versions: Arc<Versions>,
        verifier: Verifier,
        (env, depth): (Environment, usize),
    ) -> Self {
        let (key, value, found) = Default::default();
        let pairs = Pairs::default();
        Self {
            place,
            stream,
            keys,
            shape,
            versions,
            verifier,
            env,
            depth,
            key,
            value,
            found,
            pairs,
        }
    }

    /// Works until the share is done, the deadline is reached, the stream ends or `stop` is set.
    pub(crate) fn run(
        &mut self,
        store: &dyn Store,
        share: Share,
        signals: &Signals,
    ) -> Result<Tally, StoreError> {
        let mut session = store.session()?;
        if self.depth > 1 && session.overlap(self.depth)? {
            return self.run_overlapped(&mut *session, share, signals);
        }
        let mut tally = Tally::default();
        let mut pace = Pace::new(share.rate, self.place, share.start);
        while tally.operations < share.operations && !signals.stop.load(Ordering::Relaxed) {
            let Some(operation) = self.stream.next() else {
                break;
            };
            let due = pace.wait(&self.env, share.deadline);
            let (kind, begun, ended) = self.step(&mut *session, operation, &mut tally)?;
            let nanos = (ended - due.unwrap_or(begun)).as_nanos() as u64;
            tally.note(kind, nanos);
            signals.done[self.place.thread].store(tally.operations, Ordering::Relaxed);
            if ended >= share.deadline {
                break;
            }
        }
        tally.verdict = std::mem::take(&mut self.verifier.verdict);
        Ok(tally)
    }

    /// Does one operation; returns when the store was asked and when it had answered.
    fn step(
        &mut self,
        session: &mut dyn Session,
        operation: Operation,
        tally: &mut Tally,
    ) -> Result<(Kind, Monotonic, Monotonic), StoreError> {
        match operation {
            Operation::Read(number) => self.read(session, number, tally),
            Operation::Put(number, bytes) => self.write(session, number, bytes, false, tally),
            Operation::Rmw(number, bytes) => self.write(session, number, bytes, true, tally),
            Operation::Delete(number) => self.delete(session, number, tally),
            Operation::Scan(number, pairs) => self.scan(session, number, pairs as usize, tally),
        }
    }

    fn read(
        &mut self,
        session: &mut dyn Session,
        number: u64,
        tally: &mut Tally,
    ) -> Result<(Kind, Monotonic, Monotonic), StoreError> {
        self.keys.write(number, &mut self.key);
        let before = self.versions.before(number);
        let begun = self.env.now();
        let found = session.get(&self.key, &mut self.found)?;
        let ended = self.env.now();
        let value = found.then_some(self.found.as_slice());
        self.verifier.read(number, hash(&self.key), before, value);
        tally.read_bytes += (self.key.len() + value.map_or(0, <[u8]>::len)) as u64;
        Ok((Kind::Read, begun, ended))
    }

    fn write(
        &mut self,
        session: &mut dyn Session,
        number: u64,
        bytes: Option<u32>,
        reads: bool,
        tally: &mut Tally,
    ) -> Result<(Kind, Monotonic, Monotonic), StoreError> {
        self.keys.write(number, &mut self.key);
        let key_hash = hash(&self.key);
        let before = self.versions.before(number);
        let write = self.versions.begin(self.place.thread, number, false);
        make_value(&self.shape, key_hash, write.version, bytes, &mut self.value);
        let begun = self.env.now();
        let found = if reads {
            Some(session.rmw(&self.key, &self.value, &mut self.found)?)
        } else {
            session.put(&self.key, &self.value)?;
            None
        };
        let ended = self.env.now();
        self.versions.acknowledge(self.place.thread, write);
        if let Some(found) = found {
            let old = found.then_some(self.found.as_slice());
            self.verifier.read(number, key_hash, before, old);
            tally.read_bytes += (self.key.len() + old.map_or(0, <[u8]>::len)) as u64;
        }
        tally.write_bytes += (self.key.len() + self.value.len()) as u64;
        Ok((Kind::Write, begun, ended))
    }

    fn delete(
        &mut self,
        session: &mut dyn Session,
        number: u64,
        tally: &mut Tally,
    ) -> Result<(Kind, Monotonic, Monotonic), StoreError> {
        self.keys.write(number, &mut self.key);
        let write = self.versions.begin(self.place.thread, number, true);
        let begun = self.env.now();
        session.delete(&self.key)?;
        let ended = self.env.now();
        self.versions.acknowledge(self.place.thread, write);
        tally.write_bytes += self.key.len() as u64;
        Ok((Kind::Write, begun, ended))
    }

    fn scan(
        &mut self,
        session: &mut dyn Session,
        number: u64,
        limit: usize,
        tally: &mut Tally,
    ) -> Result<(Kind, Monotonic, Monotonic), StoreError> {
        self.keys.write(number, &mut self.key);
        self.pairs.clear();
        let before = self.versions.before(number);
        let begun = self.env.now();
        session.scan(&self.key, limit, &mut self.pairs)?;
        let ended = self.env.now();
        self.verifier.scan(number, limit, before, &self.pairs);
        tally.read_bytes += self.pairs.bytes() as u64;
        Ok((Kind::Scan, begun, ended))
    }
}

/// Replaces `value` with version `version` of a key, of the shape's size or of `bytes`.
pub(crate) fn make_value(
    shape: &Shape,
    key_hash: u64,
    version: u32,
    bytes: Option<u32>,
    value: &mut Vec<u8>,
) {
    let bytes = match bytes {
        Some(bytes) => (bytes as usize).max(VALUE_BYTES_MIN),
        None => shape.value_bytes(key_hash, version),
    };
    value.resize(bytes, 0);
    fill(key_hash, version, value);
}
