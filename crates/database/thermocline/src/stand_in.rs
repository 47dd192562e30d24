//! An engine without pairs that acts as a test says, at moments at which no real one can be held.

use std::sync::Arc;

use codec::SeqNo;
use device::{Mode, Queue};
use engine::{
    At, Capabilities, Change, Demand, DeviceReads, Engine, FoundState, GoOn, Lookup, Op, Operator,
    PendingLookup, Progress, ReadRequest, ReadSource, Reservation, ResizableMemory, Result, Room,
    Stats, Updated, Updates, Visit, Wait,
};
use memory_budget::MemoryNeeds;

use crate::database::Db;
use crate::expiry::ValueForm;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::{InstanceFiles, KeyspaceEntry, KeyspaceInstance};
use crate::options::KeyspaceOptions;

/// The behavior of the engine in each call.
pub(crate) struct StandIn {
    /// Whether memory knows that a key has no value.
    pub(crate) knows_keys: bool,
    /// The lookup of a key that memory does not know.
    pub(crate) lookup: Box<dyn Fn() -> OneRead + Send + Sync>,
    /// While it reserves room for a writer that may wait.
    pub(crate) within_reserve: Box<dyn Fn() + Send + Sync>,
    /// Whether it has room for a write without waiting.
    pub(crate) has_room: Box<dyn Fn() -> bool + Send + Sync>,
    /// While a write has its number, and is not applied yet.
    pub(crate) within_apply: Box<dyn Fn() + Send + Sync>,
    pub(crate) within_flush: Box<dyn Fn() + Send + Sync>,
    /// The number up to which its own files have every write.
    pub(crate) persisted: Box<dyn Fn() -> SeqNo + Send + Sync>,
    /// Once the operator was called, and before its result counts.
    pub(crate) within_rmw: Box<dyn Fn() + Send + Sync>,
    pub(crate) needs: Option<MemoryNeeds>,
    /// Maps the requested limit to the one that it has.
    pub(crate) resize: Box<dyn Fn(u64) -> u64 + Send + Sync>,
}

impl Default for StandIn {
    fn default() -> Self {
        Self {
            knows_keys: true,
            lookup: Box::new(OneRead::default),
            within_reserve: Box::new(|| ()),
            has_room: Box::new(|| true),
            within_apply: Box::new(|| ()),
            within_flush: Box::new(|| ()),
            persisted: Box::new(|| SeqNo::ZERO),
            within_rmw: Box::new(|| ()),
            needs: None,
            resize: Box::new(|limit| limit),
        }
    }
}

impl FoundState for StandIn {}

impl Engine for StandIn {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "stand-in",
            ordered: false,
            deletes_ranges: false,
            orders_writes: true,
            flush_rewrites_all: false,
            counts_keys: false,
        }
    }

    fn lookup(&self, _key: &[u8], _at: At<'_>, _into: &mut Vec<u8>) -> Result<Lookup> {
        Ok(match self.knows_keys {
            true => Lookup::Absent,
            false => Lookup::Pending(Box::new((self.lookup)())),
        })
    }

    fn updates(&self) -> Option<&dyn Updates> {
        Some(self)
    }

    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>> {
        let bytes = demand.bytes();
        if wait == Wait::No && !(self.has_room)() {
            return Ok(None);
        }
        if wait != Wait::No {
            (self.within_reserve)();
        }
        Ok(Some(Reservation::new(self, bytes, 0)))
    }

    fn apply(&self, _ops: &[Op<'_>], _seqno: SeqNo, _room: &mut Reservation<'_>) -> Result<()> {
        (self.within_apply)();
        Ok(())
    }

    fn walk(&self, _from: Option<&[u8]>, _visit: &mut Visit<'_>) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        (self.within_flush)();
        Ok(())
    }

    fn checkpoint(&self, _into: Arc<dyn device::Device>, _go_on: &GoOn<'_>) -> Result<()> {
        Ok(())
    }

    fn persisted(&self) -> SeqNo {
        (self.persisted)()
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn memory(&self) -> Option<&dyn ResizableMemory> {
        self.needs.map(|_| self as &dyn ResizableMemory)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl ResizableMemory for StandIn {
    fn needs(&self) -> MemoryNeeds {
        self.needs.expect("its memory may change")
    }

    fn resize(&self, limit: u64) -> Result<u64> {
        Ok((self.resize)(limit))
    }
}

impl Room for StandIn {
    fn release(&self, _bytes: u64, _slot: u32) {}
}

impl Updates for StandIn {
    fn try_update(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        _seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<Updated> {
        if !self.knows_keys {
            return Ok(Updated::NeedsRead);
        }
        if let Change::Put(value) = operator.update(None)
            && (key.len() + value.len()) as u64 > room.bytes()
        {
            return Ok(Updated::NeedsRoom { bytes: value.len() as u64 });
        }
        (self.within_rmw)();
        Ok(Updated::Done)
    }
}

/// A lookup that needs one read, and then does what a test wants.
pub(crate) struct OneRead {
    read: [ReadRequest; 1],
    resume: Box<dyn FnMut() -> Result<Progress> + Send>,
}

impl OneRead {
    /// Makes a lookup that reads from `source`, and calls `resume` if the read succeeds.
    pub(crate) fn new(
        source: Arc<dyn ReadSource>,
        resume: impl FnMut() -> Result<Progress> + Send + 'static,
    ) -> Self {
        const BYTES: usize = 4096;
        let file = device::memory().open("block", Mode::Create).expect("a file in memory");
        file.write_at(0, &[0; BYTES]).expect("memory");
        let read = [ReadRequest { source, file, offset: 0, len: BYTES }];
        Self { read, resume: Box::new(resume) }
    }
}

/// Finds that the key has no value.
impl Default for OneRead {
    fn default() -> Self {
        Self::new(Arc::new(DeviceReads(device::memory())), || Ok(Progress::Absent))
    }
}

impl PendingLookup for OneRead {
    fn key(&self) -> &[u8] {
        &[]
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.read
    }

    fn resume(&mut self, _: usize, bytes: Result<&[u8]>, _: &mut Vec<u8>) -> Result<Progress> {
        bytes?;
        (self.resume)()
    }

    fn is_newest(&self) -> bool {
        true
    }
}

/// A source that has no queue.
pub(crate) struct NoQueue;

impl NoQueue {
    /// The failure of a lookup that reads from it.
    pub(crate) fn failure() -> device::Error {
        device::Error::Io {
            operation: device::FailedOperation::Queue,
            name: "ring".to_owned(),
            code: 5,
        }
    }
}

impl ReadSource for NoQueue {
    fn queue(&self, _depth: usize) -> device::Result<Box<dyn Queue>> {
        Err(Self::failure())
    }
}

/// Makes a keyspace that it fills, and returns a handle. No catalog has it.
pub(crate) fn stand_in(db: &Db, name: &str, journaled: bool, engine: StandIn) -> Keyspace {
    let inner = &db.inner;
    let device = Arc::clone(&inner.directory.device);
    let files = InstanceFiles::new(format!("keyspaces/{name}/999"), device);
    let instance = KeyspaceInstance::new(999, journaled, Box::new(engine), files, None, None);
    let options = KeyspaceOptions { journaled, ..KeyspaceOptions::default() };
    let entry = Arc::new(KeyspaceEntry::new(name, options, instance));
    inner.keyspaces.entries.write().insert(name.to_owned(), Arc::clone(&entry));
    let (inner, durability) = (Arc::clone(inner), db.durability);
    Keyspace { inner, entry, durability, form: ValueForm::Values }
}
