//! Makes applied writes durable: writes a snapshot file, then the superblock that names it.
//!
//! 1. Pin the present; from here on writers keep the versions of the pin for the flush.
//! 2. Walk the map leaf by leaf into a new file; sync it, and the directory.
//! 3. Let the journal reach the pin (law L3), and commit the superblock: from this moment the new
//!    snapshot is the current one.
//! 4. Remove the previous file.
//!
//! If nothing was written since the last flush, 2 and 4 are left out. The current snapshot then
//! holds everything up to the pin, and the superblock records this. Otherwise an idle store would
//! hold back the journal that it shares with others.
//!
//! After a failure in 2 the old snapshot stays current. After one in 3 either of the two may be
//! current. No file is removed in these two cases, and the store turns read-only (law L5); the next
//! opening removes leftover files. But if there was no room for the new file, or the journal did
//! not reach the pin, the flush removes the new file immediately. A later flush tries again: all
//! data is in memory.
//!
//! # Concurrency
//! Only one flush or close runs at a time ([`Shared::flusher`]); readers and writers run
//! concurrently with it. A pin waits for writes that have their numbers, and these wait for nothing
//! (law L8).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

use codec::SeqNo;
use device::Device;
use engine::{Direction, Error, GoOn, KeyRange, Pin, Result, Superblock, WaitingDeletes};
use rand::Rng;

use crate::map::{Position, Run};
use crate::snapshot::format::{self, Committed, Identity, SUPERBLOCK, SUPERBLOCK_KIND, Summary};
use crate::snapshot::writer::SnapshotWriter;
use crate::store::Shared;
use memory_budget::Account;

/// The work of flushes, as background errors name it.
const FLUSH: &str = "the flush to a snapshot";

/// The state that one flush leaves for the next.
#[derive(Debug)]
pub(crate) struct Flusher {
    /// `None` once the store is closed.
    superblock: Option<Superblock>,
    snapshot: Option<Summary>,
    next_number: u64,
}

/// Figures about the current snapshot.
#[derive(Debug, Default)]
pub(crate) struct LastSnapshot {
    pub(crate) bytes: AtomicU64,
    pub(crate) pairs: AtomicU64,
    pub(crate) micros: AtomicU64,
    /// Flushes that wrote a snapshot since the store was opened.
    pub(crate) count: AtomicU64,
}

impl Flusher {
    pub(crate) fn new(superblock: Superblock, snapshot: Option<Summary>, next_number: u64) -> Self {
        Self { superblock: Some(superblock), snapshot, next_number }
    }

    /// Closes the files.
    pub(crate) fn close(&mut self) {
        self.superblock = None;
    }
}

impl Shared {
    /// Writes a snapshot of everything applied so far, unless the last one holds it already.
    pub(crate) fn flush(&self) -> Result<()> {
        self.health.check_writable()?;
        let mut flusher = self.flusher.lock();
        self.health.check_writable()?;
        let pin = self.host.sequence.pin();
        self.flush_at(&mut flusher, pin)
    }

    /// Makes the state that opening has found durable, unless a flush is running.
    pub(crate) fn make_durable(&self) -> Result<bool> {
        let Some(mut flusher) = self.flusher.try_lock() else { return Ok(false) };
        self.health.check_writable()?;
        let superblock = flusher.superblock.as_mut().ok_or(Error::Closed)?;
        let durable = superblock.make_durable_in(&*self.host.device);
        if let Some(error) = durable.as_ref().err().filter(|error| !error.is_retryable()) {
            self.health.fail(error);
        }
        durable.map(|()| true)
    }

    /// A second has passed. Writes a snapshot if at least half of the current one is dead, that is,
    /// deleted or overwritten by shorter values: so it writes no more bytes than it frees
    /// (`engine::reclaim`). Returns whether there may be more to do at the next look, even if
    /// nothing is written.
    pub(crate) fn flush_if_dead(&self) -> bool {
        let stored_bytes = self.last_snapshot.bytes.load(Relaxed);
        let live_bytes = self.map.tally.bytes();
        let deletes = WaitingDeletes {
            covered_bytes: stored_bytes.saturating_sub(live_bytes),
            // The rule asks for two free bytes for each that is written, and here one is enough.
            flush_bytes: live_bytes / 2,
            stored_bytes,
        };
        let newest = SeqNo::new(self.map.tally.newest());
        let look = self.looks.look(newest, || deletes.are_worth_a_flush());
        let is_writable = self.health.check_writable().is_ok();
        if look.is_flush_due
            && is_writable
            && self.errors.pausing(FLUSH, &self.host.environment).is_none()
        {
            // A failure is noted, and the next flush tries again.
            let _ = self.flush();
        }
        is_writable && (!look.is_quiet || deletes.are_worth_a_flush())
    }

