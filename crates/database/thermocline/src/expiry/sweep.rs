//! The expiry sweep: deletes expired values in the background.
//!
//! 1. Once an interval ([`crate::Options::expiry_sweep_interval`]) the thread takes a turn. For
//!    each keyspace whose pass is due, it reads a slice of pairs in the engine's own order. It
//!    deletes the pairs that have expired, each by an atomic update that checks again [E3].
//! 2. A turn ends when every pass is over, or after a 20th of the interval. As long as more than a
//!    quarter of the pairs that it meets have expired, it may take a quarter of the interval.
//! 3. When a pass has reached the last key, its counts are shown. The next pass is due at the first
//!    expiry that this pass has seen or that was written since. Since counts grow old, it is also
//!    due after ten times the turns that the pass took, or after 600 if no key had an expiry.
//!
//! # Concurrency
//! The sweep has a thread of its own, which starts with the first keyspace whose values may expire.
//! A write of the sweep may have to wait for flushes and compactions, which are tasks of the pool.
//! So the sweep must not be a task itself (`workers::Group::wait_until`). The thread reads a slice
//! with no lock held.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use device::Process;
use environment::{Environment, JoinHandle, Monotonic};
use sync::locks::{Condvar, Mutex, MutexGuard};
use telemetry::{Counter, Registry};

use super::format::Expiring;
use super::operators::RemoveExpired;
use super::stats::Expiry;
use crate::database::{Db, Inner};
use crate::error::{Error, Result};
use crate::expiry::ExpiringKeyspace;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};

/// Limits of one slice: pairs that it reads, keys to remove after which it ends, and bytes of
/// values after which it ends.
const SLICE_PAIRS: u64 = 500;
const SLICE_EXPIRED: usize = 64;
const SLICE_BYTES: usize = 1 << 20;
/// Parts of the interval that a turn may take: where little had expired, and where much had.
const TURN_PART: u32 = 20;
const DENSE_TURN_PART: u32 = 4;
/// Turns of rest after a pass, for each turn that the pass took.
const REST_FACTOR: u64 = 10;
/// Turns of rest after a pass that has met no expiry.
const REST_TURNS: u64 = 600;
/// Interval at which a thread that waits for a hold checks whether it is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A walk over all keys of an engine, and when the next one is due.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// The key at which it continues; `None` between passes.
    from: Option<Vec<u8>>,
    /// The turn in which it began.
    begun: u64,
    found: Found,
    /// The turn from which on the next one is due whatever this one has found.
    rest_until: u64,
}

/// Counts of pairs that were met and have not expired.
#[derive(Clone, Copy, Debug)]
struct Found {
    keys: u64,
    keys_with_expiry: u64,
    /// Milliseconds that these have left, together.
    left_ms: u64,
    soonest_ms: u64,
}

impl Default for Found {
    fn default() -> Self {
        Self { keys: 0, keys_with_expiry: 0, left_ms: 0, soonest_ms: u64::MAX }
    }
}

impl Found {
    fn add(&mut self, expiry_ms: Option<u64>, now_ms: u64) {
        self.keys += 1;
        if let Some(expiry_ms) = expiry_ms {
            self.keys_with_expiry += 1;
            self.left_ms = self.left_ms.saturating_add(expiry_ms - now_ms);
            self.soonest_ms = self.soonest_ms.min(expiry_ms);
        }
    }

    fn merge(&mut self, other: Self) {
        self.keys += other.keys;
        self.keys_with_expiry += other.keys_with_expiry;
        self.left_ms = self.left_ms.saturating_add(other.left_ms);
        self.soonest_ms = self.soonest_ms.min(other.soonest_ms);
    }
}

/// The pairs that a slice has met.
#[derive(Default)]
struct Slice {
    found: Found,
    expired: Vec<Vec<u8>>,
    bytes: usize,
    /// The key at which the next one begins.
    next: Option<Vec<u8>>,
}

impl Slice {
    fn pairs(&self) -> u64 {
        self.found.keys + self.expired.len() as u64
    }

    /// Returns whether it pays to read the next slice immediately.
    fn is_dense(&self) -> bool {
        self.expired.len() as u64 * 4 > self.pairs()
    }
}

