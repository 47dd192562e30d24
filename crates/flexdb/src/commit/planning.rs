//! The changes of a commit, planned ahead of their being done, on the pool's workers.
//!
//! 1. The memtable's keys are cut into chunks of whole intervals.
//! 2. Whoever is free takes the next chunk, reads what has to be read for it, all at once, and plans what
//!    happens to its intervals.
//! 3. The one that changes the space takes the plans in the order of their keys, and meanwhile plans
//!    itself what nobody else has taken.
//!
//! # Invariants
//! - P1. All plans are by one base, of the moment when planning began; each looks at its intervals alone.
//!   So it is right whatever is done to those before, which only move it. The rest of an interval's updates
//!   may change the one behind it, so a chunk ends with a rest, and planning begins anew behind that.
//! - P2. No more than [`AHEAD`] chunks are planned, or being planned, and not done.
//! - P3. Once it is dropped nobody plans for it or holds its base.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use codec::SeqNo;
use engine::{Charge, Error, Result};
use flexspace::Found;
use parking_lot::{Condvar, Mutex, MutexGuard};
use workers::Class;

use super::plan::{Edit, Known, Planner};
use super::take_updates;
use crate::index::{self, Interval, Key};
use crate::memory_split::{ChunkLimits, IntervalLimits};
use crate::memtable::{Memtable, Update, Walker};
use crate::read::Cold;
use crate::state::Base;
use crate::store::Shared;

/// Chunks ahead of the one that is done.
pub(super) const AHEAD: usize = 4;
/// Workers that plan beside the one that changes the space.
const HELPERS: usize = 3;

/// What is to be planned.
pub(crate) struct Inputs {
    pub(crate) base: Arc<Base>,
    pub(crate) memtable: Arc<Memtable>,
    /// Writes above the one number, up to the other.
    pub(crate) above: SeqNo,
    pub(crate) upto: SeqNo,
    /// The first key.
    pub(crate) from: Key,
    pub(crate) limits: IntervalLimits,
    /// How much a chunk has, but for the rest of its last interval.
    pub(crate) chunk: ChunkLimits,
}

/// What happens to an interval.
pub(crate) struct Planned {
    pub(crate) edit: Option<Edit>,
    pub(crate) updates: usize,
}

/// The updates of an interval of which there were too many for one plan: from a key on, to a bound.
pub(crate) struct Rest {
    pub(crate) from: Vec<u8>,
    pub(crate) bound: Option<Key>,
}

/// Some intervals in order.
pub(crate) struct Chunk {
    pub(crate) planned: Vec<Planned>,
    /// Updates of the last one that are for what is there then.
    pub(crate) rest: Option<Rest>,
    /// What is to be written.
    _charge: Charge,
}

/// The plans of one walk over a memtable.
pub(crate) struct Planning<'a> {
    shared: &'a Arc<Shared>,
    job: Arc<Job>,
}

struct Job {
    progress: Mutex<Progress>,
    /// A chunk was planned.
    came: Condvar,
}

struct Progress {
    /// None once it is over.
    inputs: Option<Arc<Inputs>>,
    /// Where the next chunk begins; none behind the last.
    next_key: Option<Vec<u8>>,
    /// Chunks that somebody has taken to be planned, and those that were handed out.
    claimed: usize,
    handed: usize,
    done: BTreeMap<usize, Result<Chunk>>,
    working: usize,
    helpers: usize,
}

/// A chunk that is to be planned.
struct Claim {
    number: usize,
    inputs: Arc<Inputs>,
    from: Vec<u8>,
    end: Option<Key>,
}

impl<'a> Planning<'a> {
    /// Begins to plan.
    pub(crate) fn begin(shared: &'a Arc<Shared>, inputs: Inputs) -> Self {
        let mut walker = inputs.walker(Bound::Included(&*inputs.from));
        let next_key = walker.take().map(|first| first.key().to_vec());
        drop(walker);
        let progress = Progress {
            inputs: Some(Arc::new(inputs)),
            next_key,
            claimed: 0,
            handed: 0,
            done: BTreeMap::new(),
            working: 0,
            helpers: 0,
        };
        let job = Arc::new(Job { progress: Mutex::new(progress), came: Condvar::new() });
        Self { shared, job }
    }

