//! The blocking drivers: a lookup, and many lookups, whose reads the calling thread waits for.
//! Many lookups are those of many keys, or lookups that have begun.

use std::sync::Arc;

use engine::{At, Engine, Error, LookedUp, Lookup, PendingLookup, Progress, Result};
use memory_budget::MemoryBudget;
use sync::Mutex;

use crate::buffers::ReadNow;
use crate::in_flight::{Done, InFlightReads};

/// Lookups of one multi-get in flight.
const DEPTH: usize = 128;
/// Tables that are kept while they are not used.
const IDLE_MAX: usize = 8;

/// The callback of [`ReadPool::multi_get`]: called with each key's index, and its value if it has
/// one.
pub type Found<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// The callback of [`ReadPool::complete_many`]: called with the index of a lookup, and its result.
/// The callback may take the memory of the value.
pub type EachValue<'a> = dyn FnMut(usize, Result<Option<&mut Vec<u8>>>) + 'a;

/// The blocking drivers of one store, and tables that they use in turns.
pub struct ReadPool {
    budget: Arc<MemoryBudget>,
    /// Whether tables and buffers are kept for later reads.
    keeps: bool,
    idle: Mutex<Idle>,
}

/// The tables that are not used.
#[derive(Default)]
struct Idle {
    tables: Vec<InFlightReads<usize>>,
    is_closed: bool,
}