/// How long a turn may take, from when.
#[derive(Clone, Copy)]
struct Time<'a> {
    environment: &'a Environment,
    begun: Monotonic,
    /// None for as long as it takes.
    most: Option<Duration>,
}

impl Time<'_> {
    fn is_over(&self) -> bool {
        self.most.is_some_and(|most| self.environment.now() - self.begun >= most)
    }
}

/// A switch that pauses the expiry sweep. It is for a caller whose
/// reads must agree by a clock of its own, without a snapshot or a transaction.
#[derive(Clone, Debug)]
pub struct PauseExpiry {
    lock: Arc<Mutex<()>>,
    process: Process,
}

impl Default for PauseExpiry {
    fn default() -> Self {
        Self { lock: Arc::default(), process: Process::current() }
    }
}

/// A [`PauseExpiry`] that is held.
#[derive(Debug)]
#[must_use = "it is held until this is dropped"]
pub struct ExpiryPause<'a>(
    #[expect(dead_code, reason = "it is there to be dropped")] Option<MutexGuard<'a, ()>>,
);

impl PauseExpiry {
    /// Waits for the removal of a key that is under way, and holds up the next one. Does nothing in
    /// a child of a fork, in which nothing is removed.
    pub fn hold(&self) -> ExpiryPause<'_> {
        ExpiryPause(self.process.is_current().then(|| self.lock.lock()))
    }

    /// The same if no removal of a key is under way, which may wait for room or a lock.
    pub fn try_hold(&self) -> Option<ExpiryPause<'_>> {
        if !self.process.is_current() {
            return Some(ExpiryPause(None));
        }
        self.lock.try_lock().map(|held| ExpiryPause(Some(held)))
    }

    /// The same, unless `is_stopped` returns true first.
    fn hold_unless(&self, is_stopped: impl Fn() -> bool) -> Option<ExpiryPause<'_>> {
        loop {
            if let Some(held) = self.lock.try_lock_for(LOOK_INTERVAL) {
                return Some(ExpiryPause(Some(held)));
            }
            if is_stopped() {
                return None;
            }
        }
    }
}

impl Db {
    /// Returns the hold that keeps this database from removing expired values.
    pub fn pause_expiry(&self) -> PauseExpiry {
        self.inner.background.sweep.hold.clone()
    }
}

/// The sweep, and its thread if there is one.
#[derive(Debug)]
pub(crate) struct ExpirySweep {
    hold: PauseExpiry,
    /// Keys that were removed.
    removed: Counter,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Shared {
    /// Returns whether it was stopped before `interval` was over.
    fn is_stopped_within(&self, interval: Duration) -> bool {
        let mut is_stopped = self.is_stopped.lock();
        if !*is_stopped {
            self.changed.wait_for(&mut is_stopped, interval);
        }
        *is_stopped
    }
}

impl ExpirySweep {
    /// Makes the sweep, without a thread yet.
    pub(crate) fn new(registry: &Registry, hold: PauseExpiry) -> Self {
        let help = "Keys removed in the background because their values had expired.";
        let removed = registry.counter("removed_keys_total", help);
        let (shared, thread) = Default::default();
        Self { hold, removed, shared, thread }
    }

    /// Stops it and waits for the turn under way.
    ///
    /// # Errors
    /// It had panicked, which is a mistake of ours.
    pub(crate) fn stop(&self) -> Result<()> {
        *self.shared.is_stopped.lock() = true;
        self.shared.changed.notify_all();
        match self.thread.lock().take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Error::Thread("the expiry sweep panicked".to_owned())),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

impl Inner {
    /// Starts the thread, if there is none and there is to be one.
    pub(crate) fn start_expiry_sweep(self: &Arc<Self>) -> Result<()> {
        let Some(interval) = self.options.expiry_sweep_interval else { return Ok(()) };
        let mut thread = self.background.sweep.thread.lock();
        if thread.is_some() || self.lifecycle.check_writable().is_err() {
            return Ok(());
        }
        // Weakly, as all background work, so that it does not keep the database open.
        let (shared, weak) = (Arc::clone(&self.background.sweep.shared), Arc::downgrade(self));
        let interval = interval.max(Duration::from_millis(1));
        let work = move || {
            telemetry::note_background_thread();
            take_turns(&shared, &weak, interval);
        };
        let started = self.options.environment.spawn("expiry sweep", work);
        *thread = Some(started.map_err(|error| Error::Thread(error.to_string()))?);
        Ok(())
    }