    /// The next chunk; none behind the last.
    pub(crate) fn next(&mut self) -> Option<Result<Chunk>> {
        loop {
            self.have_helped();
            let mut progress = self.job.progress.lock();
            let handed = progress.handed;
            if let Some(chunk) = progress.done.remove(&handed) {
                progress.handed += 1;
                return Some(chunk);
            }
            if let Some(claim) = progress.claim() {
                drop(progress);
                self.job.plan(self.shared, claim);
            } else if progress.claimed == progress.handed {
                return None;
            } else {
                // Whoever has claimed it works on it now.
                self.job.came.wait(&mut progress);
            }
        }
    }

    /// Asks workers to plan, as long as there is something to be planned.
    pub(super) fn have_helped(&self) {
        let mut progress = self.job.progress.lock();
        while progress.next_key.is_some() && progress.helpers < HELPERS {
            let (job, shared) = (Arc::downgrade(&self.job), Arc::downgrade(self.shared));
            let task = move |_stop: &workers::StopToken| help(&job, &shared);
            if self.shared.group.submit(Class::Flush, "flexdb plan", task).is_err() {
                break;
            }
            progress.helpers += 1;
        }
    }
}

#[cfg(test)]
impl Planning<'_> {
    /// Chunks that are planned and not handed out.
    pub(super) fn planned(&self) -> usize {
        self.job.progress.lock().done.len()
    }
}

impl Drop for Planning<'_> {
    fn drop(&mut self) {
        let mut progress = self.job.progress.lock();
        progress.next_key = None;
        while progress.working > 0 {
            self.job.came.wait(&mut progress);
        }
        progress.done.clear();
        progress.inputs = None;
    }
}

/// Plans chunks as long as there are any that may be planned by now.
fn help(job: &Weak<Job>, shared: &Weak<Shared>) {
    let (Some(job), Some(shared)) = (job.upgrade(), shared.upgrade()) else { return };
    loop {
        let mut progress = job.progress.lock();
        let Some(claim) = progress.claim() else {
            progress.helpers -= 1;
            return;
        };
        drop(progress);
        job.plan(&shared, claim);
    }
}

impl Progress {
    /// The next chunk, if it may be planned by now (P2).
    fn claim(&mut self) -> Option<Claim> {
        if self.claimed - self.handed >= AHEAD {
            return None;
        }
        let inputs = Arc::clone(self.inputs.as_ref()?);
        let from = self.next_key.take()?;
        let end = inputs.end_of_chunk(&from);
        if let Some(end) = &end {
            let walker = inputs.walker(Bound::Included(&**end));
            self.next_key = walker.here().map(|next| next.key().to_vec());
        }
        let number = self.claimed;
        self.claimed += 1;
        self.working += 1;
        Some(Claim { number, inputs, from, end })
    }
}

impl Job {
    fn plan(&self, shared: &Shared, claim: Claim) {
        // Handed over also by a panic, which its task tells: nobody waits for it for ever.
        let mut outcome = Outcome { job: self, number: claim.number, chunk: Err(Error::Closed) };
        outcome.chunk = plan_chunk(shared, &claim);
        drop(claim);
    }
}

/// Hands a chunk over when it is dropped.
struct Outcome<'a> {
    job: &'a Job,
    number: usize,
    chunk: Result<Chunk>,
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        let chunk = std::mem::replace(&mut self.chunk, Err(Error::Closed));
        let mut progress: MutexGuard<'_, Progress> = self.job.progress.lock();
        progress.working -= 1;
        progress.done.insert(self.number, chunk);
        self.job.came.notify_all();
    }
}

