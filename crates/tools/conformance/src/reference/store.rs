//! The handle and its paths.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use device::{Device, Mode};
use engine::{
    At, Capabilities, Cursor, Demand, DeviceReads, Direction, Engine, Error, FoundState, GoOn,
    Host, KeyRange, Lookup, Op, Pin, ReadRequest, Reservation, Result, Room, SeqNo, Stats, TryNext,
    Wait,
};
use sync::locks::{Mutex, RwLock};

use super::driver::DRIVER;
use super::pending::{Moment, Pending, is_on_disk};
use super::snapshot;
use super::superblock::{Commit, Superblock};
use super::versions::{Pair, Versions, version_bytes};

/// Bytes of the block that pending lookups read.
const BLOCK_BYTES: usize = 512;

/// The reference engine, opened.
///
/// # Concurrency
/// `committed` is locked before `versions`, `failure` after both.
pub struct Reference {
    host: Host,
    superblock: Superblock,
    versions: Arc<RwLock<Versions>>,
    /// The snapshot that counts; locked for the length of a flush.
    committed: Mutex<Commit>,
    persisted: Arc<AtomicU64>,
    /// The error with which later writes are refused.
    failure: Arc<Mutex<Option<Error>>>,
    /// The read of a pending lookup: a block in memory that says nothing.
    block: ReadRequest,
    /// Bytes of reservations.
    reserved: AtomicU64,
}

impl Reference {
    /// Opens the directory that `host` hands in.
    ///
    /// # Errors
    /// [`Error::Corruption`], [`Error::Device`].
    pub fn open(host: Host) -> Result<Self> {
        let (superblock, commit) = Superblock::open(&host.device)?;
        let pairs = match commit.generation {
            0 => Vec::new(),
            _ => snapshot::read(&host.device, commit)?,
        };
        let mut versions = Versions::default();
        for (key, value) in &pairs {
            let put = [Op::Put { key, value }];
            let (bytes, _) = versions.apply(&put, commit.persisted, 0, 0);
            host.memory.charge_anyway(bytes);
        }
        versions.top = commit.persisted;
        let memory = device::memory();
        let file = memory.open("block", Mode::Create)?;
        file.write_at(0, &[0; BLOCK_BYTES])?;
        let source = Arc::new(DeviceReads(memory));
        Ok(Self {
            reserved: AtomicU64::new(0),
            block: ReadRequest { source, file, offset: 0, len: BLOCK_BYTES },
            superblock,
            versions: Arc::new(RwLock::new(versions)),
            committed: Mutex::new(commit),
            persisted: Arc::new(AtomicU64::new(commit.persisted)),
            failure: Arc::default(),
            host,
        })
    }

