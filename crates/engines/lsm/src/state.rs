//! The memtables and tables at one moment; a state never changes, and each step makes the next one.
//!
//! # Invariants
//! - S1. Every version that was written and not replaced is in one of the memtables or in the
//!   version. A flush puts the table in and takes the memtables out in one step, and so does a
//!   merge of memtables with the new one. So a reader that holds a state misses nothing. The set of
//!   range deletes of the same state says which entries are hidden (`range_deletes`, G1).
//! - S2. Each slot of the Dranges has one memtable that is written to. The others are sealed, or
//!   about to be, and ordered by id, the youngest first. All of them are here before anything is
//!   written to them.
//! - S3. The memtables of one Drange were made before those of any Drange that replaced it, and
//!   have lower ids.
//! - S4. A merge may drop a version together with the tombstone above it. `merged_upto` is at least
//!   the number of each such tombstone. The manifest does not say that writes are persisted before
//!   the journal has reached that number ([`State::must_reach`]).

pub(crate) mod present;

use std::sync::Arc;

use codec::SeqNo;
use memory_budget::MemoryBudget;
use sync::mutant;

use crate::dranges::Dranges;
use crate::memtable::{Memtable, MemtableCursor};
use crate::planted::Planted;
use crate::range_index::{Partition, RangeIndex};
use lsm_tree::entry::{Found, Target};
use lsm_tree::merge::Merged;
use lsm_tree::range_deletes::{Deletes, RangeDelete};
use lsm_tree::version::Version;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct State {
    /// Larger for each next state; walks ask for it to see whether theirs is old.
    pub(crate) generation: u64,
    pub(crate) dranges: Arc<Dranges>,
    /// The memtables that are written to, one for each slot; none once the store is closed.
    pub(crate) actives: Vec<Arc<Memtable>>,
    pub(crate) sealed: Vec<Arc<Memtable>>,
    /// Memtables that were flushed or merged since the store was opened.
    pub(crate) gone: u64,
    /// The newest write in memtables that were merged since the store was opened (S4).
    merged_upto: SeqNo,
    pub(crate) version: Arc<Version>,
    pub(crate) deletes: Arc<Deletes>,
    range_index: Arc<RangeIndex>,
    /// Whether the range index has a partition for each Drange, or one for all keys.
    is_partitioned: bool,
}

impl State {
    /// A state of empty memtables.
    pub(crate) fn new(
        dranges: Dranges,
        actives: Vec<Arc<Memtable>>,
        version: Version,
        deletes: Deletes,
        is_partitioned: bool,
    ) -> Self {
        let (dranges, version) = (Arc::new(dranges), Arc::new(version));
        let deletes = Arc::new(deletes);
        let range_index = Arc::new(RangeIndex::new(dranges.all().len()));
        let sealed = Vec::new();
        Self {
            generation: 0,
            dranges,
            actives,
            sealed,
            gone: 0,
            merged_upto: SeqNo::ZERO,
            version,
            deletes,
            range_index,
            is_partitioned,
        }
    }

    fn next(&self) -> Self {
        Self {
            generation: self.generation + 1,
            dranges: Arc::clone(&self.dranges),
            actives: self.actives.clone(),
            sealed: self.sealed.clone(),
            gone: self.gone,
            merged_upto: self.merged_upto,
            version: Arc::clone(&self.version),
            deletes: Arc::clone(&self.deletes),
            range_index: Arc::new(RangeIndex::new(self.dranges.all().len())),
            is_partitioned: self.is_partitioned,
        }
    }

