//! Moves memory to the keyspaces that gain most from it, while the database is open.
//!
//! The reasons for this design are in `docs/adr/0032-memory-balance.md`.
//!
//! 1. At regular intervals each engine reports the state of its memory, and the I/O that more
//!    memory would have saved ([`memory_budget::MemoryNeeds`]).
//! 2. [`plan_move`] decides from these figures alone.
//! 3. The engine that gives gets a smaller budget and releases the memory above it, in the
//!    background.
//! 4. Once this memory is released, the other engine gets it. Until then there is no other step. If
//!    the giver cannot shrink to its new budget in time, it gets the old one back, and is left
//!    alone for longer.
//!
//! A keyspace that is being made and finds too little memory left takes it from others in the same
//! way, and waits for it.
//!
//! # Invariants
//! - B1. No keyspace gets memory that another one has not released (S1 of
//!   [`crate::memory_shares`]).
//! - B2. A share whose size the user set is never made smaller, nor larger than that size.
//!
//! # Concurrency
//! The state's lock comes after `catalog` and before `entries`. Only a thread that makes a keyspace
//! waits for background work while it holds this lock. A look skips its turn then, and a close says
//! that it waits ([`Inner::close`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use memory_budget::{
    Decision, Figures, MemoryNeeds, STEP_BYTES_MIN, ShareFigures, Step, plan_move,
};
use sync::locks::Mutex;

use crate::database::Inner;
use crate::drivers::EngineKind;
use crate::error::Result;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::memory_shares::{MemoryShare, Taken};
use crate::options::KeyspaceOptions;

/// Interval between looks at the shares.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Looks after which an engine that has not given its memory back gets its old budget back.
const PATIENCE_LOOKS: u32 = 100;
/// Looks for which it is left alone then.
const REST_LOOKS: u32 = 600;
/// How long a keyspace that is being made waits for memory, at most, or a little longer.
const WAIT_MOST: Duration = Duration::from_secs(10);

/// The step under way, and counts of the past ones.
#[derive(Debug, Default)]
pub(crate) struct MemoryBalance {
    state: Mutex<State>,
    moves: AtomicU64,
    moved_bytes: AtomicU64,
}

/// Counts of the moves since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryMoves {
    /// Steps from one keyspace to another, or from free memory.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    giving: Option<Giving>,
    /// By keyspace: the gain that it had counted at the last decision.
    seen: BTreeMap<u32, u64>,
    /// By keyspace: looks during which it is not asked for memory.
    resting: BTreeMap<u32, u32>,
    /// The giver of the last step, and its taker.
    last: (Option<u32>, Option<u32>),
}

impl State {
    /// Starts counting for keyspaces that are new or were cleared: their gain counts from here on.
    fn note_new(&mut self, members: &[Member]) {
        for member in members {
            let counted = member.needs.gain.saved_bytes;
            let seen = self.seen.entry(member.id()).or_insert(counted);
            *seen = counted.min(*seen);
        }
    }
}

/// A step whose memory is not released yet.
#[derive(Debug)]
struct Giving {
    from: Weak<KeyspaceEntry>,
    to: Weak<KeyspaceEntry>,
    /// The giver's budget before.
    before: u64,
    looks_left: u32,
}

/// A keyspace whose share may move.
struct Member {
    entry: Arc<KeyspaceEntry>,
    instance: Arc<KeyspaceInstance>,
    share: Arc<MemoryShare>,
    needs: MemoryNeeds,
}

impl Member {
    /// Returns `None` for a keyspace without a share, or with an engine that cannot resize.
    fn of(entry: &Arc<KeyspaceEntry>) -> Option<Self> {
        let instance = entry.instance().ok()?;
        let share = instance.share.clone()?;
        let needs = instance.engine.memory()?.needs();
        Some(Self { entry: Arc::clone(entry), instance, share, needs })
    }

    fn id(&self) -> u32 {
        self.entry.lock_id
    }

