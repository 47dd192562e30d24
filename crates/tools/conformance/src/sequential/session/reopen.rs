//! Closing, opening, replaying; and copies.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use engine::{BlockingWrites, Direction, Error, KeyRange, NoJournal, Op, SeqNo};
use reads::BlockingReads;

use super::Session;
use crate::host::{self, Opened};
use crate::operation::Step;
use crate::sequential::compare_everything;

/// How many writes at or below `persisted()` are applied again on opening, which must change
/// nothing.
const REPLAYED_BELOW: u64 = 3;

/// How many writes are applied a second time after the replay, which must change nothing.
const REPLAYED_TWICE: usize = 2;

impl Session<'_> {
    fn compare(&self) -> Result<(), String> {
        let engine = self.opened.engine.as_ref();
        compare_everything(engine, &self.opened.sequence, &self.model, self.model.last())
    }

    pub(super) fn close(&mut self) -> Result<(), String> {
        self.views.clear();
        self.cursors.clear();
        self.opened.engine.close().map_err(|error| format!("close failed: {error}"))?;
        let seqno = self.opened.sequence.last().next();
        let put = [Op::Put { key: b"a", value: b"too late" }];
        let late = [
            self.opened.engine.get(b"a", &mut Vec::new()).map(drop),
            self.opened.engine.replay(&put, seqno),
            self.opened.engine.flush(),
            self.opened
                .engine
                .scan(KeyRange::all(), Direction::Forward, self.opened.sequence.pin())
                .map(drop),
        ];
        let calls = if self.opened.engine.capabilities().ordered { 4 } else { 3 };
        for result in &late[..calls] {
            if *result != Err(Error::Closed) {
                return Err(format!("a call after close got {result:?}, expected Closed"));
            }
        }
        let checked = self.fixture.check(&self.device);
        checked.map_err(|error| format!("the offline check after a close: {error}"))
    }

    fn open_again(&self) -> Result<Opened, String> {
        let seed = self.model.last();
        host::open(self.fixture, &self.device, self.mark.clone(), seed)
            .map_err(|error| format!("opening again: {error}"))
    }

    pub(super) fn reopen(&mut self) -> Result<(), String> {
        self.close()?;
        let last = self.model.last();
        self.opened = self.open_again()?;
        let persisted = self.opened.engine.persisted().get();
        if persisted < self.persisted || persisted > last {
            let before = self.persisted;
            return Err(format!(
                "after opening, persisted() is {persisted}: it was {before}, the journal ends at \
                 {last}"
            ));
        }
        self.replay(persisted)?;
        self.opened.recovered_to(self.model.last());
        self.opened.memory.set_limit(self.memory_bytes);
        self.compare()?;
        match self.opened.engine.stats().live_keys {
            Some(live) if live != self.live_keys() => {
                Err(format!("stats count {live} live keys, there are {}", self.live_keys()))
            }
            _ => Ok(()),
        }
    }

    fn live_keys(&self) -> u64 {
        self.model.keys().filter(|key| self.model.get(key).is_some()).count() as u64
    }

    fn replay(&self, persisted: u64) -> Result<(), String> {
        let from = persisted.saturating_sub(REPLAYED_BELOW);
        let above = self.journal.iter().filter(|(seqno, _)| *seqno > from);
        let again = &self.journal[self.journal.len().saturating_sub(REPLAYED_TWICE)..];
        for (seqno, steps) in above.chain(again) {
            let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
            self.opened
                .engine
                .replay(&ops, SeqNo::new(*seqno))
                .map_err(|error| format!("replaying write {seqno} failed: {error}"))?;
            self.opened.recovered_to(*seqno);
            self.opened.turn();
        }
        Ok(())
    }

    /// The journal loses all records that were not durable: the store must be at that prefix.
    pub(super) fn lose_tail(&mut self) -> Result<(), String> {
        let synced = self.mark.synced.load(SeqCst);
        self.opened.engine.close().map_err(|error| format!("close failed: {error}"))?;
        self.views.clear();
        self.cursors.clear();
        self.journal.retain(|(seqno, _)| *seqno <= synced);
        self.model.truncate(synced);
        self.applied = self.journal.last().map_or(0, |(seqno, _)| *seqno);
        self.mark.last.store(synced, SeqCst);
        self.opened = self.open_again()?;
        let persisted = self.opened.engine.persisted().get();
        if persisted > synced {
            return Err(format!(
                "the engine's files hold write {persisted}, but the journal was durable up to \
                 {synced} only: the barrier was not asked"
            ));
        }
        self.persisted = self.persisted.min(synced);
        self.replay(persisted)?;
        self.opened.recovered_to(self.model.last());
        self.opened.memory.set_limit(self.memory_bytes);
        self.compare()
    }

    /// A checkpoint opens by itself, without a journal, and holds everything.
    pub(super) fn checkpoint(&mut self) -> Result<(), String> {
        let copy = device::memory();
        let written = self.opened.engine.checkpoint(Arc::clone(&copy), &engine::go_on);
        written.map_err(|error| format!("checkpoint failed: {error}"))?;
        let checked = self.fixture.check(&copy);
        checked.map_err(|error| format!("the offline check of a checkpoint: {error}"))?;
        let opened = host::open(self.fixture, &copy, Arc::new(NoJournal), 0)
            .map_err(|error| format!("opening a checkpoint: {error}"))?;
        let (engine, upto) = (opened.engine.as_ref(), self.model.last());
        opened.recovered_to(upto);
        compare_everything(engine, &opened.sequence, &self.model, upto)
            .map_err(|what| format!("in a checkpoint: {what}"))?;
        engine.close().map_err(|error| format!("closing a checkpoint failed: {error}"))
    }
}
