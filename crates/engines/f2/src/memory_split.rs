//! How memory is split between the hot log, the read cache and the digests of chunks, while the
//! store runs (the F2 paper tunes it by hand; why it is built like this:
//! `docs/design/f2.md`).
//!
//! 1. Hot log and read cache count the reads and appends that more memory would have saved them
//!    (`ghosts` of the hybrid log and of the read cache). For digests this is calculated: cold keys
//!    are spread evenly over the chunks, so each byte of digests saves as great a number of reads
//!    of chunks as any other.
//! 2. From time to time [`plan_split`] decides, from these figures alone.
//! 3. A step moves memory from one side to another: the giving side evicts its oldest pages, and
//!    once their memory is free the other side takes it.
//! 4. Memory that hot log and read cache do not fill yet is lent to the digests while lookups ask
//!    for chunks ([`lend`]). The split of 2 is a split of rights: a step moves those, lent or not.
//!
//! The memory of the cold index's directory grows with the cold log, and that of the hot index with
//! the hot log. The sides have the memory that these two leave, and release some of it before one
//! of the two doubles.
//!
//! # Invariants
//! - M1. All sides together have no more memory than they may have: a side grows only once all are
//!   within their limits, and into memory that no side has. Digests release theirs immediately, so
//!   another side may take it in the same look.
//! - M2. None goes below the bytes that it works with.

mod lend;
mod plan_split;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use memory_budget::MemoryGain;
use sync::locks::Mutex;

use crate::cold_index::Digests;
use crate::hybrid_log::{Geometry, ReachHits};
use crate::options::MemoryPlan;
use crate::store::Shared;
use lend::{Lender, Lent, lend};
use plan_split::{Decision, Figures, Side, SideFigures, of_log, of_reads, plan};

/// The reach of the ghosts: the total of all sides divided by this.
const REACH_SHARE: u64 = 16;
/// Bytes that the hot index may take until the next look, apart from doubling: its share divided by
/// this.
const INDEX_MARGIN_SHARE: u64 = 16;
/// A step: the total of all sides divided by this.
const STEP_SHARE: u64 = 64;
/// The least that the hot log and the read cache keep: the total of all sides divided by this.
const LOG_SHARE_MIN: u64 = 8;
const CACHE_SHARE_MIN: u64 = 64;

/// The split's state.
pub(crate) struct MemorySplit {
    plan: MemoryPlan,
    state: Mutex<State>,
    /// How far the ghosts of both sides reach.
    reach: AtomicU64,
    /// Whether the last look has left a step that is not done, or has to be followed by another
    /// look.
    is_unfinished: AtomicBool,
}

struct State {
    /// Whether the ghosts have a reach yet.
    has_reach: bool,
    /// Side that gets memory that no side has.
    receiver: Side,
    last: Option<(Side, Side)>,
    seen: Seen,
    moves: Moves,
    /// Bytes that the others have lent to the digests, bytes that the digests have a right to, and
    /// lookups of chunks on disk that had been counted at the last look.
    lent: Lent,
    digests: u64,
    asked: u64,
}

/// Figures that had been counted at the last decision.
#[derive(Clone, Copy, Default)]
struct Seen {
    log: ReachHits,
    cache: u64,
    /// Lookups of chunks on disk, and the number of them that a digest served.
    chunks: u64,
    digests: u64,
}

/// Steps so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) to_log: u64,
    pub(crate) to_cache: u64,
    pub(crate) to_digests: u64,
}

impl MemorySplit {
    pub(crate) fn new(plan: MemoryPlan) -> Self {
        let state = State {
            has_reach: false,
            receiver: Side::Log,
            last: None,
            seen: Seen::default(),
            moves: Moves::default(),
            lent: Lent::default(),
            digests: 0,
            asked: 0,
        };
        Self {
            plan,
            state: Mutex::new(state),
            reach: AtomicU64::new(0),
            is_unfinished: AtomicBool::new(false),
        }
    }

    /// Steps so far.
    pub(crate) fn moves(&self) -> Moves {
        self.state.lock().moves
    }

    /// Whether the last look has left a step that is not done, or has to be followed by another
    /// look.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.is_unfinished.load(Relaxed)
    }

    /// Returns the plan by which hot log and read cache get their memory.
    pub(crate) fn plan(&self) -> &MemoryPlan {
        &self.plan
    }
}

