//! Lookups of one engine in flight, for tests of engines.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{At, Engine, Lookup, Result};
use memory_budget::MemoryBudget;
use reads::InFlightReads;

/// The beginning of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupStart {
    /// The key has this value.
    Found(Vec<u8>),
    /// The key has no value.
    Absent,
    /// The device is read.
    Pending,
    /// There is no room for another lookup.
    Full,
}

/// A lookup that was pending and has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The value of the key, if it has one.
    pub value: Result<Option<Vec<u8>>>,
    /// Whether it was confirmed as the newest when it ended.
    pub is_newest: bool,
}

/// Lookups in flight, by tag.
pub struct InFlight<'e> {
    engine: &'e dyn Engine,
    reads: InFlightReads<u64>,
    /// The lookups that have ended.
    pub ended: BTreeMap<u64, Ended>,
}

impl<'e> InFlight<'e> {
    /// Makes room for `depth` lookups. The buffers are charged to `budget`.
    pub fn new(engine: &'e dyn Engine, depth: usize, budget: &Arc<MemoryBudget>) -> Self {
        Self { engine, reads: InFlightReads::new(depth, budget), ended: BTreeMap::new() }
    }

    /// Begins a lookup.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn begin(&mut self, tag: u64, key: &[u8], at: At<'_>) -> Result<LookupStart> {
        let mut value = Vec::new();
        Ok(match self.engine.lookup(key, at, &mut value)? {
            Lookup::Found => LookupStart::Found(value),
            Lookup::Absent => LookupStart::Absent,
            Lookup::Pending(lookup) => match self.reads.start(lookup, tag) {
                Ok(()) => LookupStart::Pending,
                Err(_) => LookupStart::Full,
            },
        })
    }

    /// Returns the number of pending lookups.
    pub fn pending(&self) -> usize {
        self.reads.len()
    }

    /// Completes some lookups, or waits for one if it `waits`. Returns how many have ended.
    ///
    /// # Panics
    /// If a lookup ends twice.
    pub fn complete(&mut self, waits: bool) -> usize {
        let ended = &mut self.ended;
        self.reads.complete(waits, &mut |tag, done| {
            let is_newest = done.lookup.is_newest();
            let value = done.value.map(|value| value.map(std::mem::take));
            assert!(ended.insert(tag, Ended { value, is_newest }).is_none(), "{tag} ends twice");
        })
    }

    /// Completes all lookups.
    ///
    /// # Panics
    /// If a wait ends without a result.
    pub fn finish(&mut self) {
        while self.pending() > 0 {
            assert!(self.complete(true) > 0, "it waits for one");
        }
    }
}