    fn flush_at(&self, flusher: &mut Flusher, pin: Arc<Pin>) -> Result<()> {
        let began = self.host.environment.now();
        let result = self.write_and_commit(flusher, &pin);
        drop(pin);
        self.errors.note(FLUSH, &result, &self.host.environment);
        match result {
            Ok(()) => {
                let took = self.host.environment.now() - began;
                self.last_snapshot.micros.store(took.as_micros() as u64, Relaxed);
                while self.prune(usize::from(u16::MAX)) > 0 {}
                Ok(())
            }
            // The journal's failure and a close are none of these files; a later flush may try.
            Err(error @ (Error::Journal { .. } | Error::Closed)) => Err(error),
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                self.health.fail(&error);
                Err(error)
            }
        }
    }

    /// The newest of our writes that a snapshot at `pin` holds, or the pin itself.
    fn newest_at(&self, pin: &Pin) -> SeqNo {
        pin.seqno().min(SeqNo::new(self.map.tally.newest()))
    }

    /// Lets the journal reach `pin`, and returns the number up to which a snapshot then persists.
    ///
    /// That is the pin's number or the journal's last one, whichever is lower, or `newest` if that
    /// is higher. Numbers above it, up to the pin's, belong to writes that were refused or are not
    /// journaled, and they may be assigned again.
    fn reach(&self, pin: &Pin, newest: SeqNo) -> Result<SeqNo> {
        let reached = self.host.barrier.reach(pin.seqno())?;
        Ok(reached.min(pin.seqno()).max(newest))
    }

    fn write_and_commit(&self, flusher: &mut Flusher, pin: &Pin) -> Result<()> {
        let device = &*self.host.device;
        let newest = self.newest_at(pin);
        if newest <= self.persisted() {
            let up_to = self.reach(pin, newest)?;
            return self.commit(flusher, up_to, flusher.snapshot);
        }
        let identity = self.identity(flusher.next_number, newest);
        flusher.next_number += 1;
        let written = self.write_snapshot(device, identity, pin, newest, &|| Ok(()));
        let ready = written.and_then(|summary| Ok((summary, self.reach(pin, newest)?)));
        if let Err(error) = &ready
            && (error.is_retryable() || matches!(error, Error::Journal { .. }))
        {
            // It takes room. If it stays, opening removes it.
            let _ = device.remove(&format::file_name(identity.number));
        }
        let (summary, up_to) = ready?;
        self.commit(flusher, up_to, Some(summary))?;
        self.last_snapshot.count.fetch_add(1, Relaxed);
        self.last_snapshot.bytes.store(summary.bytes, Relaxed);
        self.last_snapshot.pairs.store(summary.totals.pairs, Relaxed);
        if let Some(old) = flusher.snapshot.replace(summary) {
            match device.remove(&format::file_name(old.identity.number)) {
                // Opening removes it.
                Err(error) if error.is_retryable() => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Makes `snapshot` the current one, which holds everything up to `up_to`.
    fn commit(&self, flusher: &mut Flusher, up_to: SeqNo, snapshot: Option<Summary>) -> Result<()> {
        if up_to <= self.persisted() {
            return Ok(());
        }
        let superblock = flusher.superblock.as_mut().ok_or(Error::Closed)?;
        superblock
            .commit(&*self.host.device, &Committed { persisted: up_to, snapshot }.encode())?;
        self.persisted.store(up_to.get(), Release);
        Ok(())
    }

    /// Writes the map as of `pin` to a new file, durable with its name on return.
    fn write_snapshot(
        &self,
        device: &dyn Device,
        identity: Identity,
        pin: &Pin,
        newest: SeqNo,
        go_on: &GoOn<'_>,
    ) -> Result<Summary> {
        let block_bytes = self.options.snapshot_block_bytes;
        let budget = &self.host.memory;
        let mut writer = SnapshotWriter::create(device, identity, newest, block_bytes, budget)?;
        let mut position = Position::new(KeyRange::all(), Direction::Forward);
        let mut run = Run::default();
        let charge = Account::new(budget);
        while !position.is_done() {
            self.health.check_open()?;
            go_on()?;
            self.map.next_run(&mut position, pin.seqno().get(), &mut run);
            charge.set(run.memory() as u64);
            for index in 0..run.len() {
                if let Some((key, value)) = run.get(index) {
                    writer.push(key, value)?;
                }
            }
        }
        let summary = writer.finish()?;
        device.sync_dir("")?;
        Ok(summary)
    }

    /// A file's identity: its number may have been used before a crash, its nonce not.
    fn identity(&self, number: u64, seqno: SeqNo) -> Identity {
        let environment = &self.host.environment;
        let mut nonce = environment.random("memory snapshot").next_u64();
        for part in [number, seqno.get(), environment.wall().as_nanos() as u64] {
            nonce = codec::hash64(nonce, &part.to_le_bytes());
        }
        Identity { number, nonce }
    }

    /// Writes a whole, openable copy to `into`, which must not hold a store yet.
    pub(crate) fn checkpoint(&self, into: &dyn Device, go_on: &GoOn<'_>) -> Result<()> {
        self.health.check_open()?;
        if into.exists(SUPERBLOCK)? {
            return Err(device::Error::AlreadyExists { name: SUPERBLOCK.to_owned() }.into());
        }
        let pin = self.host.sequence.pin();
        let newest = self.newest_at(&pin);
        let identity = self.identity(1, newest);
        let summary = self.write_snapshot(into, identity, &pin, newest, go_on)?;
        let up_to = self.reach(&pin, newest)?;
        let committed = Committed { persisted: up_to, snapshot: Some(summary) };
        Superblock::create(into, SUPERBLOCK, SUPERBLOCK_KIND, &committed.encode())?;
        Ok(())
    }
}