impl Shared {
    /// Bytes of disk that the hot log should keep within, if there is a limit. Only records on disk
    /// can move to the cold log: a log whose memory has grown has more on disk, too.
    pub(crate) fn hot_disk_bytes_max(&self) -> Option<u64> {
        let memory = self.hot.log.frames() * self.hot.log.geometry.page_bytes();
        let min = self.memory.split.plan.hot_disk_min(memory);
        self.compactions.hot.disk_bytes_max.map(|max| max.max(min))
    }

    /// Bytes that all sides may have together.
    pub(crate) fn split_bytes(&self) -> u64 {
        let directory = self.cold.as_ref().map_or(0, |cold| cold.index.directory_bytes_soon());
        let tables = directory + self.digest_figures().slot_bytes;
        let others = tables + self.cache.ghost_bytes() + self.memory.users.get();
        let limit = self.host.memory.limit();
        let margin =
            if limit == u64::MAX { 0 } else { self.index_bytes_max() / INDEX_MARGIN_SHARE };
        self.memory.split.plan.split_bytes(limit, self.index_bytes_soon() + margin, others)
    }

    /// Looks at the split, and makes at most one step. Short, and waits for no other thread.
    pub(crate) fn balance_memory(&self) {
        self.charge_own_memory();
        let Some(mut state) = self.memory.split.state.try_lock() else { return };
        // [M1]
        let is_cache_within_limit = self.cache.is_within_limit(&self.hot.index);
        if !self.hot.log.is_within_limit() || !is_cache_within_limit {
            self.memory.split.is_unfinished.store(true, Relaxed);
            return;
        }
        let figures = self.split_figures(&state);
        if !state.has_reach {
            self.set_reach(&figures);
            state.has_reach = true;
        }
        let mut shares = figures;
        let decision = plan(&figures, state.receiver);
        let is_unfinished = !matches!(decision, Decision::Wait | Decision::Keep);
        self.memory.split.is_unfinished.store(is_unfinished, Relaxed);
        match decision {
            Decision::Wait => {}
            Decision::Keep => self.begin_interval(&mut state, &figures),
            Decision::Move(from, to) => {
                (state.receiver, state.last) = (to, Some((from, to)));
                match to {
                    Side::Log => state.moves.to_log += 1,
                    Side::Cache => state.moves.to_cache += 1,
                    Side::Digests => state.moves.to_digests += 1,
                }
                self.begin_interval(&mut state, &figures);
                shares.side_mut(from).bytes -= figures.step;
            }
            Decision::Grow(to) => shares.side_mut(to).bytes += figures.step,
            Decision::Shrink(from, less) => shares.side_mut(from).bytes -= less,
        }
        self.lend_and_resize(&mut state, &shares);
    }

    /// Gives the sides the memory that they have a right to now, less the lent memory.
    fn lend_and_resize(&self, state: &mut State, shares: &Figures) {
        let asked = self.counted().chunks;
        let lent = self.to_lend(state, shares, asked > state.asked);
        (state.lent, state.digests, state.asked) = (lent, shares.digests.bytes, asked);
        let (log, cache) = (shares.log.bytes - lent.log, shares.cache.bytes - lent.cache);
        let page = self.hot.log.geometry.page_bytes();
        if let Some(cold) = &self.cold {
            let digests = &cold.index.digests;
            let all = shares.digests.bytes + lent.sum();
            let leaving = (self.hot.log.frames() * page).saturating_sub(log)
                + self.cache.bytes_allowed().saturating_sub(cache);
            // [M1]
            digests.resize(match leaving {
                0 => all,
                leaving => digests.bytes_allowed().min(all.saturating_sub(leaving)),
            });
        }
        self.hot.log.resize(log / page);
        self.cache.resize(cache);
    }

