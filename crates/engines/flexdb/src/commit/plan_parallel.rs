//! The changes of a commit, planned on the pool's workers before they are made.
//!
//! 1. The keys of the memtables that are committed are cut into chunks of whole intervals.
//! 2. A worker that is free takes the next chunk, reads concurrently all that it needs, and plans
//!    the changes of its intervals.
//! 3. The thread that changes the space takes the plans in the order of their keys. Meanwhile it
//!    also plans chunks that no worker has taken.
//!
//! # Invariants
//! - P1. All plans are by one base, of the moment when planning began, and each looks at its own
//!   intervals alone. So a plan stays right whatever is done to the intervals before it, which only
//!   moves its own. The rest of an interval's updates may change the interval behind it, so a chunk
//!   ends with a rest, and planning begins again behind that.
//! - P2. One base serves a section of at most `chunks_max` chunks, or fewer if the section is ended
//!   early: while a base is held, all nodes that are changed are copied.
//! - P3. No more than [`AHEAD`] chunks are planned, or being planned, and not done.
//! - P4. Once it is dropped, no thread plans for it or holds its base.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use codec::SeqNo;
use engine::{Error, Result};
use flexspace::Found;
use memory_budget::Account;
use sync::{Condvar, Mutex, MutexGuard, mutant};
use workers::Class;

use super::merging::bytes_of;
use super::plan::{Edit, Known, Planner};
use super::take_updates;
use crate::index::{self, Interval, Key};
use crate::memory_split::{ChunkLimits, IntervalLimits};
use crate::memtable::{Ahead, Batch, BatchWalker, Update};
use crate::planted::Planted;
use crate::state::Base;
use crate::store::Shared;

/// Chunks ahead of the one that is done.
pub(super) const AHEAD: usize = 3;
/// Workers that plan in addition to the thread that changes the space.
const HELPERS: usize = 3;

/// The work that is to be planned.
pub(crate) struct Inputs {
    pub(crate) base: Arc<Base>,
    pub(crate) batch: Batch,
    /// Writes above the one number, up to the other.
    pub(crate) above: SeqNo,
    pub(crate) upto: SeqNo,
    /// The first key.
    pub(crate) from: Key,
    pub(crate) limits: IntervalLimits,
    /// How much a chunk has, but for the rest of its last interval.
    pub(crate) chunk: ChunkLimits,
    /// How many chunks there are in a section (P2).
    pub(crate) chunks_max: usize,
    /// Whether a try before this one found no room.
    pub(crate) is_short_of_room: bool,
    /// Held by the chunk in which a run of neighbours is rewritten.
    pub(crate) run: Arc<()>,
}

/// The planned change of an interval.
pub(crate) struct Planned {
    pub(crate) edit: Option<Edit>,
    pub(crate) updates: usize,
    /// Bytes of these as pairs.
    pub(crate) bytes: u64,
}

/// The updates of an interval of which there were too many for one plan: from a key on, to a bound.
pub(crate) struct Rest {
    pub(crate) from: Vec<u8>,
    pub(crate) bound: Option<Key>,
}

/// Some intervals in order.
pub(crate) struct Chunk {
    pub(crate) planned: Vec<Planned>,
    /// Updates of the last interval that are for its state after the chunk.
    pub(crate) rest: Option<Rest>,
    /// The bytes that are to be written.
    _charge: Account,
    _run: Option<Arc<()>>,
}

/// The plans of one walk over memtables.
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
    /// The key at which the next chunk begins; none behind the last.
    next_key: Option<Vec<u8>>,
    /// How many there are in this section at most (P2).
    chunks_max: usize,
    /// Chunks that a thread has taken to be planned, and chunks that were handed out.
    claimed: usize,
    handed: usize,
    done: BTreeMap<usize, Result<Chunk>>,
    working: usize,
    helpers: usize,
}