    fn check_writable(&self) -> Result<()> {
        match &*self.failure.lock() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    fn check_open(&self) -> Result<()> {
        match &*self.failure.lock() {
            Some(Error::Closed) => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    fn fail(&self, error: Error) -> Error {
        if matches!(&error, Error::Device(device) if device.is_out_of_files()) {
            return error;
        }
        self.failure.lock().get_or_insert_with(|| error.poisoning());
        error
    }

    fn apply_locked(
        &self,
        versions: &mut Versions,
        ops: &[Op<'_>],
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) {
        let persisted = self.persisted.load(SeqCst);
        let horizon = self.host.sequence.horizon().get();
        let (added, dropped) = versions.apply(ops, seqno.get(), horizon, persisted);
        // The budget has these bytes already.
        let spent = room.spend(added);
        self.reserved.fetch_sub(spent, SeqCst);
        self.host.memory.charge_anyway(added - spent);
        self.host.memory.release(dropped);
    }

    /// Returns everything that is applied, at one moment that is not within a write. While a host
    /// replays, its sequence is ahead of the applied writes; hence the highest number applied.
    fn moment(&self) -> (Arc<Pin>, u64) {
        let pin = self.host.sequence.pin();
        let upto = self.versions.read().top.min(pin.seqno().get());
        (pin, upto)
    }

    fn write_snapshot(
        &self,
        device: &Arc<dyn Device>,
        generation: u64,
        go_on: &GoOn<'_>,
    ) -> Result<Commit> {
        let (_pin, upto) = self.moment();
        self.host.barrier.reach(SeqNo::new(upto))?;
        let bytes = snapshot::encode(generation, upto, self.versions.read().live(upto));
        snapshot::write(device, generation, upto, &bytes, go_on)
    }
}

/// The rest of a reservation returns to the budget, which counts what was applied.
impl Room for Reference {
    fn release(&self, bytes: u64, _slot: u32) {
        self.reserved.fetch_sub(bytes, SeqCst);
        self.host.memory.release(bytes);
    }
}

impl FoundState for Reference {}

impl Engine for Reference {
    fn capabilities(&self) -> Capabilities {
        DRIVER.capabilities
    }

    fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        self.check_open()?;
        let upto = match at {
            At::Newest | At::ForUpdate => u64::MAX,
            At::Pin(pin) => pin.seqno().get(),
        };
        let versions = self.versions.read();
        let value = versions.get(key, upto);
        if is_on_disk(&versions, self.persisted.load(SeqCst), key) {
            let moment = match at {
                At::Newest => Moment::End,
                At::Pin(_) => Moment::Pin(upto),
                At::ForUpdate => Moment::Beginning(versions.newest(key), value.map(<[u8]>::to_vec)),
            };
            return Ok(Lookup::Pending(Box::new(Pending {
                versions: Arc::clone(&self.versions),
                failure: Arc::clone(&self.failure),
                key: key.to_vec(),
                moment,
                read: [self.block.clone()],
            })));
        }
        into.clear();
        into.extend_from_slice(value.unwrap_or_default());
        Ok(Lookup::ended(value.is_some()))
    }

    fn scan(
        &self,
        range: KeyRange,
        direction: Direction,
        pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        self.check_open()?;
        let versions = Arc::clone(&self.versions);
        let (all, at) = (range.clone(), None);
        Ok(Box::new(Walk { versions, pin, all, range, direction, at }))
    }

    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>> {
        self.check_writable()?;
        let bytes = match demand {
            Demand::Ops(ops) => ops.iter().map(version_bytes).sum(),
            Demand::Update { key, bytes_max } => version_bytes(&Op::Delete { key }) + bytes_max,
            Demand::Ingestion => 0,
        };
        match wait {
            Wait::Replay => self.host.memory.charge_anyway(bytes),
            Wait::No | Wait::Yes => self.host.memory.charge(bytes)?,
        }
        self.reserved.fetch_add(bytes, SeqCst);
        Ok(Some(Reservation::new(self, bytes, 0)))
    }

    fn apply(&self, ops: &[Op<'_>], seqno: SeqNo, room: &mut Reservation<'_>) -> Result<()> {
        self.check_writable()?;
        ops.iter().try_for_each(Op::check)?;
        if seqno > self.persisted() {
            self.apply_locked(&mut self.versions.write(), ops, seqno, room);
        }
        Ok(())
    }

    fn walk(&self, from: Option<&[u8]>, visit: &mut engine::Visit<'_>) -> Result<()> {
        engine::walk_in_order(self, self.host.sequence.pin(), from, visit)
    }

    fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let mut committed = self.committed.lock();
        let before = *committed;
        let flushed = self
            .write_snapshot(&self.host.device, before.generation + 1, &engine::go_on)
            .and_then(|commit| self.superblock.commit(commit).map(|()| commit));
        *committed = flushed.map_err(|error| self.fail(error))?;
        self.persisted.store(committed.persisted, SeqCst);
        let horizon = self.host.sequence.horizon().get();
        let dropped = self.versions.write().collect(horizon, committed.persisted);
        self.host.memory.release(dropped);
        if before.generation > 0 {
            let old = snapshot::name(before.generation);
            match self.host.device.remove(&old) {
                // The next opening removes it.
                Err(error) if error.is_retryable() => {}
                removed => removed.map_err(|error| self.fail(error.into()))?,
            }
        }
        Ok(())
    }

    fn checkpoint(&self, into: Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        self.check_open()?;
        let (superblock, before) = Superblock::open(&into)?;
        let commit = self.write_snapshot(&into, before.generation + 1, go_on)?;
        superblock.commit(commit)
    }

    fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(SeqCst))
    }

    fn stats(&self) -> Stats {
        Stats {
            live_keys: Some(self.versions.read().live(u64::MAX).count() as u64),
            memory_bytes: self.host.memory.used(),
            disk_bytes: self.committed.lock().bytes,
            reserved: self.reserved.load(SeqCst),
            ..Stats::default()
        }
    }

    fn close(&self) -> Result<()> {
        *self.failure.lock() = Some(Error::Closed);
        Ok(())
    }
}

/// A scan that looks for its next pair again each time, in the rest of its range.
struct Walk {
    versions: Arc<RwLock<Versions>>,
    pin: Arc<Pin>,
    /// The range that it began with.
    all: KeyRange,
    range: KeyRange,
    direction: Direction,
    at: Option<Pair>,
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let upto = self.pin.seqno().get();
        self.at = self.versions.read().next(&self.range, self.direction, upto);
        if let Some((key, _)) = &self.at {
            let rest = std::ops::Bound::Excluded(key.clone());
            match self.direction {
                Direction::Forward => self.range.start = rest,
                Direction::Backward => self.range.end = rest,
            }
        }
        Ok(self.at.as_ref().map(|(key, value)| (key.as_slice(), value.as_slice())))
    }

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        self.next().map(TryNext::known)
    }

    fn seek(&mut self, key: &[u8]) {
        self.range = self.all.from_key(key, self.direction);
    }
}
