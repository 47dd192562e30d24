//! Periodic work in the background: the index grows, memory moves to where it saves most, the logs
//! are compacted, digests of chunks are made.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sync::locks::Mutex;
use workers::{Class, Next, StopToken, Stopped};

use crate::address::LogAddress;
use crate::admission::Level;
use crate::checkpoint::OfEach;
use crate::hash_index::Trimmed;
use crate::options::MemoryPlan;
use crate::store::{Shared, Store};

/// How often upkeep looks whether something is to be done, while something changes.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);
/// The longest interval while nothing changes, before upkeep sleeps.
pub(crate) const INTERVAL_IDLE: Duration = Duration::from_millis(320);
/// Rounds of a compaction that is behind before other work has its turn.
const ROUNDS_PER_TURN: usize = 4;
/// Buckets that are split before the task looks whether it should stop.
const BUCKETS_PER_TURN: usize = 1024;
/// Bytes of the chunk log that a pass for digests reads in one slice: some milliseconds of the
/// device and of a processor.
const FILLED_PER_TURN: u64 = 2 << 20;
/// Bytes of the hot index's table for each chain. With more chains, many buckets overflow.
const BYTES_PER_CHAIN: u64 = 13;
/// Share of the chains that there is room for, from which on records leave the hot log.
const CROWDED: f64 = 0.8;
/// The same, from which on a smaller budget would make writers wait soon.
const FULL: f64 = 0.95;
/// Share of its allowed bytes, as a divisor, by which a table may exceed them when it has doubled.
const DOUBLED_EXCESS_SHARE: u64 = 8;
/// Bytes that the index of a single log may take, as a multiple of its share: three quarters of the
/// budget.
const SINGLE_LOG_INDEX_SHARES: u64 = 3;

/// A task of upkeep.
struct Task {
    class: Class,
    name: &'static str,
    /// Whether this store needs it.
    is_needed: fn(&Shared) -> bool,
    round: fn(&Arc<Shared>, &StopToken),
}

/// Begins the task of [`TASKS`] with this number, unless the store was dropped.
type BeginTask = dyn Fn(usize) + Send + Sync;

/// The task that decides when the store is idle.
const TEND_INDEX: usize = 0;

/// Number of [`TASKS`].
const TASK_COUNT: usize = 6;

static TASKS: [Task; TASK_COUNT] = [
    Task {
        class: Class::Compact,
        name: "tend index",
        is_needed: |_| true,
        round: Shared::tend_index,
    },
    Task {
        class: Class::Flush,
        name: "balance memory",
        is_needed: |_| true,
        round: |shared, _stop| shared.balance_memory(),
    },
    Task {
        class: Class::Compact,
        name: "compact log",
        is_needed: |_| true,
        round: |shared, stop| shared.compact_a_little(Shared::compact_if_due, stop),
    },
    Task {
        class: Class::Compact,
        name: "compact cold log",
        is_needed: |shared| shared.cold.is_some(),
        round: |shared, stop| shared.compact_a_little(Shared::compact_cold_if_due, stop),
    },
    Task {
        class: Class::Compact,
        name: "compact chunk log",
        is_needed: |shared| shared.cold.is_some(),
        round: |shared, stop| shared.compact_a_little(Shared::compact_chunks_if_due, stop),
    },
    Task {
        class: Class::Compact,
        name: "fill digests",
        is_needed: |shared| shared.memory.split.plan().digest_bytes_max() > 0,
        round: |shared, stop| shared.fill_digests(stop),
    },
];

/// Whether upkeep sleeps. A process may have hundreds of idle stores, and none of them needs a
/// timer.
///
/// 1. Each task runs less often while nothing changes, down to [`INTERVAL_IDLE`]. If a step has
///    failed, it is tried again at that pace, or after longer pauses
///    ([`engine::BackgroundErrors`]).
/// 2. Once the first task finds nothing changed at that interval, and nothing left to do
///    ([`Left`]), the store is asleep. From then on each task that finds the same ends.
/// 3. A write, a lookup on the device, a flush, or another limit of the memory gives upkeep
///    something to do, and wakes it. That costs a load for each of these. The tasks that have ended
///    begin again.
///
/// # Concurrency
/// `is_asleep` changes under the lock of `ended`, so no task ends after it was to be woken. A write
/// may read `is_asleep` before step 2, and be seen after it. The first task looks once more an
/// interval later, and then wakes the others.
#[derive(Default)]
pub(crate) struct Upkeep {
    is_asleep: AtomicBool,
    begin_task: OnceLock<Box<BeginTask>>,
    /// The tasks that have ended, as [`TASKS`] has them.
    ended: Mutex<[bool; TASK_COUNT]>,
}