    /// All memtables.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.actives.iter().chain(&self.sealed)
    }

    /// The memtable that write `seqno` of a key goes to, and the key's Trange; `None` once the
    /// store is closed.
    pub(crate) fn active(&self, key: &[u8], seqno: SeqNo) -> Option<(&Arc<Memtable>, usize)> {
        let (slot, trange) = self.dranges.route(key, seqno.get());
        Some((self.actives.get(slot)?, trange))
    }

    /// Whether a memtable waits to be flushed. One that rests waits for others to be merged with,
    /// as long as its Drange is there.
    pub(crate) fn is_due(&self, memtable: &Memtable) -> bool {
        !memtable.rests() || !self.dranges.has(memtable.drange())
    }

    /// The sealed memtables of a Drange.
    pub(crate) fn sealed_of(&self, drange: u64) -> Vec<Arc<Memtable>> {
        let of_it = |memtable: &&Arc<Memtable>| memtable.drange() == drange;
        self.sealed.iter().filter(of_it).cloned().collect()
    }

    /// How many memtables wait to be flushed.
    pub(crate) fn due(&self) -> usize {
        self.sealed.iter().filter(|memtable| self.is_due(memtable)).count()
    }

    /// The least floor of all memtables but those of these ids: everything up to there is in tables
    /// once these are.
    pub(crate) fn floor_without(&self, ids: &[u64]) -> SeqNo {
        let stays = |memtable: &&Arc<Memtable>| !ids.contains(&memtable.id());
        self.memtables().filter(stays).map(|memtable| memtable.floor()).min().unwrap_or(SeqNo::ZERO)
    }

    /// The number that the journal must reach before everything up to `floor` is persisted (S4).
    pub(crate) fn must_reach(&self, floor: SeqNo) -> SeqNo {
        floor.max(self.merged_upto)
    }

    /// The next state, in which `new` have the places of the memtables `old` that are written to.
    pub(crate) fn with_actives(&self, old: &[u64], new: &[Arc<Memtable>]) -> Self {
        let mut next = self.next();
        let mut new = new.iter();
        for active in next.actives.iter_mut().filter(|active| old.contains(&active.id())) {
            let Some(new) = new.next() else { break };
            next.sealed.push(std::mem::replace(active, Arc::clone(new)));
        }
        mutant!(Planted::IndexedLate, (), next.range_index = Arc::clone(&self.range_index));
        next.order();
        next
    }

    /// Returns the next state, in which `new` replace all memtables that are written to. The old
    /// ones are empty, and are dropped.
    pub(crate) fn with_new_memtables(&self, new: Vec<Arc<Memtable>>) -> Self {
        Self { actives: new, ..self.next() }
    }

    /// Returns the next state, with other Dranges and other memtables that are written to. The
    /// memtables that are no longer written to become sealed ones.
    pub(crate) fn with_dranges(&self, dranges: Arc<Dranges>, actives: Vec<Arc<Memtable>>) -> Self {
        let stays = |old: &&Arc<Memtable>| !actives.iter().any(|new| new.id() == old.id());
        let mut next = self.next();
        next.sealed.extend(self.actives.iter().filter(stays).cloned());
        next.range_index = Arc::new(RangeIndex::new(dranges.all().len()));
        (next.dranges, next.actives) = (dranges, actives);
        next.order();
        next
    }

    /// Returns the next state, with this version. From now on the memtables `flushed` are in the
    /// version, and the range deletes `persisted_deletes` are in the manifest.
    pub(crate) fn with_version(
        &self,
        version: Version,
        flushed: &[u64],
        persisted_deletes: &[Arc<RangeDelete>],
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let mut next = self.next();
        next.version = Arc::new(version);
        next.sealed.retain(|memtable| !flushed.contains(&memtable.id()));
        next.gone += flushed.len() as u64;
        if !next.deletes.is_empty() {
            let hides_something = |delete: &RangeDelete| next.has_hidden(delete);
            next.deletes =
                Arc::new(self.deletes.with_persisted(persisted_deletes, &hides_something, budget));
        }
        next
    }

    /// The next state, with these range deletes too.
    pub(crate) fn with_deletes(&self, new: Vec<RangeDelete>, budget: &Arc<MemoryBudget>) -> Self {
        let mut next = self.next();
        next.deletes = Arc::new(self.deletes.with(new, budget));
        // X1: it is about memtables and tables, and these are the same.
        next.range_index = Arc::clone(&self.range_index);
        next
    }

    /// Returns whether there may be an entry that a range delete hides (G1 of `range_deletes`).
    fn has_hidden(&self, delete: &RangeDelete) -> bool {
        // A write that enters a memtable later has another number than those below its floor.
        let in_memory = self.memtables().any(|memtable| {
            let bounds = memtable.bounds();
            let overlaps =
                bounds.is_before_end(&delete.start) && delete.is_before_end(&bounds.start);
            overlaps && memtable.floor() < delete.seqno && !memtable.is_empty()
        });
        mutant!(Planted::OverInMemory, in_memory, false) || self.version.may_hide(delete)
    }

    /// Returns the next state, in which `merged` has the place of these sealed memtables.
    pub(crate) fn with_merged(
        &self,
        inputs: &[Arc<Memtable>],
        merged: Option<Arc<Memtable>>,
    ) -> Self {
        let mut next = self.next();
        let newest = inputs.iter().map(|input| input.newest());
        next.merged_upto = newest.fold(self.merged_upto, SeqNo::max);
        let id = |one: &Memtable| mutant!(Planted::MergedUnread, one.id(), one.drange());
        next.sealed.retain(|one| !inputs.iter().any(|input| id(input) == id(one)));
        next.sealed.extend(merged);
        next.gone += inputs.len() as u64;
        next.order();
        next
    }

    fn order(&mut self) {
        self.sealed.sort_by_key(|memtable| std::cmp::Reverse(memtable.id()));
    }

    /// Returns the state that is left once the store is closed.
    pub(crate) fn closed(&self) -> Self {
        let version = Arc::new(Version::default());
        let deletes = Arc::default();
        Self { actives: Vec::new(), sealed: Vec::new(), version, deletes, ..self.next() }
    }

    /// The newest version at or behind `to`, of the same key, that a memtable has.
    ///
    /// The first memtable that has one has the newest, if its Drange has one slot. Those of several
    /// slots take turns; what is older than all of them ends the search.
    pub(crate) fn find_in_memory(&self, to: Target<'_>, into: &mut Vec<u8>) -> Option<Found> {
        self.partition_of(to.key)?.find_in_memory(to, into)
    }

    /// The partition that covers `key`.
    pub(crate) fn partition_of(&self, key: &[u8]) -> Option<&Arc<Partition>> {
        self.partition(self.dranges.index_of(key))
    }

    /// The partition of the keys right before `key`, or of the last ones of all.
    pub(crate) fn partition_before(&self, key: Option<&[u8]>) -> Option<&Arc<Partition>> {
        self.partition(self.dranges.index_before(key))
    }

    fn partition(&self, index: usize) -> Option<&Arc<Partition>> {
        let index = if self.is_partitioned { index } else { 0 };
        let drange = self.dranges.all().get(index)?;
        self.range_index.partition(index, || {
            let all = Arc::default();
            let bounds = if self.is_partitioned { &drange.bounds } else { &all };
            Partition::of(bounds, self.memtables(), self.version.level(0))
        })
    }

    /// Returns a walk over all sources with keys of a partition: over nothing else of Level 0 and
    /// in memory.
    pub(crate) fn merged_in(&self, partition: &Partition) -> Merged {
        let mut sources = self.version.cursors(&partition.level0);
        for memtable in &partition.memtables {
            sources.push(Box::new(MemtableCursor::new(Arc::clone(memtable))));
        }
        Merged::new(sources)
    }
}

impl Partition {
    /// [`State::find_in_memory`], of a key in the partition.
    pub(crate) fn find_in_memory(&self, to: Target<'_>, into: &mut Vec<u8>) -> Option<Found> {
        let mut best: Option<Found> = None;
        for memtable in self.memtables.iter().filter(|memtable| memtable.bounds().covers(to.key)) {
            let above = best.map_or(SeqNo::ZERO, |best| best.seqno);
            let Some(seqno) = memtable.find_above(to, above, into, &mut best) else { continue };
            debug_assert!(seqno <= to.seqno, "a memtable finds what is at or behind the place");
            if !memtable.is_one_of_many() {
                break;
            }
        }
        best
    }
}