    fn limit(&self) -> u64 {
        self.share.budget.limit()
    }

    fn least(&self) -> u64 {
        if self.share.asked.is_some() { self.limit() } else { self.needs.least_bytes }
    }

    /// Resizes its budget, and returns the new limit; `None` if it was closed.
    fn resize(&self, limit: u64) -> Option<u64> {
        self.instance.engine.memory()?.resize(limit).ok()
    }

    /// Gives it memory that was taken from others.
    fn grow(&self, taken: Taken) -> bool {
        let bytes = taken.bytes();
        self.share.add(taken);
        let grown = self.resize(self.limit().saturating_add(bytes));
        if grown.is_none() {
            // An engine that was closed meanwhile has no use for it.
            drop(self.share.take_above(self.limit()));
        }
        grown.is_some()
    }
}

impl Inner {
    /// Returns the moves since the database was opened.
    pub(crate) fn memory_moves(&self) -> MemoryMoves {
        let balance = &self.memory_balance;
        MemoryMoves { count: balance.moves.load(Relaxed), bytes: balance.moved_bytes.load(Relaxed) }
    }

    /// Takes a look at the shares, and does at most one step. Short, and never blocks.
    pub(crate) fn balance_memory(&self) {
        let Some(mut state) = self.memory_balance.state.try_lock() else { return };
        state.resting.retain(|_, looks| {
            *looks -= 1;
            *looks > 0
        });
        if let Some(giving) = &mut state.giving {
            giving.looks_left = giving.looks_left.saturating_sub(1);
            self.go_on_giving(&mut state);
            return;
        }
        let members = self.members();
        state.note_new(&members);
        let figures = self.figures(&state, &members);
        match plan_move(&figures) {
            Decision::Wait => return,
            Decision::Keep => {}
            Decision::Move(step) => self.begin_step(&mut state, &members, step),
        }
        // From here on all gains count from zero.
        state.seen = members.iter().map(|one| (one.id(), one.needs.gain.saved_bytes)).collect();
    }

    fn members(&self) -> Vec<Member> {
        self.keyspaces.all().iter().filter_map(Member::of).collect()
    }

    fn figures(&self, state: &State, members: &[Member]) -> Figures {
        let share = |member: &Member| {
            let bytes = member.limit();
            let is_resting = state.resting.contains_key(&member.id());
            let (gain, seen) = (member.needs.gain, state.seen.get(&member.id()));
            let saved = seen.map_or(0, |seen| gain.saved_bytes.saturating_sub(*seen));
            let most = member.share.asked.map_or(member.needs.most_bytes, |asked| asked.max(bytes));
            let least = if is_resting { bytes } else { member.least() };
            ShareFigures { bytes, least, most, saved, reach: gain.reach_bytes }
        };
        let place = |id: Option<u32>| members.iter().position(|member| Some(member.id()) == id);
        let shares = &self.factory.shares;
        Figures {
            whole: shares.whole(),
            free: shares.free(),
            shares: members.iter().map(share).collect(),
            last: (place(state.last.0), place(state.last.1)),
        }
    }

    fn begin_step(&self, state: &mut State, members: &[Member], step: Step) {
        let Some(to) = members.get(step.to) else { return };
        let Some(from) = step.from.and_then(|from| members.get(from)) else {
            let taken = self.factory.shares.take_free(step.bytes);
            let bytes = taken.bytes();
            if to.grow(taken) {
                self.note_move(bytes);
                state.last = (None, Some(to.id()));
            }
            return;
        };
        let before = from.limit();
        let resized = from.resize(before.saturating_sub(step.bytes));
        if resized.is_none_or(|now| now >= before) {
            state.resting.insert(from.id(), REST_LOOKS);
            return;
        }
        state.last = (Some(from.id()), Some(to.id()));
        state.giving = Some(Giving {
            from: Arc::downgrade(&from.entry),
            to: Arc::downgrade(&to.entry),
            before,
            looks_left: PATIENCE_LOOKS,
        });
        self.go_on_giving(state);
    }

