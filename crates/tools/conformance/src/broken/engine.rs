//! The reference engine with a bug in its results or effects.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use device::{Device, Mode};
use engine::{
    At, BlockingWrites, Capabilities, Cursor, Demand, Direction, EachLookup, Engine, Error,
    FoundState, GoOn, Host, KeyRange, Lookup, Op, PendingLookup, Pin, Progress, ReadRequest,
    Reservation, Result, SeqNo, Stats, Wait,
};
use environment::Seed;
use reads::{BlockingReads, ReadPool};
use sync::locks::Mutex;

use super::{Flaw, Graveyard, scans};
use crate::reference::Reference;

/// Keys are cut here by the bug that cuts them.
const KEY_BYTES_KEPT: usize = 255;

pub(super) struct Broken {
    inner: Arc<Reference>,
    flaw: Flaw,
    host: Host,
    graveyard: Graveyard,
    calls: AtomicU64,
    top: AtomicU64,
    claimed: AtomicU64,
    flushing: AtomicBool,
    pin: Mutex<Option<Arc<Pin>>>,
    remembered: Mutex<HashMap<Vec<u8>, Option<Vec<u8>>>>,
    /// The neighbour of each key that is updated now, and its value before.
    copied: Mutex<HashMap<Vec<u8>, Pair>>,
}

/// A key, and its value if it has one.
type Pair = (Vec<u8>, Option<Vec<u8>>);

impl Broken {
    pub(super) fn new(
        inner: Reference,
        flaw: Flaw,
        host: Host,
        graveyard: Graveyard,
    ) -> Result<Self> {
        let broken = Self {
            top: AtomicU64::new(inner.persisted().get()),
            inner: Arc::new(inner),
            flaw,
            host,
            graveyard,
            calls: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            flushing: AtomicBool::new(false),
            pin: Mutex::default(),
            remembered: Mutex::default(),
            copied: Mutex::default(),
        };
        broken.bring_back()?;
        Ok(broken)
    }

    /// The bug that brings a deleted key back on opening.
    fn bring_back(&self) -> Result<()> {
        let mut graveyard = self.graveyard.lock();
        let persisted = self.inner.persisted();
        if persisted == SeqNo::ZERO {
            graveyard.clear();
        }
        match graveyard.pop() {
            Some((key, value)) if !self.inner.get(&key, &mut Vec::new())? => {
                let put = Op::Put { key: &key, value: &value };
                self.inner.write(&[put], persisted.next())
            }
            _ => Ok(()),
        }
    }

    fn every(&self, times: u64) -> bool {
        self.calls.fetch_add(1, SeqCst) % times == times - 1
    }

    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.inner.get(key, &mut value)?.then_some(value))
    }

    /// Returns the key that this bug makes of a key.
    fn key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        assert!(
            self.flaw != Flaw::PanicsOnEmptyKey || !key.is_empty(),
            "a key has a first byte, they said"
        );
        match self.flaw {
            Flaw::CutsLongKeys => &key[..key.len().min(KEY_BYTES_KEPT)],
            _ => key,
        }
    }

    /// Returns whether the host is replaying: it has numbered nothing this high yet.
    fn is_replay(&self, seqno: SeqNo) -> bool {
        self.host.sequence.last() < seqno
    }

    fn bury(&self, ops: &[Op<'_>]) -> Result<()> {
        for op in ops {
            if op.is_range() {
                continue;
            }
            if let (None, Some(value)) = (op.value(), self.value(op.key())?) {
                self.graveyard.lock().push((op.key().to_vec(), value));
            }
        }
        Ok(())
    }

    /// Reads a key, and waits for it.
    fn read(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        let pool = ReadPool::new(&self.host.memory);
        let is_found = pool.complete(self.inner.lookup(key, at, into)?, into)?;
        Ok(Lookup::ended(is_found))
    }

    /// Pins the present, for the bug that has no snapshots.
    fn sequence_pin(&self) -> Arc<Pin> {
        self.host.sequence.pin()
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        match self.flaw {
            Flaw::AppendsToTheBuffer => {
                let value = self.value(key)?;
                into.extend_from_slice(value.as_deref().unwrap_or_default());
                return Ok(value.is_some());
            }
            Flaw::AbsentDuringFlush if self.flushing.load(SeqCst) && self.every(3) => {
                return Ok(false);
            }
            Flaw::ServesStaleReads => {
                let present = self.value(key)?;
                let mut remembered = self.remembered.lock();
                let old = remembered.insert(key.to_vec(), present.clone());
                let served = if self.every(25) { old.unwrap_or(present) } else { present };
                into.clear();
                into.extend_from_slice(served.as_deref().unwrap_or_default());
                return Ok(served.is_some());
            }
            _ => {}
        }
        let found = self.inner.get(key, into)?;
        Ok(found && !(self.flaw == Flaw::EmptyValueIsAbsence && into.is_empty()))
    }

    /// The lookup of the value that an update is to replace.
    fn lookup_for_update(&self, key: &[u8], into: &mut Vec<u8>) -> Result<Lookup> {
        match self.flaw {
            Flaw::ShowsOperatorsOldValues => {
                let present = self.value(key)?;
                let old = self.remembered.lock().insert(key.to_vec(), present.clone());
                let shown = if self.every(9) { old.unwrap_or(present) } else { present };
                into.clear();
                into.extend_from_slice(shown.as_deref().unwrap_or_default());
                Ok(Lookup::ended(shown.is_some()))
            }
            Flaw::LosesUpdates => {
                let neighbour = Self::neighbour(key).unwrap_or_default();
                let copy = self.value(&neighbour)?;
                self.copied.lock().insert(key.to_vec(), (neighbour, copy));
                std::thread::yield_now();
                self.get(key, into).map(Lookup::ended)
            }
            _ => self.get(key, into).map(Lookup::ended),
        }
    }

    /// Returns the neighbour whose copy a read-modify-write takes along.
    fn neighbour(key: &[u8]) -> Option<Vec<u8>> {
        let mut neighbour = key.to_vec();
        *neighbour.last_mut()? ^= 1;
        Some(neighbour)
    }
}

