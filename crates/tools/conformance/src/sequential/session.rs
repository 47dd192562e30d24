//! One store under test next to its model: opened, driven, closed, opened again.
//!
//! The session plays the host: it numbers writes, keeps a journal (in memory, with a mark up to
//! which it is durable) and replays it. The engine's device never loses anything here; the
//! operations decide which records the journal loses.

mod reads;
mod reopen;
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use device::Device;
use engine::{Barrier, Cursor, Pin, SeqNo};

use crate::Fixture;
use crate::failure::catch;
use crate::host::{self, Opened};
use crate::model::{Model, Pair};
use crate::operation::{Operation, Step};
use crate::trace::Trace;

/// Milliseconds that pass with each operation, so that periodic background work is due, too.
const PASSING_MS: u64 = 10;

/// The journal's durable mark; the barrier moves it.
#[derive(Debug, Default)]
struct SyncedMark {
    last: AtomicU64,
    synced: AtomicU64,
}

impl Barrier for SyncedMark {
    fn reach(&self, seqno: SeqNo) -> engine::Result<SeqNo> {
        let upto = seqno.get().min(self.last.load(SeqCst));
        self.synced.fetch_max(upto, SeqCst);
        Ok(SeqNo::new(upto))
    }
}

/// A pin, and the moment that it must show.
struct Held {
    pin: Arc<Pin>,
    upto: u64,
}

/// A scan that is under way, and the pairs that it still has to return.
struct Walking {
    cursor: Box<dyn Cursor>,
    expected: std::vec::IntoIter<Pair>,
}

/// The store under test.
pub(super) struct Session<'a> {
    fixture: &'a dyn Fixture,
    device: Arc<dyn Device>,
    memory_bytes: u64,
    journal: Vec<(u64, Vec<Step>)>,
    mark: Arc<SyncedMark>,
    opened: Opened,
    model: Model,
    /// The last write that was really applied.
    applied: u64,
    /// The highest `persisted()` seen.
    persisted: u64,
    views: Vec<Option<Held>>,
    cursors: Vec<Option<Walking>>,
    trace: Trace,
}

impl<'a> Session<'a> {
    /// Returns a fresh store.
    pub(super) fn open(fixture: &'a dyn Fixture, memory_bytes: u64) -> Result<Self, String> {
        let device = device::memory();
        let mark = Arc::<SyncedMark>::default();
        let opened = catch(|| {
            host::open(fixture, &device, mark.clone(), 0)
                .map_err(|error| format!("opening an empty directory: {error}"))
        })?;
        opened.memory.set_limit(memory_bytes);
        Ok(Self {
            fixture,
            device,
            memory_bytes,
            journal: Vec::new(),
            mark,
            opened,
            model: Model::default(),
            applied: 0,
            persisted: 0,
            views: Vec::new(),
            cursors: Vec::new(),
            trace: Trace::default(),
        })
    }

    /// Does one operation and compares its result with the model.
    pub(super) fn step(&mut self, operation: &Operation) -> Result<(), String> {
        self.trace.note(operation.to_string().as_bytes());
        catch(|| {
            self.dispatch(operation)?;
            self.opened.pass(PASSING_MS);
            self.opened.turn();
            self.check_persisted()
        })
    }

    fn dispatch(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Write(steps) => self.write(steps),
            Operation::Ingest { pairs } => self.ingest(pairs),
            Operation::Rmw { key, tweak } => self.rmw(key, tweak),
            Operation::Get { key } => self.get(key),
            Operation::MultiGet { keys } => self.multi_get(keys),
            Operation::Scan { range, direction } => self.scan(range, *direction),
            Operation::Pin { slot } => self.pin(*slot),
            Operation::Unpin { slot } => {
                self.views.get_mut(*slot).and_then(Option::take);
                Ok(())
            }
            Operation::ViewGet { slot, key } => self.view_get(*slot, key),
            Operation::ViewScan { slot, range, direction } => {
                self.view_scan(*slot, range, *direction)
            }
            Operation::Cursor { slot, range, direction } => {
                self.open_cursor(*slot, range, *direction)
            }
            Operation::Advance { slot, pairs } => self.advance(*slot, *pairs),
            Operation::Sync => {
                self.mark.synced.store(self.mark.last.load(SeqCst), SeqCst);
                Ok(())
            }
            Operation::Flush => self.flush(),
            Operation::Checkpoint => self.checkpoint(),
            Operation::Reopen => self.reopen(),
            Operation::LoseTail => self.lose_tail(),
            Operation::Refusals => self.refusals(),
        }
    }

    /// `persisted()` may neither fall nor name a number that was never written.
    fn check_persisted(&mut self) -> Result<(), String> {
        let persisted = self.opened.engine.persisted().get();
        let last = self.opened.sequence.last().get();
        if persisted < self.persisted || persisted > last {
            let before = self.persisted;
            return Err(format!(
                "persisted() is {persisted}: it was {before}, writes reach {last}"
            ));
        }
        self.persisted = persisted;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.opened.engine.flush().map_err(|error| format!("flush failed: {error}"))?;
        let persisted = self.opened.engine.persisted().get();
        if persisted < self.applied {
            let applied = self.applied;
            return Err(format!("after a flush persisted() is {persisted}, below write {applied}"));
        }
        Ok(())
    }

    /// Reopens once more, compares everything and closes.
    pub(super) fn finish(mut self) -> Result<Trace, String> {
        catch(|| self.reopen())?;
        catch(|| self.close())?;
        Ok(self.trace)
    }
}
