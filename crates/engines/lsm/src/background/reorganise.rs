//! Reorganisation: Dranges are made anew, so that each takes about the same number of writes.
//!
//! 1. The plan says from the writes that were counted whether there is anything to do. For a major
//!    one the keys that memtables hold are sampled. Before that it is asked whether the newest writes have
//!    moved: then they alone count, and an early one is made of them. The next early one has to wait; twice
//!    as long each time, if the one before was of no use because writes have moved again. So there is no
//!    end of samples and of memtables that are flushed before they are full where no boundaries stay good.
//! 2. The next state has the new Dranges, and an empty memtable for each slot of those that are
//!    new. Those that are not there any more are sealed, after that: who was routed to them before
//!    still finds them open, or looks again.
//! 3. Sealed memtables of Dranges that are not there any more are flushed soon, and before any that
//!    came in their place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::Charge;
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
const PATIENCE_MAX: u32 = 256;

/// What reorganisations remember.
#[derive(Debug, Default)]
pub(crate) struct Reorganiser {
    /// One at a time.
    state: Mutex<Patience>,
    pub(crate) minor: AtomicU64,
    pub(crate) major: AtomicU64,
    /// Those of them that were early.
    pub(crate) early: AtomicU64,
}

#[derive(Debug)]
struct Patience {
    next_drange: u64,
    /// Major plans to leave alone, and how many it will be the next time.
    left: u32,
    next: u32,
    early: Early,
}

impl Default for Patience {
    fn default() -> Self {
        Self { next_drange: 1, left: 0, next: 1, early: Early::default() }
    }
}

/// Whether writes have moved.
#[derive(Debug, Default)]
struct Early {
    /// The Dranges, and what they had counted when the newest writes began.
    begun: Option<(Arc<Dranges>, Layout)>,
    /// Plans to leave alone before the next early reorganisation, and how many at least it will be after that.
    left: usize,
    next: usize,
}

impl Early {
    /// The newest writes, if they have moved and it is time. There is to be an early reorganisation.
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
        // As many plans as there are slots: each comes with a full memtable.
        self.left = self.next.max(newest.slots());
        self.next = (2 * self.left).min(PATIENCE_MAX as usize * newest.slots());
        Some(newest)
    }
}

impl Shared {
    /// Reorganises the Dranges, if the writes since the last time ask for it.
    pub(crate) fn reorganise(self: &Arc<Self>) {
        if self.options.routing != Routing::Dranges {
            return;
        }
        let Some(mut patience) = self.reorganiser.state.try_lock() else { return };
        let dranges = Arc::clone(&self.state.load().dranges);
        let now = dranges.layout();
        let slots = self.memory_split().slots;
        let moved = patience.early.look(&dranges, &now);
        let early = moved.and_then(|newest| self.construct_dranges(&newest, slots));
        if let Some(layout) = early {
            self.reorganiser.major.fetch_add(1, Relaxed);
            self.reorganiser.early.fetch_add(1, Relaxed);
            (patience.left, patience.next) = (0, 1);
            let next = dranges.after(layout, &mut patience.next_drange);
            return self.install_dranges(next);
        }
        let layout = match plan(&now, slots) {
            Plan::Nothing => None,
            Plan::Minor(layout) => {
                self.reorganiser.minor.fetch_add(1, Relaxed);
                Some(layout)
            }
            Plan::Major if patience.left > 0 => {
                patience.left -= 1;
                None
            }
            Plan::Major => {
                let layout = self.construct_dranges(&now, slots);
                if layout.is_some() {
                    self.reorganiser.major.fetch_add(1, Relaxed);
                    patience.next = 1;
                } else {
                    patience.left = patience.next;
                    patience.next = (2 * patience.next).min(PATIENCE_MAX);
                }
                layout
            }
        };
        match layout {
            Some(layout) => {
                let next = dranges.after(layout, &mut patience.next_drange);
                self.install_dranges(next);
            }
            None if now.writes() >= WINDOW => {
                dranges.decay();
                patience.early.begun = None;
            }
            None => {}
        }
    }

    /// Installs a layout as a reorganisation does, under ids that no other one has.
    #[cfg(test)]
    pub(crate) fn install_layout(self: &Arc<Self>, layout: Layout) {
        let mut patience = self.reorganiser.state.lock();
        let dranges = Arc::clone(&self.state.load().dranges);
        let next = dranges.after(layout, &mut patience.next_drange);
        self.install_dranges(next);
    }

    /// A layout made of what memtables hold, if it is better than the present one.
    fn construct_dranges(&self, now: &Layout, slots: usize) -> Option<Layout> {
        let (sample, _charge) = self.sample();
        let duplicates = self.options.duplicates;
        let weighed = weigh(now, sample);
        // Of a few keys nothing can be told.
        if weighed.len() < 2 * slots {
            return None;
        }
        let layout = construct(&weighed, Wanted { slots, tranges: TRANGES, duplicates });
        // With less memory than there was, so many slots would take more than their share.
        let are_too_many = now.slots() > 2 * slots && layout.slots() < now.slots();
        let is_better = are_too_many
            || layout.slots() > now.slots()
            || layout.imbalance() < GAIN * now.imbalance();
        is_better.then(|| layout.forgetting())
    }

    /// Keys that memtables hold, in order: one of each, and of all not many more bytes than a job
    /// may take, which are charged.
    pub(crate) fn sample(&self) -> (Vec<Vec<u8>>, Charge) {
        let state = self.state.load_full();
        let entries: usize = state.memtables().map(|memtable| memtable.len()).sum();
        let stride = entries.div_ceil(SAMPLE_MAX).max(1);
        let bytes: u64 = state.memtables().map(|memtable| memtable.key_bytes(stride)).sum();
        let stride = stride * bytes.div_ceil(self.memory_split().job_bytes.max(1)).max(1) as usize;
        let mut sample = Vec::new();
        state.memtables().for_each(|memtable| memtable.sample(stride, &mut sample));
        sample.sort_unstable();
        let mut charge = Charge::new(&self.host.memory);
        charge.set(sample.iter().map(|key| key.len() + size_of::<Vec<u8>>()).sum());
        (sample, charge)
    }

    /// Steps 2 and 3.
    pub(crate) fn install_dranges(self: &Arc<Self>, dranges: Dranges) {
        let install = self.install.lock();
        let state = self.state.load_full();
        if state.actives.is_empty() {
            return;
        }
        // Asked before the new memtables are named: whoever writes to one holds a number above
        // this.
        let floor = self.host.sequence.visible().min(self.family.applied()).max(self.persisted());
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
                actives.push(Memtable::new(place.clone(), floor, &self.family));
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
