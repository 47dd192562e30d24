//! Collection: jobs that free the space of records which newer ones have superseded.
//!
//! A job takes one group. A group has one job at a time, and a store as well.
//!
//! 1. The footers of the group's sealed segments are merged with the entries of segments in memory
//!    (`collect/judge.rs`). The index is not looked up.
//! 2. A planner chooses the victims (`collect/plan.rs`): sealed segments without a record above the
//!    durable number of the index. So base segments never have a record that a crash could make
//!    void.
//! 3. The records of the victims that are not dead are copied to new base segments, each with its
//!    number. No lock is held.
//! 4. The volumes are synced. One edit of the segment table adds the new segments and removes the
//!    victims. (`collect/exchange.rs`)
//! 5. Readers get the new segments, and lose the victims. The places of the victims are free.
//!
//! The index is never written. A reader finds a moved record by its hash and number
//! (`values/pending_record.rs`).
//!
//! A crash before the edit of step 4 leaves places that no segment has, and the victims whole. A
//! crash after it leaves free places with old bytes. An opening returns both to the device.
//!
//! # Marks
//! The *reserve* is the space that the bound leaves for garbage ([`crate::values::bound`]). Without
//! a fixed bound it is a part of the live bytes, and 16 segments. A job begins once garbage is
//! above three quarters of it. From seven eighths on, each write waits in proportion. Earlier marks
//! waste the reserve: the less garbage a victim has, the more bytes are copied for each byte that
//! is freed.

mod all;
mod exchange;
mod job;
mod judge;
mod plan;
mod sources;

pub(crate) use judge::Entries;
pub(crate) use sources::FooterEntries;
use sources::PAGE_MEMORY_BYTES;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use codec::SeqNo;
use engine::{Error, Result};
use memory_budget::Account;
use rand::RngExt as _;
use sync::MutexGuard;
use workers::{Class, StopToken};

use crate::examine::tolerated;
use crate::key_index::of_index;
use crate::segment::footer::footer_bytes;
use crate::store::Shared;
use crate::values::bound::SEGMENTS;
use crate::values::group::Group;
use crate::values::ledger::{Moment, Space};
use crate::values::share_of;
use exchange::{Outputs, Victim};
use job::Job;
use plan::plan;

/// The work of collections, as background errors name it.
pub(crate) const COLLECT: &str = "the collection of values";
/// The same of groups that cannot be collected. It stays until the store is closed.
const DAMAGED: &str = "the collection of a damaged group of values";
/// Bytes that are copied before the victims so far are exchanged.
const COPY_BYTES: u64 = 8 << 20;
/// Segments that a job has in memory.
const COPIES_OF_SEGMENTS: u64 = 3;
/// Part of the memory that the entries of a judgement take, unless it has a page of each segment.
const JUDGE_PARTS: u64 = 32;
/// Nanoseconds that a write owes for each KiB, for each eighth of the reserve that garbage is above
/// the upper mark: 50 MB/s when the reserve is full.
const NANOS_PER_KIB: u64 = 20_000;
/// The most that a write owes for each KiB: 10 MB/s.
const NANOS_PER_KIB_MAX: u64 = 100_000;

/// The marks of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Garbage below this is left.
    pub(crate) target: u64,
    /// Garbage above this begins a job.
    pub(crate) lower: u64,
    /// Garbage above this slows writers down.
    pub(crate) upper: u64,
    pub(crate) reserve: u64,
}

impl Marks {
    /// Returns the marks of a store with this reserve.
    pub(crate) fn of(reserve: u64) -> Self {
        let eighth = reserve / 8;
        Self { target: eighth * 5, lower: eighth * 6, upper: eighth * 7, reserve }
    }

    /// Returns the nanoseconds that a write owes for each KiB while there are `garbage` bytes of
    /// garbage.
    pub(crate) fn delay(&self, garbage: u64) -> u64 {
        let above = u128::from(garbage.saturating_sub(self.upper));
        let eighths = u128::from(NANOS_PER_KIB) * above / u128::from((self.reserve / 8).max(1));
        eighths.min(u128::from(NANOS_PER_KIB_MAX)) as u64
    }
}