    fn to_lend(&self, state: &State, shares: &Figures, is_asked: bool) -> Lent {
        let page = self.hot.log.geometry.page_bytes();
        let log = Lender {
            share: shares.log.bytes,
            filled: self.hot.log.memory_bytes(),
            least: Geometry::FRAMES_MIN_TO_RESERVE as u64 * page,
        };
        let cache = Lender {
            share: shares.cache.bytes,
            filled: self.cache.memory_bytes(),
            least: self.cache.bytes_min(),
        };
        let SideFigures { bytes, most, .. } = shares.digests;
        let wanted = most.saturating_sub(bytes);
        lend([log, cache], (shares.total, shares.unit), wanted, state.lent, is_asked)
    }

    fn begin_interval(&self, state: &mut State, figures: &Figures) {
        state.seen = self.counted();
        self.set_reach(figures);
    }

    /// Returns the figures that were counted so far.
    fn counted(&self) -> Seen {
        let digests = self.digest_figures();
        Seen {
            log: self.hot.log.ghost_hits(),
            cache: self.cache.ghost_hits(),
            chunks: digests.found + digests.read,
            digests: digests.found,
        }
    }

    fn reach(figures: &Figures) -> u64 {
        (figures.total / REACH_SHARE).max(figures.step)
    }

    fn set_reach(&self, figures: &Figures) {
        let reach = Self::reach(figures);
        self.memory.split.reach.store(reach, Relaxed);
        self.hot.log.set_ghost_reach(reach);
        self.cache.set_ghost_reach(reach);
    }

    /// Returns the bytes that more memory would have saved so far: of log and cache the side that
    /// gains more, which would get the memory.
    pub(crate) fn memory_gain(&self) -> MemoryGain {
        let hits = self.hot.log.ghost_hits();
        let log = of_log(hits.reads, hits.appends, self.hot.log.record_bytes());
        let saved_bytes = log.max(of_reads(self.cache.ghost_hits()));
        MemoryGain { saved_bytes, reach_bytes: self.memory.split.reach.load(Relaxed) }
    }

    fn split_figures(&self, state: &State) -> Figures {
        let (total, page) = (self.split_bytes(), self.hot.log.geometry.page_bytes());
        let pages = |bytes: u64, page: u64| bytes / page * page;
        let digests = self.cold.as_ref().map(|cold| &cold.index.digests);
        let unit = page.max(self.cache.page_bytes());
        let unit = unit.max(digests.map_or(0, Digests::step_bytes));
        let step = pages(total / STEP_SHARE, unit).max(unit);
        let least = Geometry::FRAMES_MIN_TO_RESERVE as u64 * page;
        let log = SideFigures {
            bytes: self.hot.log.frames() * page + state.lent.log,
            least: pages(total / LOG_SHARE_MIN, page).max(least),
            most: self.hot.log.frames_max() * page,
        };
        let cache = SideFigures {
            bytes: self.cache.bytes_allowed() + state.lent.cache,
            least: pages(total / CACHE_SHARE_MIN, step).max(self.cache.bytes_min()),
            most: self.cache.bytes_max().min(self.cache_bytes_for_index()),
        };
        // A split that does not move counts nothing.
        let counts = u64::from(self.memory.split.plan.is_adaptive);
        let (now, seen) = (self.counted(), state.seen);
        let chunks = now.chunks - seen.chunks;
        // For a cold record two reads were counted.
        let of_two = 2 * chunks - (now.digests - seen.digests);
        let cache_reads = now.cache - seen.cache;
        let cache_reads = (cache_reads * of_two).checked_div(2 * chunks).unwrap_or(cache_reads);
        let mut figures = Figures {
            total,
            step,
            unit,
            log,
            cache,
            digests: SideFigures::default(),
            log_reads: (now.log.reads - seen.log.reads) * counts,
            log_appends: (now.log.appends - seen.log.appends) * counts,
            record_bytes: self.hot.log.record_bytes(),
            cache_reads: cache_reads * counts,
            digest_reads: 0,
            last: state.last,
        };
        if let Some(cold) = &self.cold {
            let of_all = cold.index.digest_bytes_of_all();
            let digests = &cold.index.digests;
            figures.digests = SideFigures {
                bytes: state.digests,
                least: 0,
                most: Digests::with_replaced(of_all)
                    .next_multiple_of(step)
                    .min(digests.bytes_max()),
            };
            let share = Self::reach(&figures).min(of_all) as f64 / of_all.max(1) as f64;
            figures.digest_reads = ((chunks * counts) as f64 * share) as u64;
        }
        figures
    }
}
