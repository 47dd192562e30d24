//! Reorganisation: Dranges are rebuilt, so that each takes about the same number of writes.
//!
//! 1. The plan decides from the writes that were counted whether there is anything to do. For a
//!    major reorganisation it samples the keys that memtables hold. Before that, the task checks
//!    whether the newest writes have moved to other keys: then they alone count, and an early
//!    reorganisation is made from them. The next early one has to wait. The wait doubles each time
//!    if the one before was of no use because writes have moved again. So if no boundaries stay
//!    good, the store does not sample without end, nor flush memtables without end before they are
//!    full.
//! 2. The next state has the new Dranges, and an empty memtable for each slot of the new ones.
//!    After that the memtables of removed Dranges are sealed: a writer that was routed to them
//!    before still finds them open, or routes its key again.
//! 3. Sealed memtables of removed Dranges are flushed soon, and before any memtable that replaced
//!    them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory_budget::Account;
use sync::locks::Mutex;

use crate::dranges::Dranges;
use crate::dranges::construct::{Layout, Wanted, construct};
use crate::dranges::plan_reorganisation::{Plan, WINDOW, are_enough, have_moved, plan, weigh};
use crate::memtable::{Memtable, Place};
use crate::options::Routing;
use crate::store::Shared;

/// Keys that are sampled, at most.
const SAMPLE_MAX: usize = 1 << 16;
/// Tranges of a Drange, at most.
const TRANGES: usize = 10;
/// How much less unequal the loads must become for a major reorganisation to be worth it.
const GAIN: f64 = 0.8;
/// Plans that are left alone after one that was not worth it, at most.
const BACKOFF_MAX: u32 = 256;

/// The state that reorganisations keep between runs.
#[derive(Debug, Default)]
pub(crate) struct Reorganiser {
    /// One at a time.
    state: Mutex<Backoff>,
    pub(crate) minor: AtomicU64,
    pub(crate) major: AtomicU64,
    /// Major reorganisations that were early.
    pub(crate) early: AtomicU64,
}

#[derive(Debug)]
struct Backoff {
    next_drange: u64,
    /// Major plans to leave alone, and how many it will be the next time.
    left: u32,
    next: u32,
    early: Early,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next_drange: 1, left: 0, next: 1, early: Early::default() }
    }
}

/// Whether writes have moved.
#[derive(Debug, Default)]
struct Early {
    /// The Dranges, and their counts when the newest writes began.
    begun: Option<(Arc<Dranges>, Layout)>,
    /// Plans to leave alone before the next early reorganisation, and the least number to leave
    /// alone after that one.
    left: usize,
    next: usize,
}

impl Early {
    /// Returns the newest writes, if they have moved and it is time for an early reorganisation.
    fn look(&mut self, dranges: &Arc<Dranges>, now: &Layout) -> Option<Layout> {
        self.left = self.left.saturating_sub(1);
        let begun = self.begun.as_ref().filter(|(of, _)| Arc::ptr_eq(of, dranges));
        let newest = begun.map(|(_, before)| now.since(before));
        if newest.as_ref().is_some_and(|newest| !are_enough(newest)) {
            return None;
        }
        self.begun = Some((Arc::clone(dranges), now.clone()));
        if self.left > 0 {
            return None;
        }
        let newest = newest?;
        if !have_moved(&newest) {
            self.next = 0;
            return None;
        }
        // One plan for each slot, since each plan comes with a full memtable.
        self.left = self.next.max(newest.slots());
        self.next = (2 * self.left).min(BACKOFF_MAX as usize * newest.slots());
        Some(newest)
    }
}

impl Shared {
    /// Reorganises the Dranges, if the writes since the last time ask for it.
    pub(crate) fn reorganise(self: &Arc<Self>) {
        if self.options.routing != Routing::Dranges {
            return;
        }
        let reorganiser = &self.background.reorganiser;
        let Some(mut backoff) = reorganiser.state.try_lock() else { return };
        let dranges = Arc::clone(&self.state.load().dranges);
        let now = dranges.layout();
        let slots = self.memory_split().slots;
        let moved = backoff.early.look(&dranges, &now);
        let early = moved.and_then(|newest| self.construct_dranges(&newest, slots));
        if let Some(layout) = early {
            reorganiser.major.fetch_add(1, Relaxed);
            reorganiser.early.fetch_add(1, Relaxed);
            (backoff.left, backoff.next) = (0, 1);
            let next = dranges.after(layout, &mut backoff.next_drange);
            return self.install_dranges(next);
        }
        let layout = match plan(&now, slots) {
            Plan::Nothing => None,
            Plan::Minor(layout) => {
                reorganiser.minor.fetch_add(1, Relaxed);
                Some(layout)
            }
            Plan::Major if backoff.left > 0 => {
                backoff.left -= 1;
                None
            }
            Plan::Major => {
                let layout = self.construct_dranges(&now, slots);
                if layout.is_some() {
                    reorganiser.major.fetch_add(1, Relaxed);
                    backoff.next = 1;
                } else {
                    backoff.left = backoff.next;
                    backoff.next = (2 * backoff.next).min(BACKOFF_MAX);
                }
                layout
            }
        };
        match layout {
            Some(layout) => {
                let next = dranges.after(layout, &mut backoff.next_drange);
                self.install_dranges(next);
            }
            None if now.writes() >= WINDOW => {
                dranges.decay();
                backoff.early.begun = None;
            }
            None => {}
        }
    }

