//! An engine of a keyspace, whose errors name files by their paths in the database.
//!
//! An engine knows the names in its own directory only. Here each error of each call gets the
//! directory. The engine is no trait object in here, so that a call costs nothing more. Lookups,
//! cursors and ingestions are the engine's own, and the host names the files of their errors.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use device::Device;

use crate::background_errors::BackgroundError;
use crate::batch::Op;
use crate::contract::{
    Capabilities, Cursor, Engine, FoundState, GoOn, Operator, Updated, Updates, Visit,
};
use crate::error::Result;
use crate::ingestion::Ingestion;
use crate::lookup::{At, EachLookup, Lookup};
use crate::ranges::Ranges;
use crate::reservation::{Demand, Reservation, Wait};
use crate::resizable_memory::ResizableMemory;
use crate::stats::Stats;
use sequence::Pin;
use sequence::{Direction, KeyRange};

/// The engine, and its directory in the database.
pub(crate) struct Placed<E> {
    engine: E,
    dir: String,
}

impl<E> Placed<E> {
    pub(crate) fn new(engine: E, dir: &str) -> Self {
        Self { engine, dir: dir.to_owned() }
    }

    #[inline]
    fn name<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| error.in_dir(&self.dir))
    }
}

impl<E: Engine> Engine for Placed<E> {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    // The host names the files of a lookup's errors: most of them are those of its reads.
    fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        self.engine.lookup(key, at, into)
    }

    fn lookup_many(&self, keys: &[&[u8]], at: At<'_>, each: &mut EachLookup<'_>) -> Result<()> {
        self.engine.lookup_many(keys, at, each)
    }

    fn scan(
        &self,
        range: KeyRange,
        direction: Direction,
        pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        self.name(self.engine.scan(range, direction, pin))
    }

    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>> {
        self.name(self.engine.reserve(demand, wait))
    }

    fn apply(&self, ops: &[Op<'_>], seqno: SeqNo, room: &mut Reservation<'_>) -> Result<()> {
        self.name(self.engine.apply(ops, seqno, room))
    }

    fn updates(&self) -> Option<&dyn Updates> {
        self.engine.updates().map(|_| self as &dyn Updates)
    }

    fn walk(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        self.name(self.engine.walk(from, visit))
    }

    fn position(&self, key: &[u8]) -> u64 {
        self.engine.position(key)
    }

    fn ingestion(&self) -> Result<Box<dyn Ingestion>> {
        self.name(self.engine.ingestion())
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        self.engine.ranges().map(|_| self as &dyn Ranges)
    }

    fn flush(&self) -> Result<()> {
        self.name(self.engine.flush())
    }

    fn checkpoint(&self, into: Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        self.name(self.engine.checkpoint(into, go_on))
    }

    fn persisted(&self) -> SeqNo {
        self.engine.persisted()
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        let named = |error: BackgroundError| BackgroundError {
            cause: error.cause.in_dir(&self.dir),
            ..error
        };
        self.engine.background_errors().into_iter().map(named).collect()
    }

    fn memory(&self) -> Option<&dyn ResizableMemory> {
        self.engine.memory()
    }

    fn close(&self) -> Result<()> {
        self.name(self.engine.close())
    }
}

impl<E: Engine> FoundState for Placed<E> {
    fn make_durable(&self) -> Result<bool> {
        self.name(self.engine.make_durable())
    }
}

impl<E: Engine> Updates for Placed<E> {
    fn try_update(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<Updated> {
        let Some(updates) = self.engine.updates() else {
            unreachable!("it is made of an engine with updates")
        };
        self.name(updates.try_update(key, operator, seqno, room))
    }
}

impl<E: Engine> Ranges for Placed<E> {
    fn compact(&self, range: &KeyRange) -> Result<()> {
        self.engine.ranges().map_or(Ok(()), |ranges| self.name(ranges.compact(range)))
    }

    fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        self.engine.ranges().map_or(Ok(0), |ranges| self.name(ranges.approximate_bytes(range)))
    }
}