    /// Takes one turn, the `turn`-th.
    fn remove_expired(&self, turn: u64, interval: Duration) {
        let environment = &self.options.environment;
        let entries = self.keyspaces.all();
        let mut due: Vec<_> = entries
            .iter()
            .map(|entry| (entry, entry.last_instance()))
            .filter(|(_, instance)| is_due(instance, turn))
            .collect();
        let begun = environment.now();
        let mut most = interval / TURN_PART;
        while !due.is_empty() && self.lifecycle.check_writable().is_ok() {
            let mut is_dense = false;
            due.retain(|(entry, instance)| {
                let time = Time { environment, begun, most: Some(most) };
                let (goes_on, dense) = self.go_on(entry, instance, turn, time);
                is_dense |= dense;
                goes_on
            });
            most = interval / if is_dense { DENSE_TURN_PART } else { TURN_PART };
            if environment.now() - begun >= most {
                return;
            }
        }
    }

    /// Does a slice of the pass over one engine. Returns whether the pass has more slices, and
    /// whether it pays to do the next one immediately.
    fn go_on(
        &self,
        entry: &KeyspaceEntry,
        instance: &KeyspaceInstance,
        turn: u64,
        time: Time<'_>,
    ) -> (bool, bool) {
        let Some(expiry) = &instance.expiry else { return (false, false) };
        let mut pass = expiry.pass.lock();
        if pass.from.is_none() {
            // A value that is written from now on may be where the pass has already been.
            expiry.soonest_ms.store(u64::MAX, Relaxed);
            (pass.begun, pass.found) = (turn, Found::default());
        }
        // A caller that uses a pair which cannot be read or written gets the error; here there is
        // no caller.
        let slice = look(instance, pass.from.as_deref(), time);
        let Ok((slice, removed)) = slice.and_then(|slice| {
            let removed = self.remove(entry, expiry, &slice.expired)?;
            Ok((slice, removed))
        }) else {
            pass.from = None;
            pass.rest_until = turn + REST_FACTOR;
            return (false, false);
        };
        let is_dense = removed > 0 && slice.is_dense();
        pass.found.merge(slice.found);
        pass.from = slice.next;
        if let Some(key) = &pass.from {
            expiry.show_first_pass(&pass, instance.share_before(key));
            return (true, is_dense);
        }
        expiry.end_pass(&mut pass, turn);
        (false, is_dense)
    }