    /// Step 4.
    fn go_on_giving(&self, state: &mut State) {
        let Some(giving) = state.giving.take() else { return };
        // One that was dropped has given all that it had.
        let Some(from) = giving.from.upgrade().and_then(|entry| Member::of(&entry)) else { return };
        if from.needs.is_within_limit {
            let taken = from.share.take_above(from.limit());
            let bytes = taken.bytes();
            let to = giving.to.upgrade().and_then(|entry| Member::of(&entry));
            if to.is_some_and(|to| to.grow(taken)) {
                self.note_move(bytes);
            }
            return;
        }
        if giving.looks_left > 0 {
            state.giving = Some(giving);
            return;
        }
        state.resting.insert(from.id(), REST_LOOKS);
        // Its share still counts as at least that.
        let _if_closed = from.resize(giving.before);
    }

    fn note_move(&self, bytes: u64) {
        self.memory_balance.moves.fetch_add(1, Relaxed);
        self.memory_balance.moved_bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the share of a keyspace that is to be made with `options`, if its engine has one.
    /// Takes the missing memory from other keyspaces, as far as they can release it, and waits for
    /// that. The caller holds the catalog.
    ///
    /// # Errors
    /// [`Error::NoMemoryLeft`]; [`Error::Closed`] once the database is being closed.
    pub(crate) fn memory_for_new(
        &self,
        options: KeyspaceOptions,
    ) -> Result<Option<Arc<MemoryShare>>> {
        // No other step until it has its share, or both would count on the same memory [B1].
        let mut state = self.memory_balance.state.lock();
        let shares = &self.factory.shares;
        if shares.missing_for_new(options.engine) > 0 && self.options.balance_memory {
            self.wait_for_memory(&mut state, options.engine);
        }
        self.lifecycle.check_staying_open()?;
        shares.share_of_new(options)
    }

    fn wait_for_memory(&self, state: &mut State, engine: EngineKind) {
        let environment = &self.options.environment;
        let until = environment.now() + WAIT_MOST;
        let is_done = || environment.now() >= until || !self.go_on_making(state, engine);
        // If everything is being stopped, the thread that makes the keyspace gets an error.
        let _if_stopped = self.background.wait_until(is_done);
    }

    /// Makes other keyspaces release memory until enough is free, or one of them needs time.
    /// Returns whether to wait for that.
    fn go_on_making(&self, state: &mut State, engine: EngineKind) -> bool {
        loop {
            if state.giving.is_some() {
                self.go_on_giving(state);
            }
            let missing = self.factory.shares.missing_for_new(engine);
            if missing == 0 || self.lifecycle.check_staying_open().is_err() {
                return false;
            }
            if state.giving.is_some() {
                return true;
            }
            if !self.begin_freeing(state, missing) {
                return false;
            }
        }
    }

    /// Asks the keyspace with most memory to spare to free up to `missing` bytes. Returns whether
    /// one does.
    fn begin_freeing(&self, state: &mut State, missing: u64) -> bool {
        let may_give = |member: &Member| member.limit().saturating_sub(member.least());
        let is_resting = |member: &&Member| !state.resting.contains_key(&member.id());
        let members = self.members();
        let Some(from) = members.iter().filter(is_resting).max_by_key(|one| may_give(one)) else {
            return false;
        };
        let bytes = missing.max(STEP_BYTES_MIN).min(may_give(from));
        let before = from.limit();
        let resized = from.resize(before - bytes);
        if bytes == 0 || resized.is_none_or(|now| now >= before) {
            return false;
        }
        let (from, to) = (Arc::downgrade(&from.entry), Weak::new());
        state.giving = Some(Giving { from, to, before, looks_left: PATIENCE_LOOKS });
        true
    }
}

#[cfg(test)]
mod tests;