impl Upkeep {
    /// Returns whether a task of an idle store is to end.
    fn rests(&self, task: usize) -> bool {
        let mut ended = self.ended.lock();
        let is_asleep = self.is_asleep.load(Relaxed);
        if is_asleep && let Some(ended) = ended.get_mut(task) {
            *ended = true;
        } else if task == TEND_INDEX {
            self.is_asleep.store(true, Relaxed);
        }
        is_asleep
    }

    #[cold]
    fn wake(&self) {
        let Some(begin_task) = self.begin_task.get() else { return };
        let ended = {
            let mut ended = self.ended.lock();
            self.is_asleep.store(false, Relaxed);
            std::mem::take(&mut *ended)
        };
        for (task, _) in ended.iter().enumerate().filter(|(_, has_ended)| **has_ended) {
            begin_task(task);
        }
    }
}

impl Store {
    /// Begins upkeep; it ends with the group.
    pub(crate) fn start_upkeep(&self) -> Result<(), Stopped> {
        let shared = &self.shared;
        let store = Arc::downgrade(shared);
        let begin_task = move |task| {
            let Some(shared) = store.upgrade() else { return };
            // A pool that is stopping does no upkeep.
            let _: Result<(), Stopped> = shared.begin_task(task);
        };
        let _ = shared.background.upkeep.begin_task.set(Box::new(begin_task));
        let needed = TASKS.iter().enumerate().filter(|(_, task)| (task.is_needed)(shared));
        needed.map(|(number, _)| number).try_for_each(|task| shared.begin_task(task))
    }
}

/// Work that upkeep has left to do, though nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Steps that have failed, or have to wait for something.
    Retry,
    /// Steps that each round does a part of.
    Work,
}

/// How often a task runs: rarely, once its store is idle.
#[derive(Debug)]
struct Pace {
    activity: Activity,
    interval: Duration,
}

impl Pace {
    /// Begins with the shortest interval.
    fn of(shared: &Shared) -> Self {
        Self { activity: shared.activity(), interval: INTERVAL }
    }

    /// Returns when the next round of a task is due: after twice the interval before if nothing has
    /// changed since the last round, and not at all once the store is asleep.
    fn next(&mut self, shared: &Shared, task: usize) -> Next {
        let before = std::mem::replace(&mut self.activity, shared.activity());
        let has_changed = before != self.activity;
        let left = shared.upkeep_left();
        if has_changed || left != Left::Nothing {
            // The change may be older than the moment at which the store fell asleep.
            shared.wake_upkeep();
        } else if self.interval == INTERVAL_IDLE && shared.background.upkeep.rests(task) {
            return Next::Never;
        }
        let is_soon = has_changed || left == Left::Work;
        self.interval = if is_soon { INTERVAL } else { (self.interval * 2).min(INTERVAL_IDLE) };
        Next::After(self.interval)
    }
}

/// State on which upkeep decides: the beginning of each log, its flushed part and its end, lookups
/// on the device, the memory used and its limit.
#[derive(Debug, PartialEq, Eq)]
struct Activity {
    logs: OfEach<Option<[LogAddress; 3]>>,
    reads: [u64; 3],
    memory: [u64; 2],
}

/// A round of one compaction.
type Compact = fn(&Arc<Shared>, &StopToken) -> engine::Result<bool>;

impl Shared {
    fn activity(&self) -> Activity {
        let logs = self.logs().map(|log| log.map(|log| [log.begin(), log.flushed(), log.tail()]));
        let (reads, memory) = (self.lookups.get(), &self.host.memory);
        Activity { logs, reads, memory: [memory.used(), memory.limit()] }
    }