/// A chunk that is to be planned.
pub(super) struct ChunkTurn {
    number: usize,
    pub(super) inputs: Arc<Inputs>,
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
            chunks_max: inputs.chunks_max,
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
            let (handed, done) = (progress.handed, &mut progress.done);
            let next = mutant!(Planted::OutOfTurn, done.remove_entry(&handed), done.pop_first());
            if let Some((_, chunk)) = next {
                progress.handed += 1;
                return Some(chunk);
            }
            if let Some(turn) = progress.take_turn() {
                drop(progress);
                self.job.plan(self.shared, turn);
            } else if progress.claimed == progress.handed {
                return None;
            } else {
                // The worker that has claimed it is planning it now.
                self.job.came.wait(&mut progress);
            }
        }
    }

    /// Ends the section behind the chunks that threads have already taken.
    pub(crate) fn end_section(&self) {
        let mut progress = self.job.progress.lock();
        progress.chunks_max = progress.claimed;
    }

    /// Returns the key at which the next section begins, once all chunks of this one were handed
    /// out; none behind the last.
    pub(crate) fn rest(self) -> Option<Key> {
        let progress = self.job.progress.lock();
        progress.next_key.as_deref().map(Key::from)
    }

    /// Asks workers to plan, as long as there is something to be planned.
    pub(super) fn have_helped(&self) {
        let mut progress = self.job.progress.lock();
        while progress.is_planned_on() && progress.helpers < HELPERS {
            let (job, shared) = (Arc::downgrade(&self.job), Arc::downgrade(self.shared));
            let task = move |_stop: &workers::StopToken| help(&job, &shared);
            if self.shared.background.group.submit(Class::Flush, "flexdb plan", task).is_err() {
                break;
            }
            progress.helpers += 1;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
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

/// Plans chunks as long as there are any that may be planned now.
fn help(job: &Weak<Job>, shared: &Weak<Shared>) {
    let (Some(job), Some(shared)) = (job.upgrade(), shared.upgrade()) else { return };
    loop {
        let mut progress = job.progress.lock();
        let Some(turn) = progress.take_turn() else {
            progress.helpers -= 1;
            return;
        };
        drop(progress);
        job.plan(&shared, turn);
    }
}

impl Progress {
    /// Whether there is more to be planned in this section.
    fn is_planned_on(&self) -> bool {
        self.next_key.is_some() && self.claimed < self.chunks_max
    }

    /// Returns the next chunk if it may be planned now (P2, P3).
    fn take_turn(&mut self) -> Option<ChunkTurn> {
        if self.claimed - self.handed >= AHEAD {
            return None;
        }
        let inputs = Arc::clone(self.inputs.as_ref()?);
        if self.claimed >= self.chunks_max {
            return None;
        }
        let from = self.next_key.take()?;
        let end = inputs.end_of_chunk(&from);
        if let Some(end) = &end {
            let walker = inputs.walker(Bound::Included(&**end));
            self.next_key = walker.here().map(|next| next.key.to_vec());
        }
        let number = self.claimed;
        self.claimed += 1;
        self.working += 1;
        Some(ChunkTurn { number, inputs, from, end })
    }
}

impl Job {
    fn plan(&self, shared: &Shared, turn: ChunkTurn) {
        // A panic hands it over, too, and its task reports the panic: no thread waits for it for
        // ever.
        let mut outcome = Outcome { job: self, number: turn.number, chunk: Err(Error::Closed) };
        outcome.chunk = plan_chunk(shared, &turn);
        drop(turn);
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
    fn walker(&self, from: Bound<&[u8]>) -> BatchWalker<'_> {
        let mut walker = self.batch.walker(self.above, self.upto);
        walker.seek(from);
        walker
    }

    /// The bound of the interval behind the chunk that begins at `from`; none behind the last.
    fn end_of_chunk(&self, from: &[u8]) -> Option<Key> {
        let mut walker = self.walker(Bound::Included(from));
        let (mut updates, mut bytes) = (0, 0);
        let mut end = None;
        while updates < self.chunk.updates && bytes < self.chunk.bytes {
            let Some(update) = walker.here() else { break };
            if end.is_none_or(|end: &Key| update.key >= &**end) {
                let found = self.base.interval_of(update.key)?;
                bytes += u64::from(found.length);
                end = Some(bound_behind(&self.base, &found)?);
            }
            updates += 1;
            bytes += (update.key.len() + update.value_bytes) as u64;
            walker.pass();
        }
        end.cloned()
    }
}

/// The bound of the interval behind this one.
pub(crate) fn bound_behind<'a>(base: &'a Base, found: &Found<'_, Interval>) -> Option<&'a Key> {
    index::bound_at(&base.index, found.offset + u64::from(found.length))
}

/// An interval of a chunk before it is planned.
pub(super) struct Pending<'a> {
    pub(super) found: Option<Found<'a, Interval>>,
    pub(super) updates: Vec<Update>,
    pub(super) known: Known,
    /// Whether it is rewritten, with its neighbours.
    pub(super) is_rewrite: bool,
}

fn plan_chunk(shared: &Shared, turn: &ChunkTurn) -> Result<Chunk> {
    let Inputs { base, limits, .. } = &*turn.inputs;
    let planner = Planner { shared, base, limits: *limits };
    let mut walker = turn.inputs.walker(Bound::Included(&turn.from));
    let is_in_chunk = |it: &Ahead<'_>| turn.end.as_ref().is_none_or(|end| it.key < &**end);
    let (mut intervals, mut rest) = (Vec::new(), None);
    while let Some(first) = walker.here().filter(is_in_chunk) {
        let found = base.interval_of(first.key);
        let bound = found.as_ref().and_then(|found| bound_behind(base, found));
        let (updates, is_whole) =
            take_updates(&mut walker, bound.map(|bound| &**bound), &shared.options);
        let known = found.as_ref().map_or(Known::Nothing, |found| planner.look(found, &updates));
        intervals.push(Pending { found, updates, known, is_rewrite: false });
        if !is_whole {
            let from = walker.here().map(|next| next.key.to_vec());
            rest = from.map(|from| Rest { from, bound: bound.cloned() });
            break;
        }
    }
    let run = match rest {
        None => planner.join_in_runs(turn, &mut intervals),
        Some(_) => None,
    };
    read(shared, &mut intervals);
    let charge = Account::new(&shared.host.memory);
    let (mut planned, mut bytes) = (Vec::with_capacity(intervals.len()), 0);
    for Pending { found, updates, known, is_rewrite } in intervals {
        let edit = match is_rewrite {
            true => planner.plan_rewrite(found.as_ref(), &updates, known)?,
            false => planner.plan(found.as_ref(), &updates, known)?,
        };
        bytes += edit.as_ref().map_or(0, |edit| edit.data.capacity());
        charge.set(bytes as u64);
        planned.push(Planned { edit, updates: updates.len(), bytes: bytes_of(&updates) });
    }
    Ok(Chunk { planned, rest, _charge: charge, _run: run })
}

/// Reads the intervals that have to be known, adjacent blocks of the file together.
fn read(shared: &Shared, intervals: &mut [Pending<'_>]) {
    let (mut wanted, mut uncached) = (Vec::new(), Vec::new());
    for (index, interval) in intervals.iter_mut().enumerate() {
        if let Known::Cold(_) = &interval.known
            && let Known::Cold(cold) = std::mem::replace(&mut interval.known, Known::Nothing)
        {
            wanted.push(index);
            uncached.push(cold);
        }
    }
    shared.read_intervals(&uncached, &mut |at, block| {
        if let Some(interval) = wanted.get(at).and_then(|index| intervals.get_mut(*index)) {
            interval.known = block.map_or_else(Known::Damaged, Known::Pairs);
        }
    });
}