impl Shared {
    /// Returns how far writes are durable in the index, and which snapshots there may be.
    pub(crate) fn moment(&self) -> Moment {
        Moment { durable: self.index.persisted(), pins: self.host.sequence.pins() }
    }

    /// Returns the known bytes of live records and of garbage.
    pub(crate) fn space(&self) -> Space {
        self.values.count_space(&self.moment())
    }

    /// Returns the bytes of the device that segments should take at most. Without a fixed bound it
    /// follows the bytes that cannot be freed.
    fn limit(&self, space: &Space) -> u64 {
        let segment_bytes = u64::from(self.values.geometry.segment_bytes);
        self.options.disk_bytes_max.unwrap_or_else(|| {
            let live = space.live.saturating_add(space.found);
            let part = u128::from(live) * u128::from(self.options.reserve_percent) / 100;
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            let fixed = SEGMENTS * segment_bytes + self.values.bound.fixed_bytes();
            live.saturating_add(space.held).saturating_add(part).saturating_add(fixed)
        })
    }

    /// Returns the marks of the limit. They do not count [`Admission::limit_min`], so a store that
    /// had to grow becomes small again.
    ///
    /// [`Admission::limit_min`]: crate::admission::Admission::limit_min
    fn marks(&self, space: &Space) -> Marks {
        let taken = space.live.saturating_add(space.found).saturating_add(space.held);
        let taken = self.values.bound.fixed_bytes().saturating_add(taken);
        let reserve = self.limit(space).saturating_sub(taken);
        Marks::of(reserve.max(u64::from(self.values.geometry.segment_bytes)))
    }

    /// Has a group collected, soon, if there is more garbage than the lower mark.
    pub(crate) fn collect_if_due(self: &Arc<Self>) {
        let space = self.set_pace();
        let is_pausing = self.values.failures.pausing(COLLECT).is_some();
        if space.garbage + space.found > self.marks(&space).lower && !is_pausing {
            self.schedule_collect();
        }
    }

    /// Sets the limit of the bound, and the wait that writes owe now.
    pub(crate) fn set_pace(&self) -> Space {
        let space = self.space();
        let limit = self.limit(&space);
        let bound = &self.values.bound;
        if bound.allocated().saturating_add(bound.fixed_bytes()) <= limit {
            self.admission.limit_min.store(0, Relaxed);
        }
        let limit_min = match self.options.disk_bytes_max {
            Some(_) => 0,
            None => self.admission.limit_min.load(Relaxed),
        };
        bound.set_limit(limit.max(limit_min));
        self.admission.delay.store(self.marks(&space).delay(space.garbage), Relaxed);
        space
    }

    /// Has space freed, soon, for writers that wait for it.
    pub(crate) fn schedule_collect_for_writers(self: &Arc<Self>) {
        self.admission.is_space_wanted.store(true, SeqCst);
        self.schedule_collect();
    }

    fn schedule_collect(self: &Arc<Self>) {
        // The end of a checkpoint or a compaction has the writers look again.
        if self.values.gates.are_exchanges_held()
            || self.admission.is_collect_queued.swap(true, SeqCst)
        {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |stop: &StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            let number = shared.admission.collections.begin();
            let is_space_wanted = shared.admission.is_space_wanted.swap(false, SeqCst);
            let collected = match is_space_wanted {
                true => shared.collect_for_writers(stop),
                false => shared.collect(stop),
            };
            shared.values.failures.note(COLLECT, &collected);
            shared.admission.collections.end(number, &collected.clone().map(|_| ()));
            shared.admission.is_collect_queued.store(false, SeqCst);
            shared.set_pace();
            if collected == Ok(true) && !stop.is_stopping() {
                shared.collect_if_due();
            }
        };
        // A pool that is stopping runs nothing more.
        if self.group.submit(Class::Compact, "collect", task).is_err() {
            self.admission.is_collect_queued.store(false, SeqCst);
        }
    }