    /// Returns the work that upkeep has left to do and that shows in no [`Activity`].
    fn upkeep_left(&self) -> Left {
        if self.health.check_writable().is_err() {
            return Left::Nothing;
        }
        let is_filling = || self.cold.as_ref().is_some_and(|cold| cold.index.is_filling_digests());
        let is_reclaiming =
            self.is_reclaiming() && self.compactions.hot.figures.failed_rounds().is_none();
        let is_behind = !self.admission.is_none();
        let is_awaited = is_behind && !self.is_waiting_hopeless() || self.wants_held_room();
        if is_reclaiming || is_filling() || is_awaited {
            return Left::Work;
        }
        // The entries of the last round are freed soon, and then another round may be due.
        let is_waiting = is_behind || self.hot.is_scrubbing() || self.memory.split.is_unfinished();
        let is_unflushed = || self.logs().into_iter().flatten().any(|log| log.is_flush_due());
        let has_failed =
            || self.checkpoints.owed_release.is_owed() || !self.background_errors().is_empty();
        if is_waiting || is_unflushed() || has_failed() { Left::Retry } else { Left::Nothing }
    }

    /// Has upkeep begin again if it sleeps.
    #[inline]
    pub(crate) fn wake_upkeep(&self) {
        if self.background.upkeep.is_asleep.load(Relaxed) {
            self.background.upkeep.wake();
        }
    }

    /// Begins a task of [`TASKS`].
    fn begin_task(self: &Arc<Self>, number: usize) -> Result<(), Stopped> {
        let Some(&Task { class, name, round, .. }) = TASKS.get(number) else { return Ok(()) };
        let (shared, mut pace) = (Arc::downgrade(self), Pace::of(self));
        self.background.workers.repeat(class, name, INTERVAL, move |stop| {
            let Some(shared) = shared.upgrade() else { return Next::Never };
            round(&shared, stop);
            pace.next(&shared, number)
        })
    }

    /// One round of a compaction, so that other work of the pool has its turn; or a few while
    /// writers wait. A failed write is remembered, and the next writer gets it. Data that cannot be
    /// read are reported as a background error.
    fn compact_a_little(self: &Arc<Self>, compact: Compact, stop: &StopToken) {
        for _ in 0..ROUNDS_PER_TURN {
            let has_compacted = compact(self, stop).unwrap_or_default();
            if !has_compacted || self.admission.is_none() || stop.is_stopping() {
                break;
            }
        }
    }

    /// A slice of a pass that makes digests of chunks, if one pays.
    fn fill_digests(&self, stop: &StopToken) {
        let Some(cold) = &self.cold else { return };
        // A thread that compacts the chunk log makes digests of the chunks that it reads. And the
        // part that a slice reads must not be removed meanwhile.
        if let Some(_not_compacted) = self.compactions.chunks.turn.try_lock() {
            cold.index.fill_digests(FILLED_PER_TURN, stop);
        }
    }

    /// Bytes that the index may take.
    pub(crate) fn index_bytes_max(&self) -> u64 {
        let limit = self.host.memory.limit();
        if limit == u64::MAX { u64::MAX } else { MemoryPlan::index_share(limit) }
    }

    /// Returns the most bytes that it takes. With a single log every key stays in the index, and
    /// the bytes above its share are taken off the log's memory.
    pub(crate) fn index_bytes_most(&self) -> u64 {
        let share = self.index_bytes_max();
        if self.cold.is_some() { share } else { share.saturating_mul(SINGLE_LOG_INDEX_SHARES) }
    }

    /// Returns the number of chains in the hot index, as a share of the number that it is made for
    /// at its largest.
    fn index_use(&self) -> f64 {
        if self.host.memory.limit() == u64::MAX {
            return 0.0;
        }
        let bytes = self.hot.index.figures().entries * BYTES_PER_CHAIN;
        bytes as f64 / self.index_table_bytes_max() as f64
    }

    /// Bytes of the largest table that the budget has room for, whatever the present one takes.
    pub(crate) fn index_table_bytes_max(&self) -> u64 {
        let mut table = self.hot.index.base_table_bytes();
        while self.may_table_double(table) {
            table *= 2;
        }
        table
    }

    /// The least share of the budget with which the index is made for the chains that it holds:
    /// with less, writers would wait.
    pub(crate) fn index_share_min(&self) -> u64 {
        let chains = self.hot.index.figures().entries * BYTES_PER_CHAIN;
        let mut table = self.hot.index.base_table_bytes();
        while chains as f64 > FULL * table as f64 {
            table *= 2;
        }
        // It may be a little above the share (`may_table_double`).
        table - table / (DOUBLED_EXCESS_SHARE + 1) + 1
    }

