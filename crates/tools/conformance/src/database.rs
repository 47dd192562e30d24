//! One engine and a real journal on one device: the least that a database does.
//!
//! 1. Open: the engine from `engine/`, then the journal from `journal/`, whose records above the
//!    engine's `persisted()` are applied; the sequence follows.
//! 2. Write: admission, a number, the journal, the engine, and then the wait for durability.
//! 3. Flush: the engine's own, then the journal forgets the writes that the engine has.
//!
//! Mostly one thread uses it: the checks of crashes and errors need runs that a seed repeats.

mod failed;
mod record;

use std::sync::{Arc, OnceLock};

use device::Device;
use engine::{Barrier, BlockingWrites, Demand, Error, Op, Reservation, SeqNo, Ticket, Wait};
use environment::Environment;
use journal::{Durability, Journal};

use crate::Fixture;
use crate::host::{self, Opened};
use crate::operation::Step;

pub(crate) use failed::Failed;

pub(crate) const ENGINE_DIR: &str = "engine";
pub(crate) const JOURNAL_DIR: &str = "journal";

/// Small, so that short runs begin and trim segments.
const SEGMENT_BYTES: u64 = 4 << 10;
const BUFFER_BYTES: usize = 2 << 10;

/// The journal, once it is open; during replay everything handed out is durable already.
#[derive(Debug, Default)]
struct JournalBarrier(OnceLock<Arc<Journal>>);

impl Barrier for JournalBarrier {
    fn reach(&self, seqno: SeqNo) -> engine::Result<SeqNo> {
        let Some(journal) = self.0.get() else { return Ok(seqno) };
        let upto = seqno.min(journal.last_record());
        let reached = journal.wait(seqno, Durability::Synced);
        reached.map(|()| upto).map_err(|error| match error {
            journal::Error::NoRoom { cause } => engine::Error::NoRoomForJournal { cause },
            journal::Error::Stopped { cause } => engine::Error::of_journal(cause),
            // A wait has no other failure.
            _ => engine::Error::of_journal(engine::Error::Closed),
        })
    }
    fn is_journaled(&self) -> bool {
        true
    }
}

pub(crate) struct Database {
    pub(crate) opened: Opened,
    journal: Arc<Journal>,
    /// The last write that opening found.
    pub(crate) recovered: u64,
}

impl Database {
    /// Opens the store on `device`, or makes one there.
    pub(crate) fn open(
        fixture: &dyn Fixture,
        device: &Arc<dyn Device>,
        seed: u64,
    ) -> Result<Self, Failed> {
        Self::open_by(host::open, fixture, device, seed)
    }

    /// The same for many threads, with a pool that has some too.
    pub(crate) fn open_threaded(
        fixture: &dyn Fixture,
        device: &Arc<dyn Device>,
        seed: u64,
    ) -> Result<Self, Failed> {
        Self::open_by(host::open_threaded, fixture, device, seed)
    }

    fn open_by(
        open: host::Open,
        fixture: &dyn Fixture,
        device: &Arc<dyn Device>,
        seed: u64,
    ) -> Result<Self, Failed> {
        for dir in [ENGINE_DIR, JOURNAL_DIR] {
            device.create_dir(dir)?;
        }
        device.sync_dir("")?;
        let barrier = Arc::<JournalBarrier>::default();
        let engine_dir = device.subdevice(ENGINE_DIR)?;
        let opened = open(fixture, &engine_dir, barrier.clone(), seed)?;
        let persisted = opened.engine.persisted();
        let mut replay = |seqno: SeqNo, payload: &[u8]| -> Result<(), journal::ReplayError> {
            let steps = record::decode(payload)?;
            let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
            opened.engine.replay(&ops, seqno)?;
            opened.recovered_to(seqno.get());
            opened.turn();
            Ok(())
        };
        let options = journal::Options {
            segment_bytes: SEGMENT_BYTES,
            buffer_bytes: BUFFER_BYTES,
            ..Default::default()
        };
        let (environment, _clock) = Environment::simulated(seed);
        let (journal, recovery) = Journal::open(
            Arc::clone(device),
            JOURNAL_DIR,
            options,
            &environment,
            persisted,
            &mut replay,
        )?;
        if persisted > recovery.last {
            return Err(Failed::Ahead { persisted, journal: recovery.last });
        }
        opened.recovered_to(recovery.last.get());
        let journal = Arc::new(journal);
        let _ = barrier.0.set(Arc::clone(&journal));
        Ok(Self { opened, journal, recovered: recovery.last.get() })
    }