    /// Collects the group with the most garbage, until it has its part of the target. Returns
    /// whether another job may free more.
    ///
    /// # Errors
    /// The device's; damage of a segment.
    pub(crate) fn collect(&self, stop: &StopToken) -> Result<bool> {
        let target = |space: &Space| self.marks(space).target;
        self.collect_down_to(&target, u64::from(self.values.geometry.segment_bytes), stop)
    }

    /// Frees space for writers that wait for it. If half of the reserve may be garbage, collects
    /// the group with the most of it. If that frees nothing, makes all finished writes durable in
    /// the index, judges each group that has changed, and collects groups until some space is free.
    /// Returns whether there is.
    ///
    /// # Errors
    /// The device's.
    fn collect_for_writers(&self, stop: &StopToken) -> Result<bool> {
        let Some(_gate) = self.begin_job()? else { return Ok(false) };
        let (moment, before) = (self.moment(), self.values.bound.allocated());
        let space = self.values.count_space(&moment);
        let has_much = space.garbage > self.marks(&space).reserve / 2;
        let target = |space: &Space| self.marks(space).target;
        let least = 2 * u64::from(self.values.geometry.segment_bytes);
        let wanted = target(&space);
        if has_much && let Some(group) = self.values.dirtiest(&moment, 1, (wanted, space.live)) {
            let freed = self.collect_group(&group, &moment, (&target, least), stop)?;
            if freed > 0 || stop.is_stopping() {
                self.admission.is_futile.store(false, Relaxed);
                return Ok(true);
            }
        }
        self.index.flush().map_err(|error| self.values.failures.placed(error))?;
        let (moment, mut freed) = (self.moment(), 0);
        let mut dirty = Vec::new();
        for group in &self.values.groups {
            if stop.is_stopping() {
                return Ok(false);
            }
            let state = group.state.lock();
            let (is_barred, is_judged) = (state.is_barred, state.is_judged(&moment));
            drop(state);
            if !is_barred && !is_judged {
                self.tolerate_damage(group, self.judge_group(group, &moment).map(|_| 0))?;
            }
            let state = group.state.lock();
            if !state.is_barred && state.ledger.dead > 0 {
                dirty.push((state.ledger.dead, group));
            }
        }
        // The live bytes of all groups are known now.
        self.set_pace();
        dirty.sort_by_key(|(dead, _)| std::cmp::Reverse(*dead));
        for (_, group) in dirty {
            freed += self.collect_group(group, &moment, (&target, least), stop)?;
            if freed > 0 || stop.is_stopping() {
                break;
            }
        }
        // The flush has sealed segments.
        let after = self.values.bound.allocated();
        let has_freed = freed > 0 || after < before;
        self.admission.is_futile.store(!has_freed, Relaxed);
        // A bound that follows the live bytes grows if there is no garbage, so that the next job
        // follows only once there may be some.
        let more = 4 * u64::from(self.values.geometry.segment_bytes) + self.space().live / 16;
        let limit_min = if has_freed { 0 } else { after + self.values.bound.fixed_bytes() + more };
        self.admission.limit_min.store(limit_min, Relaxed);
        Ok(has_freed)
    }