    /// Bytes of the cache with which its records have half the chains that the index is made for.
    /// Cached records of the cold log make entries, which no compaction removes.
    pub(crate) fn cache_bytes_for_index(&self) -> u64 {
        if self.host.memory.limit() == u64::MAX || self.cold.is_none() {
            return u64::MAX;
        }
        self.index_table_bytes_max() / BYTES_PER_CHAIN / 2 * self.hot.log.record_bytes()
    }

    /// Whether the hot index wants room: then the oldest records leave the hot log.
    pub(crate) fn is_index_crowded(&self) -> bool {
        self.index_use() > CROWDED
    }

    /// Sets the level of admission by how far compaction is behind.
    pub(crate) fn update_level(&self) {
        let bytes = self.hot.log.bytes();
        let disk = self.hot_disk_bytes_max().map_or(0.0, |max| bytes as f64 / max as f64);
        let level = if self.cold.is_some() {
            Level::of(self.index_use(), disk)
        } else if self.hot.index.figures().bytes > self.index_bytes_most() {
            Level::OutOfMemory
        } else if self.compactions.hot.figures.is_worth_it() {
            Level::of(0.0, disk)
        } else {
            // The live records do not fit into the space: waiting would not help.
            Level::None
        };
        match self.refusal(level) {
            Some(error) => self.admission.refuse(error),
            None => self.admission.set(level, self.is_waiting_hopeless()),
        }
    }

    /// Returns whether the index may double a table of `bytes` bytes. With two logs it may be a
    /// little above its share then: overflow buckets would take more. With one log, writes are
    /// refused above it.
    fn may_table_double(&self, bytes: u64) -> bool {
        let most = self.index_bytes_most();
        let excess = if self.cold.is_some() { most / DOUBLED_EXCESS_SHARE } else { 0 };
        bytes <= most.saturating_add(excess) / 2
    }

    /// Bytes that the hot index takes, or will take when it has doubled if that is near.
    pub(crate) fn index_bytes_soon(&self) -> u64 {
        let may_double = self.may_table_double(self.hot.index.table_bytes());
        let doubled = if may_double { self.hot.index.bytes_of_near_doubling() } else { 0 };
        self.hot.index.figures().bytes + doubled
    }

    /// Whether the index should double now. It should when the memory for that is there, since hot
    /// log and read cache release it before; without the memory, when most buckets overflow.
    fn is_doubling_due(&self) -> bool {
        let bytes = self.hot.index.table_bytes();
        let memory = &self.host.memory;
        let has_memory = memory.used().saturating_add(bytes) <= memory.limit();
        self.hot.index.should_grow()
            && self.may_table_double(bytes)
            && (has_memory || self.hot.index.is_overfull())
    }

    /// Takes empty overflow buckets out of the index if there are many new ones, and doubles it
    /// while it is crowded and the budget allows it.
    fn tend_index(self: &Arc<Self>, stop: &StopToken) {
        self.update_level();
        self.measure_records();
        self.hold_wanted_room();
        self.logs().into_iter().flatten().for_each(|log| log.flush_again());
        self.flush_again();
        self.release_again();
        if self.hot.index.should_trim() {
            self.trim_index(stop);
        }
        while self.hot.index.is_growing() || self.is_doubling_due() {
            self.hot.index.grow();
            while self.split_some_buckets() {
                if stop.is_stopping() {
                    return;
                }
            }
        }
    }

    /// Says whether any bucket is still to be split.
    fn split_some_buckets(&self) -> bool {
        // I8 of the index
        let _guard = self.epochs.protect();
        self.hot.index.split_some(BUCKETS_PER_TURN)
    }

    /// Takes empty overflow buckets out of the index. They are used again once no thread can be
    /// reading them.
    fn trim_index(self: &Arc<Self>, stop: &StopToken) {
        let (mut from, mut trimmed) = (Some(0), Trimmed::default());
        while let Some(bucket) = from.filter(|_| !stop.is_stopping()) {
            // I8 of the index
            let _guard = self.epochs.protect();
            from = self.hot.index.trim(bucket, BUCKETS_PER_TURN, &mut trimmed);
        }
        self.hot.index.note_trim(&trimmed);
        if trimmed.len() > 0 {
            let shared = Arc::clone(self);
            trimmed.when_unseen(&self.epochs, move |t| shared.hot.index.release_trimmed(t));
        }
    }
}