impl FoundState for Broken {
    fn make_durable(&self) -> Result<bool> {
        self.inner.make_durable()
    }
}

impl Engine for Broken {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        let key = self.key(key);
        match (self.flaw, at) {
            (Flaw::ViewIsNoSnapshot, At::Pin(_)) => {
                self.read(key, At::Pin(&self.sequence_pin()), into)
            }
            (Flaw::ForgetsThePin, At::Pin(_)) => match self.inner.lookup(key, at, into)? {
                Lookup::Pending(_) => self.inner.lookup(key, At::Newest, into),
                ended => Ok(ended),
            },
            (_, At::Pin(_)) => self.read(key, at, into),
            (Flaw::ConfirmsAnything, At::ForUpdate) => {
                Ok(match self.inner.lookup(key, at, into)? {
                    Lookup::Pending(inner) => Lookup::Pending(Box::new(Confirmed { inner })),
                    ended => ended,
                })
            }
            (Flaw::ReadsInLookup, At::Newest) => {
                self.host.device.exists("superblock")?;
                self.read(key, at, into)
            }
            (Flaw::ConfirmsAnything, At::Newest) => self.inner.lookup(key, at, into),
            (_, At::ForUpdate) => self.lookup_for_update(key, into),
            (_, At::Newest) => self.get(key, into).map(Lookup::ended),
        }
    }

    fn lookup_many(&self, keys: &[&[u8]], at: At<'_>, each: &mut EachLookup<'_>) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            if self.flaw == Flaw::MixesUpMultiGet && keys[..index].contains(key) {
                continue;
            }
            let mut value = Vec::new();
            each(index, self.lookup(key, at, &mut value)?.with_value(&value))?;
        }
        Ok(())
    }

    fn scan(
        &self,
        range: KeyRange,
        direction: Direction,
        pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        let pin = match self.flaw {
            Flaw::ViewIsNoSnapshot => self.sequence_pin(),
            Flaw::ViewMissesTheLastWrite => {
                let before = self.pin.lock().replace(Arc::clone(&pin));
                before.filter(|_| self.every(3)).unwrap_or(pin)
            }
            _ => pin,
        };
        scans::scan(&self.inner, self.flaw, range, direction, pin)
    }

    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>> {
        match (self.flaw, self.inner.reserve(demand, wait)) {
            (Flaw::AdmitsAnything, Err(Error::OutOfMemory { .. })) => {
                Ok(Some(Reservation::uncounted()))
            }
            (Flaw::AdmitsAnythingWithoutWait, Err(Error::OutOfMemory { .. }))
                if wait == Wait::No =>
            {
                Ok(Some(Reservation::uncounted()))
            }
            (Flaw::GoesOnAfterFailure, Err(Error::ReadOnly { .. })) => {
                Ok(Some(Reservation::uncounted()))
            }
            (Flaw::ForgetsToRelease, Ok(Some(room))) => {
                std::mem::forget(room);
                Ok(Some(Reservation::uncounted()))
            }
            (_, granted) => granted,
        }
    }

    fn apply(&self, ops: &[Op<'_>], seqno: SeqNo, room: &mut Reservation<'_>) -> Result<()> {
        let starts: Vec<Vec<u8>> = ops.iter().map(|op| [op.key(), b"\0"].concat()).collect();
        let cut: Vec<Op<'_>> = ops
            .iter()
            .zip(&starts)
            .map(|(op, behind_start)| match *op {
                Op::Put { key, value } => Op::Put { key: self.key(key), value },
                Op::Delete { key } => Op::Delete { key: self.key(key) },
                Op::DeleteRange { end, .. } if self.flaw == Flaw::SparesTheFirstOfARange => {
                    Op::DeleteRange { start: behind_start, end }
                }
                range @ Op::DeleteRange { .. } => range,
            })
            .collect();
        let mut ops = cut.as_slice();
        self.top.fetch_max(seqno.get(), SeqCst);
        match self.flaw {
            Flaw::LosesAWrite if self.every(40) => return Ok(()),
            Flaw::AdmitsAnything | Flaw::AdmitsAnythingWithoutWait
                if !self.is_replay(seqno) && room.bytes() == 0 =>
            {
                drop(self.inner.reserve(&Demand::Ops(ops), Wait::Yes)?);
            }
            Flaw::WaitsInApply if self.every(10) => drop(self.host.device.exists("superblock")?),
            Flaw::SpendsMoreThanReserved => self.host.memory.charge_anyway(64 << 10),
            Flaw::AppliesStepByStep => {
                for op in ops {
                    self.inner.apply(std::slice::from_ref(op), seqno, room)?;
                    std::thread::yield_now();
                }
                return Ok(());
            }
            Flaw::ReplaysHalfABatch if self.is_replay(seqno) && self.every(3) => {
                ops = &ops[..1.min(ops.len())];
            }
            Flaw::ResurrectsDeletes => self.bury(ops)?,
            Flaw::LosesUpdates => {
                self.inner.apply(ops, seqno, room)?;
                let copied = ops.first().and_then(|op| self.copied.lock().remove(op.key()));
                if let (Some((neighbour, Some(value))), [_]) = (copied, ops) {
                    return self.put(&neighbour, &value, seqno);
                }
                return Ok(());
            }
            Flaw::NumbersByArrival if seqno > self.inner.persisted() => {
                let newest = self.calls.load(SeqCst).max(seqno.get());
                self.calls.store(newest + 1, SeqCst);
                return self.inner.apply(ops, SeqNo::new(newest), room);
            }
            Flaw::RefusesHalf => {
                let applied = self.inner.apply(ops, seqno, room);
                if let Err(Error::KeyTooLong { .. }) = applied {
                    let good = |op: &&Op<'_>| op.check().is_ok();
                    let rest: Vec<Op<'_>> = ops.iter().filter(good).copied().collect();
                    self.inner.apply(&rest, seqno, room)?;
                }
                return applied;
            }
            Flaw::GoesOnAfterFailure => {
                return match self.inner.apply(ops, seqno, room) {
                    Err(Error::ReadOnly { .. }) => Ok(()),
                    applied => applied,
                };
            }
            _ => {}
        }
        self.inner.apply(ops, seqno, room)
    }

    fn walk(&self, from: Option<&[u8]>, visit: &mut engine::Visit<'_>) -> Result<()> {
        // Behind the place of `from`, not at it.
        let skipped = from.filter(|_| self.flaw == Flaw::WalkGoesOnTooFar);
        let mut is_first = true;
        self.inner.walk(from, &mut |key, value| {
            let is_skipped = std::mem::take(&mut is_first) && skipped.is_some();
            if is_skipped { ControlFlow::Continue(()) } else { visit(key, value) }
        })
    }

    fn flush(&self) -> Result<()> {
        self.flushing.store(true, SeqCst);
        if self.flaw == Flaw::AbsentDuringFlush {
            std::thread::yield_now();
        }
        if self.flaw == Flaw::WritesSalt {
            let salt = Seed::from_entropy().get().to_le_bytes();
            self.host.device.open("salt", Mode::Create)?.write_at(0, &salt)?;
        }
        let flushed = self.inner.flush();
        self.flushing.store(false, SeqCst);
        if flushed.is_ok() {
            self.claimed.store(self.top.load(SeqCst), SeqCst);
        }
        flushed
    }

    fn checkpoint(&self, into: Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        if self.flaw == Flaw::HalfCheckpoint && self.every(2) {
            return Ok(());
        }
        self.inner.checkpoint(into, go_on)
    }

    fn persisted(&self) -> SeqNo {
        match self.flaw {
            Flaw::PersistedTooHigh => SeqNo::new(self.top.load(SeqCst)),
            Flaw::PersistedIsTheNewest => {
                self.inner.persisted().max(SeqNo::new(self.claimed.load(SeqCst)))
            }
            _ => self.inner.persisted(),
        }
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn close(&self) -> Result<()> {
        if self.flaw == Flaw::AnswersAfterClose { Ok(()) } else { self.inner.close() }
    }
}

impl Broken {
    fn put(&self, key: &[u8], value: &[u8], seqno: SeqNo) -> Result<()> {
        self.inner.write(&[Op::Put { key, value }], seqno)
    }
}

/// A lookup that confirms every value.
struct Confirmed {
    inner: Box<dyn PendingLookup>,
}

impl PendingLookup for Confirmed {
    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn reads(&self) -> &[ReadRequest] {
        self.inner.reads()
    }

    fn resume(
        &mut self,
        read: usize,
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        self.inner.resume(read, bytes, into)
    }

    fn is_newest(&self) -> bool {
        true
    }
}