    /// Begins a job, and returns the gate that it holds; none if a checkpoint copies the segments
    /// that the table names. The index is durable up to [`engine::Engine::persisted`] then: an
    /// opening may have found it so in the page cache alone, and a job drops records by this
    /// number.
    ///
    /// # Errors
    /// The device's.
    fn begin_job(&self) -> Result<Option<MutexGuard<'_, ()>>> {
        self.health.check_writable()?;
        let Some(gate) = self.values.gates.exchanges.try_lock() else { return Ok(None) };
        self.prepare_job().map(|is_durable| is_durable.then_some(gate))
    }

    /// Returns whether a job may begin. The caller has the gate.
    fn prepare_job(&self) -> Result<bool> {
        self.values.retry_releases()?;
        tolerated(self.values.finish_examination())?;
        self.index.make_durable().map_err(of_index)
    }

    /// Judges a group, and collects it until it has its part of the garbage that `target` returns,
    /// or `least` bytes are dropped if that is more. Returns the bytes of the device that it freed.
    fn collect_group(
        &self,
        group: &Group,
        moment: &Moment,
        (target, least): (&dyn Fn(&Space) -> u64, u64),
        stop: &StopToken,
    ) -> Result<u64> {
        let freed = self.judge_group(group, moment).and_then(|job| {
            // The judgement has changed what is known of the garbage.
            let (space, own) = (self.space(), group.state.lock().ledger.space(moment));
            // The garbage beyond the group's part is cheap to free.
            let part = share_of(target(&space), own.live, space.live);
            let wanted = own.garbage.saturating_sub(part).max(own.garbage.min(least));
            self.free(group, &job, wanted, stop)
        });
        self.values.counts().collections.fetch_add(1, Relaxed);
        self.tolerate_damage(group, freed)
    }

    /// Keeps jobs from a group with damage, or with bytes that cannot be read.
    ///
    /// # Errors
    /// Those of `done`, if they may pass, or have stopped writes.
    fn tolerate_damage(&self, group: &Group, done: Result<u64>) -> Result<u64> {
        let Err(error) = &done else { return done };
        let may_pass = error.is_retryable() || *error == Error::Closed;
        if may_pass || self.health.check_writable().is_err() {
            return done;
        }
        group.state.lock().is_barred = true;
        self.values.failures.note_damage(DAMAGED, error);
        Ok(0)
    }

    /// Collects the group with the most garbage, if that has at least `least` bytes, until it has
    /// its part of the garbage that `target` returns.
    pub(crate) fn collect_down_to(
        &self,
        target: &dyn Fn(&Space) -> u64,
        least: u64,
        stop: &StopToken,
    ) -> Result<bool> {
        let Some(_gate) = self.begin_job()? else { return Ok(false) };
        let moment = self.moment();
        let before = self.values.count_space(&moment);
        // Records that wait for the index cannot be dropped: it is flushed before they fill the
        // reserve.
        if before.pending > self.marks(&before).reserve / 4 {
            self.index.flush().map_err(|error| self.values.failures.placed(error))?;
        }
        let moment = self.moment();
        let wanted = (target(&before), before.live);
        let Some(group) = self.values.dirtiest(&moment, least, wanted) else { return Ok(false) };
        // A writer may need the garbage that this job leaves.
        self.admission.is_futile.store(false, Relaxed);
        let freed = self.collect_group(&group, &moment, (target, 0), stop)?;
        // The garbage of a damaged group does not count any more, and other groups may have some.
        let after = self.space();
        Ok(freed > 0 || after.garbage + after.found < before.garbage + before.found)
    }

    /// Judges the records of a group, and notes what is known of its bytes then.
    pub(crate) fn judge_group(&self, group: &Group, moment: &Moment) -> Result<Job> {
        let pages = self.host.memory.limit() / JUDGE_PARTS / PAGE_MEMORY_BYTES;
        let (sealed, mut sources, unknown) = self.values.sources_of(group, pages);
        let memory = Account::new(&self.host.memory);
        memory.set(sources.bytes());
        self.fit_cache();
        // The oldest snapshot that sees each of them.
        let holding = RefCell::new(BTreeSet::new());
        let is_seen = |older, newer| {
            let is_seen = self.host.sequence.is_seen(older, newer);
            if is_seen {
                let first = moment.pins.partition_point(|pin| *pin < older);
                let pin = moment.pins.get(first).filter(|pin| **pin < newer);
                // A snapshot that is being taken is in no list: the group is judged again.
                holding.borrow_mut().insert(pin.copied().unwrap_or(SeqNo::MAX));
            }
            is_seen
        };
        let judgement = judge::judge(&mut sources.all, moment.durable, &is_seen);
        let judgement = judgement.inspect_err(|_| group.state.lock().is_changed = true)?;
        let segment_bytes = u64::from(self.values.geometry.segment_bytes);
        let footers = sealed.iter().map(|it| footer_bytes(it.entries() as usize) as u64);
        self.values.counts().judged_bytes.fetch_add(footers.sum(), Relaxed);
        let mut job = Job { sealed, judgement, durable: moment.durable, segment_bytes };
        job.note(group, holding.take(), unknown);
        Ok(job)
    }

    /// Collects victims of a group until `wanted` bytes of records are dropped. Returns the bytes
    /// of the device that it freed.
    fn free(&self, group: &Group, job: &Job, wanted: u64, stop: &StopToken) -> Result<u64> {
        let mut random = self.host.environment.random("hashkv collection");
        let mut below = |below: u64| random.random_range(0..below.max(1));
        let order = plan(self.options.policy, &job.candidates(), &mut below);
        let (mut freed, mut gone) = (0, vec![false; job.judgement.segments.len()]);
        let mut returned = 0;
        let mut order = order.into_iter().peekable();
        // The records of a victim, the output that is filled, and the part that is written of it.
        let copies = Account::new(&self.host.memory);
        copies.set(COPIES_OF_SEGMENTS * u64::from(self.values.geometry.segment_bytes));
        while freed < wanted && order.peek().is_some() && !stop.is_stopping() {
            self.health.check_writable()?;
            let (mut batch, mut copied, mut freed_by_batch) = (Vec::new(), 0, 0);
            let segment_bytes = u64::from(self.values.geometry.segment_bytes);
            let taken = self.values.bound.take_for_job(COPY_BYTES.div_ceil(segment_bytes));
            let mut begun = 0;
            while copied < COPY_BYTES && freed + freed_by_batch < wanted && begun < taken {
                let Some(number) = order.peek() else { break };
                let source = job.source(*number).filter(|source| {
                    // Victims without a copy go first, also on a full device.
                    batch.is_empty() || begun > 0 || job.copied(*source) == 0
                });
                let Some(source) = source else { break };
                order.next();
                copied += job.copied(source);
                begun += u64::from(job.copied(source) > 0);
                freed_by_batch += job.dead(source);
                if let Some(gone) = gone.get_mut(source) {
                    *gone = true;
                }
                batch.push(source);
            }
            self.values.bound.release((taken - begun) * segment_bytes);
            let mut outputs = Outputs::new(&self.values, group, begun);
            let victims: Vec<Victim<'_>> =
                batch.iter().filter_map(|source| job.victim(*source, &gone)).collect();
            let exchanged = outputs.copy(&victims).and_then(|()| outputs.exchange(&victims));
            self.values.drop_directories(self.memory_split().directory_bytes);
            self.fit_cache();
            if let Err(error) = exchanged {
                // After a failed commit the table may name the outputs. The next opening returns
                // the places that it does not name.
                if error.is_retryable() || !outputs.is_committing() {
                    outputs.discard();
                }
                group.state.lock().is_changed = true;
                return Err(error);
            }
            freed += freed_by_batch;
            returned += outputs.returned_bytes();
            let mut state = group.state.lock();
            state.ledger.dead = state.ledger.dead.saturating_sub(freed_by_batch);
        }
        // Markers whose older records were removed are dead for the next job.
        let is_gone = |source: usize| gone.get(source).copied().unwrap_or(false);
        let lone = job.judgement.lone_marker_bytes(is_gone);
        if freed > 0 {
            group.state.lock().ledger.unknown += lone;
        }
        Ok(returned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_slow_down_above_the_upper_mark() {
        let marks = Marks::of(46 << 20);
        assert!(marks.target < marks.lower && marks.lower < marks.upper);
        assert_eq!(marks.delay(marks.upper), 0);
        let full = marks.delay(marks.reserve);
        assert!(NANOS_PER_KIB.abs_diff(full) < 1000, "{full}");
        assert_eq!(marks.delay(marks.reserve * 2), NANOS_PER_KIB_MAX);
    }
}