    /// Removes the values of `keys` that have expired; returns how many had.
    fn remove(&self, entry: &KeyspaceEntry, expiry: &Expiry, keys: &[Vec<u8>]) -> Result<u64> {
        let mut count = 0;
        for key in keys {
            let mut operator = RemoveExpired { environment: &expiry.environment };
            // The thread that holds it may wait for a lock of a close, and the close waits for this
            // thread.
            let shared = &self.background.sweep.shared;
            let Some(_held) = self.background.sweep.hold.hold_unless(|| *shared.is_stopped.lock())
            else {
                return Ok(count);
            };
            if self.rmw_not_durable(entry, key, &mut operator)?.is_some() {
                count += 1;
                expiry.removed.fetch_add(1, Relaxed);
                self.background.sweep.removed.increment();
            }
        }
        Ok(count)
    }
}

fn take_turns(shared: &Shared, database: &Weak<Inner>, interval: Duration) {
    for turn in 1.. {
        if shared.is_stopped_within(interval) {
            return;
        }
        let Some(inner) = database.upgrade() else { return };
        inner.remove_expired(turn, interval);
    }
}

/// Returns whether a pass is under way, or the next one is due.
fn is_due(instance: &KeyspaceInstance, turn: u64) -> bool {
    let Some(expiry) = &instance.expiry else { return false };
    let pass = expiry.pass.lock();
    let soonest_ms = pass.found.soonest_ms.min(expiry.soonest_ms.load(Relaxed));
    pass.from.is_some() || turn >= pass.rest_until || soonest_ms <= expiry.environment.wall_ms()
}

/// Reads the next slice, until `time` is over.
fn look(instance: &KeyspaceInstance, from: Option<&[u8]>, time: Time<'_>) -> Result<Slice> {
    let now_ms = time.environment.wall_ms();
    let mut slice = Slice::default();
    instance.engine.walk(from, &mut |key, stored| {
        let is_long = slice.pairs() == SLICE_PAIRS
            || slice.expired.len() == SLICE_EXPIRED
            || slice.bytes > SLICE_BYTES;
        // Of an engine on a disk each pair may be a read. One is always looked at.
        if is_long || slice.pairs() > 0 && time.is_over() {
            slice.next = Some(key.to_vec());
            return Break(());
        }
        slice.bytes += stored.len();
        match Expiring::decode(stored) {
            Ok(whole) if whole.is_expired(now_ms) => slice.expired.push(key.to_vec()),
            Ok(Expiring { expiry_ms, .. }) => slice.found.add(expiry_ms, now_ms),
            // The error is left to readers of the value.
            Err(_) => slice.found.add(None, now_ms),
        }
        Continue(())
    })?;
    Ok(slice)
}

impl KeyspaceInstance {
    /// Returns the approximate share of all keys that is before `key`, in parts of 2^64; `None` if
    /// nothing is known of it.
    fn share_before(&self, key: &[u8]) -> Option<u64> {
        let is_ordered = self.engine.capabilities().ordered;
        // Without an order, positions are hashes.
        (!is_ordered).then(|| self.engine.position(key)).filter(|share| *share > 0)
    }
}

impl Expiry {
    /// Shows the counts of the first pass so far: it has seen the share `seen` of all keys, if that
    /// is known.
    fn show_first_pass(&self, pass: &Pass, seen: Option<u64>) {
        if self.passes.load(Relaxed) > 0 {
            return;
        }
        let whole = |found: u64| match seen {
            Some(seen) => u64::try_from((u128::from(found) << u64::BITS) / u128::from(seen)),
            None => Ok(found),
        };
        let Found { keys, keys_with_expiry, left_ms, .. } = pass.found;
        self.keys.store(whole(keys).unwrap_or(u64::MAX), Relaxed);
        self.keys_with_expiry.store(whole(keys_with_expiry).unwrap_or(u64::MAX), Relaxed);
        self.mean_left_ms.store(left_ms / keys_with_expiry.max(1), Relaxed);
    }

    /// Step 3.
    fn end_pass(&self, pass: &mut Pass, turn: u64) {
        let Found { keys, keys_with_expiry, left_ms, .. } = pass.found;
        self.keys.store(keys, Relaxed);
        self.keys_with_expiry.store(keys_with_expiry, Relaxed);
        self.mean_left_ms.store(left_ms / keys_with_expiry.max(1), Relaxed);
        self.passes.fetch_add(1, Relaxed);
        let has_none = keys_with_expiry == 0 && self.soonest_ms.load(Relaxed) == u64::MAX;
        let rest = (turn - pass.begun + 1) * REST_FACTOR;
        pass.rest_until = turn + if has_none { rest.max(REST_TURNS) } else { rest };
    }
}

impl ExpiringKeyspace<'_> {
    /// Removes all keys whose values have expired, and returns their number. The database does so
    /// by itself, a little at a time ([`crate::Options::expiry_sweep_interval`]); this function
    /// does it immediately. It visits every pair, as a [`crate::Keyspace::walk`] does, and waits
    /// for no durability: a key that a crash brings back has still expired.
    ///
    /// # Errors
    /// [`Error::NotExpiring`]; otherwise as [`crate::Keyspace::walk`] and
    /// [`crate::Keyspace::delete`].
    pub fn remove_expired(&self) -> Result<u64> {
        self.0.check_expiring()?;
        self.0.inner.lifecycle.check_writable()?;
        let instance = self.0.entry.instance()?;
        let Some(expiry) = &instance.expiry else { return Ok(0) };
        let environment = &self.0.inner.options.environment;
        let time = Time { environment, begun: environment.now(), most: None };
        let (mut from, mut removed) = (None, 0);
        loop {
            let slice = look(&instance, from.as_deref(), time)?;
            removed += self.0.inner.remove(&self.0.entry, expiry, &slice.expired)?;
            from = slice.next;
            if from.is_none() {
                return Ok(removed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