impl ReadPool {
    /// Makes the drivers of a store. Buffers are charged to `budget`.
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { budget: Arc::clone(budget), keeps: true, idle: Mutex::default() }
    }

    /// Makes the drivers for few and long reads: nothing is kept from one to the next.
    pub fn keeping_nothing(budget: &Arc<MemoryBudget>) -> Self {
        Self { keeps: false, ..Self::new(budget) }
    }

    /// Returns the budget of the buffers.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Completes a lookup: does its reads, and the calling thread waits for them. Returns whether
    /// the key has a value, which replaced the content of `into`.
    ///
    /// # Errors
    /// The storage's; those of [`PendingLookup::resume`].
    #[inline]
    pub fn complete(&self, lookup: Lookup, into: &mut Vec<u8>) -> Result<bool> {
        match lookup {
            Lookup::Found => Ok(true),
            Lookup::Absent => Ok(false),
            Lookup::Pending(pending) => {
                self.complete_pending(pending, into).map(|(is_found, _)| is_found)
            }
        }
    }

    /// The same for a lookup that is pending. Returns the lookup, too, which can say later whether
    /// the value is the key's newest.
    ///
    /// # Errors
    /// The same.
    #[cold]
    pub fn complete_pending(
        &self,
        mut pending: Box<dyn PendingLookup>,
        into: &mut Vec<u8>,
    ) -> Result<(bool, Box<dyn PendingLookup>)> {
        loop {
            let progress = match pending.reads() {
                [read] => {
                    let done = ReadNow::new(read, &self.budget);
                    pending.resume(0, done.bytes(), into)?
                }
                [read, ..] => {
                    let mut table = self.take();
                    if table.make_queue(&read.source).is_ok() {
                        return self.complete_on(table, pending, into);
                    }
                    self.read_one_by_one(&mut pending, into)?
                }
                [] => unreachable!("a pending lookup has a read"),
            };
            match progress {
                Progress::Found => return Ok((true, pending)),
                Progress::Absent => return Ok((false, pending)),
                Progress::NextRound => {}
                Progress::Waiting => unreachable!("all reads of the round have come"),
            }
        }
    }

    /// Completes a lookup whose reads overlap.
    fn complete_on(
        &self,
        mut table: InFlightReads<usize>,
        pending: Box<dyn PendingLookup>,
        into: &mut Vec<u8>,
    ) -> Result<(bool, Box<dyn PendingLookup>)> {
        let mut ended = Err(Error::Closed);
        if table.start(pending, 0).is_err() {
            unreachable!("the table has no other lookup");
        }
        while !table.is_empty() {
            table.complete(true, &mut |_, Done { lookup, value, .. }| {
                ended = value.map(|value| {
                    let is_found = value.is_some();
                    if let Some(value) = value {
                        std::mem::swap(into, value);
                    }
                    (is_found, lookup)
                });
            });
        }
        self.put_back(table);
        ended
    }

    /// Does the reads of a round without a queue.
    fn read_one_by_one(
        &self,
        pending: &mut Box<dyn PendingLookup>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let mut progress = Progress::Waiting;
        for index in 0..pending.reads().len() {
            let Some(read) = pending.reads().get(index) else { break };
            let done = ReadNow::new(read, &self.budget);
            progress = pending.resume(index, done.bytes(), into)?;
        }
        Ok(progress)
    }

    /// Looks up many keys, and calls `found` for each, in any order. Reads of the device overlap,
    /// unless their source refuses to make a queue: then the calling thread does them one by one.
    ///
    /// # Errors
    /// As [`ReadPool::complete`]. An error of one key ends the call for all; `found` was called for
    /// some of them.
    pub fn multi_get(
        &self,
        engine: &(impl Engine + ?Sized),
        keys: &[&[u8]],
        at: At<'_>,
        found: &mut Found<'_>,
    ) -> Result<()> {
        let mut lent: Option<InFlightReads<usize>> = None;
        let mut value = Vec::new();
        engine.lookup_many(keys, at, &mut |index, looked_up| {
            let mut pending = match looked_up {
                LookedUp::Found(value) => {
                    found(index, Some(value));
                    return Ok(());
                }
                LookedUp::Absent => {
                    found(index, None);
                    return Ok(());
                }
                LookedUp::Pending(pending) => pending,
            };
            let table = lent.get_or_insert_with(|| self.take());
            let source = pending.reads().first().map(|read| Arc::clone(&read.source));
            if source.is_some_and(|source| table.make_queue(&source).is_err()) {
                let (is_found, _) = self.complete_pending(pending, &mut value)?;
                found(index, is_found.then_some(value.as_slice()));
                return Ok(());
            }
            while table.start(pending, index).is_err() {
                complete_some(table, found)?;
                // The blocks that were read may have this key, too.
                let key = keys.get(index).copied().unwrap_or_default();
                pending = match engine.lookup(key, at, &mut value)? {
                    Lookup::Pending(pending) => pending,
                    Lookup::Found => {
                        found(index, Some(&value));
                        return Ok(());
                    }
                    Lookup::Absent => {
                        found(index, None);
                        return Ok(());
                    }
                };
            }
            Ok(())
        })?;
        let Some(mut table) = lent else { return Ok(()) };
        while !table.is_empty() {
            complete_some(&mut table, found)?;
        }
        self.put_back(table);
        Ok(())
    }

    /// Completes lookups that are pending. Calls `each` with the index and the result of each, in
    /// any order. Reads of the device overlap, unless their source refuses to make a queue: then
    /// the calling thread does them one by one.
    pub fn complete_many(&self, lookups: Vec<Box<dyn PendingLookup>>, each: &mut EachValue<'_>) {
        let mut lent: Option<InFlightReads<usize>> = None;
        let mut value = Vec::new();
        let is_single = lookups.len() == 1;
        for (index, mut lookup) in lookups.into_iter().enumerate() {
            let table = lent.get_or_insert_with(|| self.take());
            let source = lookup.reads().first().map(|read| Arc::clone(&read.source));
            if is_single || source.is_some_and(|source| table.make_queue(&source).is_err()) {
                let completed = self.complete_pending(lookup, &mut value);
                each(index, completed.map(|(is_found, _)| is_found.then_some(&mut value)));
                continue;
            }
            while let Err((refused, _)) = table.start(lookup, index) {
                table.complete(true, &mut |index, done| each(index, done.value));
                lookup = refused;
            }
        }
        let Some(mut table) = lent else { return };
        while !table.is_empty() {
            table.complete(true, &mut |index, done| each(index, done.value));
        }
        self.put_back(table);
    }

    /// Lends a table without lookups to `work`. A table in which lookups remain is dropped
    /// afterwards.
    pub fn with_table<R>(&self, work: impl FnOnce(&mut InFlightReads<usize>) -> R) -> R {
        let mut table = self.take();
        let result = work(&mut table);
        self.put_back(table);
        result
    }

    /// Drops the tables that are not used, with their queues and buffers. No table is kept from now
    /// on.
    pub fn close(&self) {
        let closed = Idle { is_closed: true, ..Idle::default() };
        let idle = std::mem::replace(&mut *self.idle.lock(), closed);
        drop(idle);
    }

    /// Lends a table without lookups, until [`ReadPool::put_back`].
    pub fn take(&self) -> InFlightReads<usize> {
        let idle = self.idle.lock().tables.pop();
        let spare_max = if self.keeps { DEPTH } else { 0 };
        idle.unwrap_or_else(|| InFlightReads::keeping(DEPTH, spare_max, &self.budget))
    }

    /// Takes a table back. One in which lookups remain is dropped, which cancels them.
    pub fn put_back(&self, mut table: InFlightReads<usize>) {
        if !table.is_empty() || !self.keeps {
            return;
        }
        table.trim();
        let mut idle = self.idle.lock();
        if idle.tables.len() < IDLE_MAX && !idle.is_closed {
            idle.tables.push(table);
        }
    }
}

impl std::fmt::Debug for ReadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadPool")
            .field("idle", &self.idle.lock().tables.len())
            .finish_non_exhaustive()
    }
}

/// Waits until some lookups have ended, and calls `found` for each.
fn complete_some(table: &mut InFlightReads<usize>, found: &mut Found<'_>) -> Result<()> {
    let mut failure = None;
    table.complete(true, &mut |index, done| match done.value {
        Ok(value) => found(index, value.map(|value| value.as_slice())),
        Err(error) => failure = Some(error),
    });
    failure.map_or(Ok(()), Err)
}