    /// Journals and applies one write, and waits until it is as safe as `durability` requires.
    /// Returns its number. If threads call this concurrently, no two write the same key (law L6).
    pub(crate) fn write(&self, steps: &[Step], durability: Durability) -> Result<u64, Failed> {
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        let engine = &self.opened.engine;
        let granted = engine.reserve(&Demand::Ops(&ops), Wait::Yes)?;
        let mut room = granted.unwrap_or_else(Reservation::uncounted);
        let ticket = self.number(steps)?;
        let seqno = ticket.seqno();
        engine.apply(&ops, seqno, &mut room)?;
        drop((ticket, room));
        self.opened.turn();
        self.journal.wait(seqno, durability)?;
        Ok(seqno.get())
    }

    /// Returns whether the engine refuses a write for its length alone.
    pub(crate) fn refuses(&self, steps: &[Step]) -> bool {
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        let reserved = self.opened.engine.reserve(&Demand::Ops(&ops), Wait::No);
        matches!(reserved, Err(Error::WriteTooLarge { .. }))
    }

    /// Takes the write's number and journals it. No thread waits for a number under the journal's
    /// lock, which a flush takes that another write may wait for.
    fn number(&self, steps: &[Step]) -> Result<Ticket<'_>, Failed> {
        let sequence = &self.opened.sequence;
        loop {
            let mut taken = None;
            let number = || Some(taken.insert(sequence.try_begin()?).seqno());
            self.journal.append_numbered(number, |_, bytes| record::encode(steps, bytes))?;
            match taken {
                Some(ticket) => return Ok(ticket),
                None => sequence.wait_for_room(),
            }
        }
    }

    /// Makes the engine's own files cover everything.
    pub(crate) fn flush(&self) -> Result<(), Failed> {
        self.opened.engine.flush()?;
        self.trim()
    }

    /// Trims the journal up to the number that the engine has persisted, which a host may do at any
    /// time.
    pub(crate) fn trim(&self) -> Result<(), Failed> {
        if !self.opened.engine.make_durable()? {
            return Ok(());
        }
        Ok(self.journal.trim(self.opened.engine.persisted())?)
    }

    /// Returns the number of the newest write that the journal was given.
    pub(crate) fn journaled(&self) -> u64 {
        self.journal.last().get()
    }

    /// Waits until every write is synced.
    pub(crate) fn wait_durable(&self) -> Result<(), Failed> {
        Ok(self.journal.wait(self.journal.last(), Durability::Synced)?)
    }

    /// Closes in order.
    pub(crate) fn close(&self) -> Result<(), Failed> {
        self.opened.engine.close()?;
        Ok(self.journal.close()?)
    }
}

/// Verifies the engine's files and the journal offline.
pub(crate) fn check(fixture: &dyn Fixture, device: &Arc<dyn Device>) -> Result<(), String> {
    let engine = device.subdevice(ENGINE_DIR).map_err(|error| error.to_string())?;
    fixture.check(&engine).map_err(|error| format!("the engine's offline check: {error}"))?;
    let report = journal::check(device.as_ref(), JOURNAL_DIR).map_err(|error| error.to_string())?;
    match report.damage.first() {
        Some(damage) => Err(format!("the journal's offline check: {damage}")),
        None => Ok(()),
    }
}
