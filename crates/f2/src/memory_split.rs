//! How the memory of hot log and read cache is split between them, while the store runs (the F2 paper
//! tunes it by hand; why it is built like this: `docs/adr/0012-f2-memory.md`).
//!
//! 1. Both sides count what more memory would have saved them (`ghosts` of the hybrid log and of the
//!    read cache).
//! 2. Every now and then [`plan_split`] decides, from these figures alone.
//! 3. A step goes from one side to the other: the one that gives lets go of its oldest pages, and once
//!    their memory is back the other one takes it.
//!
//! What the cold index's directory takes grows with the cold log, and what the hot index takes with
//! the hot one: both sides have what these two leave, and give it back before one of them doubles.
//!
//! # Invariants
//! - M1. Hot log and read cache together have no more memory than both may have: a side grows only
//!   once both are settled, and into what neither has.
//! - M2. Neither goes below what it works with.

mod plan_split;

use parking_lot::Mutex;

use crate::hybrid_log::{Geometry, GhostHits};
use crate::options::MemoryPlan;
use crate::store::Shared;
use plan_split::{Decision, Figures, Side, SideFigures, plan};

/// The reach of the ghosts: one part in so many of what both sides have.
const REACH_SHARE: u64 = 16;
/// What the hot index may take until the next look, beside doubling: of its share, one part in so many.
const INDEX_MARGIN_SHARE: u64 = 16;
/// A step: one part in so many.
const STEP_SHARE: u64 = 64;
/// What the hot log keeps at least, and the read cache: one part in so many.
const LOG_SHARE_MIN: u64 = 8;
const CACHE_SHARE_MIN: u64 = 64;

/// The split's state.
pub(crate) struct MemorySplit {
    plan: MemoryPlan,
    state: Mutex<State>,
}

struct State {
    /// Whether the ghosts have a reach yet.
    has_reach: bool,
    /// For whom the memory is that neither side has.
    receiver: Side,
    last: Option<Side>,
    /// What had been counted at the last decision.
    seen_log: GhostHits,
    seen_cache: u64,
    moves: Moves,
}

/// Steps so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) to_log: u64,
    pub(crate) to_cache: u64,
}

impl MemorySplit {
    pub(crate) fn new(plan: MemoryPlan) -> Self {
        let state = State {
            has_reach: false,
            receiver: Side::Log,
            last: None,
            seen_log: GhostHits::default(),
            seen_cache: 0,
            moves: Moves::default(),
        };
        Self { plan, state: Mutex::new(state) }
    }

    /// Steps so far.
    pub(crate) fn moves(&self) -> Moves {
        self.state.lock().moves
    }
}

impl Shared {
    /// Bytes that hot log and read cache may have together.
    fn split_bytes(&self) -> u64 {
        let directory = self.cold.as_ref().map_or(0, |cold| cold.index.directory_bytes_soon());
        let others = directory + self.cache.ghost_bytes() + self.user_bytes.get();
        let limit = self.host.memory.limit();
        let margin =
            if limit == u64::MAX { 0 } else { self.index_bytes_max() / INDEX_MARGIN_SHARE };
        self.split.plan.split_bytes(limit, self.index_bytes_soon() + margin, others)
    }

    /// A look at the split, and a step of it at most. Short, and waits for nobody.
    pub(crate) fn balance_memory(&self) {
        self.charge_own_memory();
        let Some(mut state) = self.split.state.try_lock() else { return };
        // [M1]
        let cache_is_settled = self.cache.settle(&self.index);
        if !self.log.is_settled() || !cache_is_settled {
            return;
        }
        let figures = self.split_figures(&state);
        if !state.has_reach {
            self.set_reach(&figures);
            state.has_reach = true;
        }
        let step = figures.step;
        match plan(&figures, state.receiver) {
            Decision::Wait => {}
            Decision::Keep => self.begin_anew(&mut state, &figures),
            Decision::Move(to) => {
                (state.receiver, state.last) = (to, Some(to));
                match to {
                    Side::Log => state.moves.to_log += 1,
                    Side::Cache => state.moves.to_cache += 1,
                }
                self.begin_anew(&mut state, &figures);
                self.resize(to.other(), &figures, |bytes| bytes - step);
            }
            Decision::Grow(to) => self.resize(to, &figures, |bytes| bytes + step),
            Decision::Shrink(from, less) => self.resize(from, &figures, |bytes| bytes - less),
        }
    }

    fn resize(&self, side: Side, figures: &Figures, to: impl Fn(u64) -> u64) {
        match side {
            Side::Log => self.log.resize(to(figures.log.bytes) / self.log.geometry.page_bytes()),
            Side::Cache => self.cache.resize(to(figures.cache.bytes)),
        }
    }

    fn begin_anew(&self, state: &mut State, figures: &Figures) {
        (state.seen_log, state.seen_cache) = (self.log.ghost_hits(), self.cache.ghost_hits());
        self.set_reach(figures);
    }

    fn set_reach(&self, figures: &Figures) {
        let reach = (figures.total / REACH_SHARE).max(figures.step);
        self.log.set_ghost_reach(reach);
        self.cache.set_ghost_reach(reach);
    }

    fn split_figures(&self, state: &State) -> Figures {
        let (total, page) = (self.split_bytes(), self.log.geometry.page_bytes());
        let pages = |bytes: u64, page: u64| bytes / page * page;
        let unit = page.max(self.cache.page_bytes());
        let step = pages(total / STEP_SHARE, unit).max(unit);
        let least = Geometry::FRAMES_MIN as u64 * page;
        let log = SideFigures {
            bytes: self.log.frames() * page,
            least: pages(total / LOG_SHARE_MIN, page).max(least),
            most: self.log.frames_max() * page,
        };
        let cache = SideFigures {
            bytes: self.cache.bytes_allowed(),
            least: pages(total / CACHE_SHARE_MIN, step).max(self.cache.bytes_min()),
            most: self.cache.bytes_max().min(self.cache_bytes_for_index()),
        };
        // A split that does not move counts nothing.
        let counts = u64::from(self.split.plan.is_adaptive);
        let (hits, cache_hits) = (self.log.ghost_hits(), self.cache.ghost_hits());
        Figures {
            total,
            step,
            log,
            cache,
            log_reads: (hits.reads - state.seen_log.reads) * counts,
            log_appends: (hits.appends - state.seen_log.appends) * counts,
            record_bytes: self.log.record_bytes(),
            cache_reads: (cache_hits - state.seen_cache) * counts,
            last: state.last,
        }
    }
}
