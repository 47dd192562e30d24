//! The same with gets that are under way beside each other, as many as the run asks for.
//!
//! Whatever is no get is done as it comes, beside the gets that are pending. A get is timed from when
//! it was asked for to when the store told of it, and counts then.

use std::sync::atomic::Ordering;

use environment::Monotonic;

use super::{Kind, Share, Signals, Tally, Worker};
use crate::shape::hash;
use crate::stores::{Got, Session, StoreError};
use crate::value::Before;
use crate::workload::Operation;

/// A get that is pending.
#[derive(Clone, Copy)]
struct Asked {
    number: u64,
    key_hash: u64,
    key_bytes: usize,
    before: Before,
    begun: Monotonic,
}

/// Those that are, by their tags.
#[derive(Default)]
struct Pending {
    places: Vec<Option<Asked>>,
    free: Vec<usize>,
}

impl Pending {
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
        let (mut tally, mut pending) = (Tally::default(), Pending::default());
        let is_left = |done: u64| done < share.operations && !signals.stop.load(Ordering::Relaxed);
        while is_left(tally.operations + pending.len() as u64) {
            let Some(operation) = self.stream.next() else { break };
            let now = match operation {
                Operation::Read(number) => self.ask(session, number, &mut pending, &mut tally)?,
                other => {
                    let (kind, begun, ended) = self.step(session, other, &mut tally)?;
                    tally.note(kind, (ended - begun).as_nanos() as u64);
                    ended
                }
            };
            signals.done[self.place.thread].store(tally.operations, Ordering::Relaxed);
            if now >= share.deadline {
                break;
            }
        }
        while pending.len() > 0 {
            self.hear(session, &mut pending, &mut tally)?;
        }
        tally.verdict = std::mem::take(&mut self.verifier.verdict);
        Ok(tally)
    }

    /// Asks for one key, once there is room. Returns when it was asked for.
    fn ask(
        &mut self,
        session: &mut dyn Session,
        number: u64,
        pending: &mut Pending,
        tally: &mut Tally,
    ) -> Result<Monotonic, StoreError> {
        self.keys.write(number, &mut self.key);
        let key_hash = hash(&self.key);
        let before = self.versions.before(number);
        let begun = self.env.now();
        let asked = Asked { number, key_hash, key_bytes: self.key.len(), before, begun };
        loop {
            let tag = pending.tag();
            let got = session.begin_get(tag as u64, &self.key, &mut self.found)?;
            if got == Got::Pending {
                pending.places[tag] = Some(asked);
                return Ok(begun);
            }
            pending.free.push(tag);
            if got == Got::Full {
                self.hear(session, pending, tally)?;
                continue;
            }
            let value = (got == Got::Found).then_some(self.found.as_slice());
            self.verifier.read(number, key_hash, before, value);
            tally.count_read(asked.key_bytes, value, (self.env.now() - begun).as_nanos() as u64);
            return Ok(begun);
        }
    }

    /// Waits for some that are pending.
    fn hear(
        &mut self,
        session: &mut dyn Session,
        pending: &mut Pending,
        tally: &mut Tally,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut ended = None;
        session.complete(&mut |tag, found| {
            let ended = *ended.get_or_insert_with(|| self.env.now());
            let Some(asked) = pending.take(tag) else {
                outcome = Err("the store told of a get that nobody began".into());
                return;
            };
            match found {
                Ok(value) => {
                    self.verifier.read(asked.number, asked.key_hash, asked.before, value);
                    let nanos = (ended - asked.begun).as_nanos() as u64;
                    tally.count_read(asked.key_bytes, value, nanos);
                }
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

    fn count_read(&mut self, key_bytes: usize, value: Option<&[u8]>, nanos: u64) {
        self.read_bytes += (key_bytes + value.map_or(0, <[u8]>::len)) as u64;
        self.note(Kind::Read, nanos);
    }
}
