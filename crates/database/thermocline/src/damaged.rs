//! The engine of a keyspace that has none: its files were found damaged when the database was
//! opened, or it was dropped.
//!
//! Every call gets the cause. The engine of a damaged keyspace holds back the journal, which may
//! have writes that the files lack: a salvage of the keyspace reads them.

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{
    At, BackgroundError, Capabilities, Cursor, Demand, Direction, Engine, Error, FoundState, GoOn,
    KeyRange, Lookup, MemoryUse, Op, Pin, Reservation, Result, Stats, Visit, Wait, as_damage,
};

use crate::catalog::{self, Catalog, Entry};
use crate::drivers::EngineKind;
use crate::error;

/// Returns the damage, by which a keyspace was not opened. Any other failure is returned as an
/// error: also that a newer release wrote a file, so that such a database is opened as a whole or
/// not at all.
pub(crate) fn damage_of(failure: error::Error) -> error::Result<Corruption> {
    let error::Error::Engine(failure) = failure else { return Err(failure) };
    match as_damage(failure) {
        Error::Corruption(damage) => Ok(damage),
        failure => Err(failure.into()),
    }
}

/// Returns the catalog without the keyspaces that are damaged at first sight, and these.
pub(crate) fn part_damaged(
    device: &dyn Device,
    catalog: &Catalog,
) -> error::Result<(Catalog, Vec<(Entry, Corruption)>)> {
    let (mut sound, mut damaged) = (Vec::new(), Vec::new());
    for entry in &catalog.keyspaces {
        match damage_at_first_sight(device, catalog.id, entry)? {
            Some(damage) => damaged.push((entry.clone(), damage)),
            None => sound.push(entry.clone()),
        }
    }
    Ok((Catalog { keyspaces: sound, ..catalog.clone() }, damaged))
}

/// Returns the damage of a keyspace, as far as it shows when its need of memory is read.
fn damage_at_first_sight(
    device: &dyn Device,
    database: [u8; 16],
    entry: &Entry,
) -> error::Result<Option<Corruption>> {
    if let Err(missing) = catalog::check_present(device, database, entry) {
        return missing.corruption().cloned().ok_or(missing).map(Some);
    }
    let files = device.subdevice(&entry.dir())?;
    let looked = match entry.options.engine.driver().memory {
        MemoryUse::Data { footprint, .. } => footprint(&*files).map(drop),
        MemoryUse::Share { least_of, .. } => least_of(&*files).map(drop),
    };
    let failed = |failure: Error| damage_of(failure.in_dir(&entry.dir()).into()).map(Some);
    looked.map_or_else(failed, |()| Ok(None))
}

/// The engine of a damaged or dropped keyspace, which refuses every call.
pub(crate) struct Damaged {
    cause: Error,
    engine: EngineKind,
    since_ms: u64,
}

impl Damaged {
    pub(crate) fn new(cause: Error, engine: EngineKind, since_ms: u64) -> Self {
        Self { cause, engine, since_ms }
    }

    fn refusal<T>(&self) -> Result<T> {
        Err(self.cause.clone())
    }
}

impl FoundState for Damaged {}

impl Engine for Damaged {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: self.engine.name(),
            ordered: self.engine.is_ordered(),
            deletes_ranges: false,
            orders_writes: false,
            flush_rewrites_all: false,
            counts_keys: false,
        }
    }

    fn lookup(&self, _key: &[u8], _at: At<'_>, _into: &mut Vec<u8>) -> Result<Lookup> {
        self.refusal()
    }

    fn reserve(&self, _demand: &Demand<'_>, _wait: Wait) -> Result<Option<Reservation<'_>>> {
        self.refusal()
    }

    fn apply(&self, _ops: &[Op<'_>], _seqno: SeqNo, _room: &mut Reservation<'_>) -> Result<()> {
        self.refusal()
    }

    fn scan(
        &self,
        _range: KeyRange,
        _direction: Direction,
        _pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        self.refusal()
    }

    fn walk(&self, _from: Option<&[u8]>, _visit: &mut Visit<'_>) -> Result<()> {
        self.refusal()
    }

    /// Nothing was written to it.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self, _into: Arc<dyn Device>, _go_on: &GoOn<'_>) -> Result<()> {
        self.refusal()
    }

    fn persisted(&self) -> SeqNo {
        SeqNo::ZERO
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        let (cause, since_ms) = (self.cause.clone(), self.since_ms);
        vec![BackgroundError {
            work: "opening it",
            cause,
            since_ms,
            failures: 1,
            refuses_writes: true,
        }]
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