impl Inputs {
    fn walker(&self, from: Bound<&[u8]>) -> Walker<'_> {
        let mut walker = Walker::new(&self.memtable, self.above, self.upto);
        walker.seek(from);
        walker
    }

    /// The bound of the interval behind the chunk that begins at `from`; none behind the last.
    fn end_of_chunk(&self, from: &[u8]) -> Option<Key> {
        let mut walker = self.walker(Bound::Included(from));
        let (mut updates, mut bytes) = (0, 0);
        let mut end = None;
        while updates < self.chunk.updates && bytes < self.chunk.bytes {
            let Some(update) = walker.take() else { break };
            if end.is_none_or(|end: &Key| update.key() >= &**end) {
                let found = self.base.interval_of(update.key())?;
                bytes += u64::from(found.length);
                end = Some(bound_behind(&self.base, &found)?);
            }
            updates += 1;
            bytes += (update.key().len() + update.value().map_or(0, <[u8]>::len)) as u64;
        }
        end.cloned()
    }
}

/// The bound of the interval behind this one.
pub(crate) fn bound_behind<'a>(base: &'a Base, found: &Found<'_, Interval>) -> Option<&'a Key> {
    index::bound_at(&base.index, found.offset + u64::from(found.length))
}

/// An interval of a chunk before it is planned.
struct Pending<'a> {
    found: Option<Found<'a, Interval>>,
    updates: Vec<Update<'a>>,
    known: Known,
}

fn plan_chunk(shared: &Shared, claim: &Claim) -> Result<Chunk> {
    let Inputs { base, limits, .. } = &*claim.inputs;
    let planner = Planner { shared, base, limits: *limits };
    let mut walker = claim.inputs.walker(Bound::Included(&claim.from));
    let is_in_chunk = |it: &&Update<'_>| claim.end.as_ref().is_none_or(|end| it.key() < &**end);
    let (mut intervals, mut rest) = (Vec::new(), None);
    while let Some(first) = walker.here().filter(is_in_chunk) {
        let found = base.interval_of(first.key());
        let bound = found.as_ref().and_then(|found| bound_behind(base, found));
        let (updates, is_whole) =
            take_updates(&mut walker, bound.map(|bound| &**bound), &shared.options);
        let known = found.as_ref().map_or(Known::Nothing, |found| planner.look(found, &updates));
        intervals.push(Pending { found, updates, known });
        if !is_whole {
            let from = walker.here().map(|next| next.key().to_vec());
            rest = from.map(|from| Rest { from, bound: bound.cloned() });
            break;
        }
    }
    read(shared, &mut intervals)?;
    let mut charge = Charge::new(&shared.host.memory);
    let (mut planned, mut bytes) = (Vec::with_capacity(intervals.len()), 0);
    for Pending { found, updates, known } in intervals {
        let edit = planner.plan(found.as_ref(), &updates, known)?;
        bytes += edit.as_ref().map_or(0, |edit| edit.data.capacity());
        charge.set(bytes);
        planned.push(Planned { edit, updates: updates.len() });
    }
    Ok(Chunk { planned, rest, _charge: charge })
}

/// Reads the intervals that have to be known.
fn read(shared: &Shared, intervals: &mut [Pending<'_>]) -> Result<()> {
    let mut wanted = Vec::new();
    for (index, interval) in intervals.iter_mut().enumerate() {
        if let Known::Cold(_) = &interval.known
            && let Known::Cold(cold) = std::mem::replace(&mut interval.known, Known::Nothing)
        {
            wanted.push((index, cold));
        }
    }
    let colds: Vec<&Cold> = wanted.iter().map(|(_, cold)| cold).collect();
    let mut found: Vec<Option<Known>> = Vec::new();
    found.resize_with(colds.len(), || None);
    shared.read_many(&colds, &mut |index, block| {
        found[index] = Some(block.map_or_else(Known::Damaged, Known::Pairs));
    })?;
    for ((index, _), known) in wanted.iter().zip(found) {
        if let (Some(interval), Some(known)) = (intervals.get_mut(*index), known) {
            interval.known = known;
        }
    }
    Ok(())
}