    /// Installs a layout as a reorganisation does, under ids that no other one has.
    #[cfg(test)]
    pub(crate) fn install_layout(self: &Arc<Self>, layout: Layout) {
        let mut backoff = self.background.reorganiser.state.lock();
        let dranges = Arc::clone(&self.state.load().dranges);
        let next = dranges.after(layout, &mut backoff.next_drange);
        self.install_dranges(next);
    }

    /// Returns a layout made from the keys of memtables, if it is better than the present one.
    fn construct_dranges(&self, now: &Layout, slots: usize) -> Option<Layout> {
        let (sample, _charge) = self.sample();
        let duplicates = self.options.duplicates;
        let weighed = weigh(now, sample);
        // Too few keys say nothing about the load.
        if weighed.len() < 2 * slots {
            return None;
        }
        let layout = construct(&weighed, Wanted { slots, tranges: TRANGES, duplicates });
        // With less memory than before, the present number of slots would take more than their
        // share.
        let are_too_many = now.slots() > 2 * slots && layout.slots() < now.slots();
        let is_better = are_too_many
            || layout.slots() > now.slots()
            || layout.imbalance() < GAIN * now.imbalance();
        is_better.then(|| layout.forgetting())
    }

    /// Returns keys that memtables hold, in order, one for each version in the sample. Together
    /// they take not many more bytes than a job may take, and these bytes are charged.
    pub(crate) fn sample(&self) -> (Vec<Vec<u8>>, Account) {
        let state = self.state.load_full();
        let entries: usize = state.memtables().map(|memtable| memtable.len()).sum();
        let stride = entries.div_ceil(SAMPLE_MAX).max(1);
        let bytes: u64 = state.memtables().map(|memtable| memtable.key_bytes(stride)).sum();
        let stride = stride * bytes.div_ceil(self.memory_split().job_bytes.max(1)).max(1) as usize;
        let mut sample = Vec::new();
        state.memtables().for_each(|memtable| memtable.sample(stride, &mut sample));
        sample.sort_unstable();
        let charge = Account::new(&self.host.memory);
        let bytes: usize = sample.iter().map(|key| key.len() + size_of::<Vec<u8>>()).sum();
        charge.set(bytes as u64);
        (sample, charge)
    }

    /// Steps 2 and 3.
    pub(crate) fn install_dranges(self: &Arc<Self>, dranges: Dranges) {
        let install = self.state.install.lock();
        let state = self.state.load_full();
        if state.actives.is_empty() {
            return;
        }
        // The floor is read before the new memtables are published: a write to one of them has a
        // number above it.
        let finished = self.host.sequence.visible().min(self.memtables.applied());
        let floor = finished.max(self.manifest.persisted());
        let mut actives = Vec::new();
        for drange in dranges.all() {
            let old = state.actives.iter().filter(|memtable| memtable.drange() == drange.id);
            let before = actives.len();
            actives.extend(old.cloned());
            let place = Place {
                drange: drange.id,
                bounds: Arc::clone(&drange.bounds),
                slots: drange.slots.len(),
            };
            for _ in actives.len() - before..drange.slots.len() {
                actives.push(Memtable::new(place.clone(), floor, &self.memtables));
            }
        }
        let next = state.with_dranges(Arc::new(dranges), actives);
        let next = Arc::new(next);
        self.state.store(Arc::clone(&next));
        drop(install);
        let is_active =
            |memtable: &&Arc<Memtable>| next.actives.iter().any(|now| now.id() == memtable.id());
        state.actives.iter().filter(|memtable| !is_active(memtable)).for_each(|old| old.seal());
        self.schedule_flush();
    }
}
