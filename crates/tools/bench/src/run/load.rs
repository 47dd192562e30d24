//! Loading the keys that a run begins with.
//!
//! Each thread loads its part of the numbers, in batches by the store's own means; or one by one,
//! timed, if the load itself is measured. Numbers that sort like their keys are loaded in a
//! scattered order, unless the run is sequential: a store is not to be handed its sorted files.

use std::sync::atomic::Ordering;

use super::worker::{Signals, Tally, Worker, make_value};
use crate::distribution::Permutation;
use crate::shape::hash;
use crate::stores::{Pairs, Session, Store, StoreError};
use crate::workload::Trace;

/// Pairs that are handed over together, unless their bytes reach the limit first.
const BATCH_PAIRS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// The part of the load that a thread does.
pub(crate) struct LoadPart<'a> {
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) scatter: Option<Permutation>,
    pub(crate) trace: Option<&'a Trace>,
    /// One by one, with a latency each.
    pub(crate) timed: bool,
}

impl Worker {
    /// Loads `part`.
    pub(crate) fn load(
        &mut self,
        store: &dyn Store,
        part: &LoadPart<'_>,
        signals: &Signals,
    ) -> Result<Tally, StoreError> {
        let mut session = store.session()?;
        let mut tally = Tally::default();
        let mut batch = Batch::default();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for index in part.first..part.end {
            if signals.stop.load(Ordering::Relaxed) {
                break;
            }
            let (number, bytes) = match part.trace.and_then(|t| t.loads().get(index as usize)) {
                Some(&load) => load,
                None => (part.scatter.map_or(index, |scatter| scatter.apply(index)), None),
            };
            self.keys.write(number, &mut key);
            let write = self.versions.begin(self.place.thread, number, false);
            make_value(&self.shape, hash(&key), write.version, bytes, &mut value);
            tally.write_bytes += (key.len() + value.len()) as u64;
            if part.timed {
                let begun = self.env.now();
                session.put(&key, &value)?;
                tally.writes.record((self.env.now() - begun).as_nanos() as u64);
                self.versions.acknowledge(self.place.thread, write);
            } else {
                // No one reads before the load is done: taking the acknowledgement for granted is
                // undone by the run failing if the batch does.
                self.versions.acknowledge(self.place.thread, write);
                batch.push(&key, &value, &mut *session)?;
            }
            tally.operations += 1;
            signals.done[self.place.thread].store(tally.operations, Ordering::Relaxed);
        }
        batch.hand_over(&mut *session)?;
        Ok(tally)
    }
}

#[derive(Default)]
struct Batch(Pairs);

impl Batch {
    fn push(
        &mut self,
        key: &[u8],
        value: &[u8],
        session: &mut dyn Session,
    ) -> Result<(), StoreError> {
        self.0.push(key, value);
        if self.0.len() >= BATCH_PAIRS || self.0.bytes() >= BATCH_BYTES {
            self.hand_over(session)?;
        }
        Ok(())
    }

    fn hand_over(&mut self, session: &mut dyn Session) -> Result<(), StoreError> {
        if !self.0.is_empty() {
            session.load(&self.0)?;
            self.0.clear();
        }
        Ok(())
    }
}
