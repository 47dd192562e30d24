//! Moves memory to the keyspaces that gain most from it, while their database is open.
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
//! way, and waits for it. So does a database that is being opened on shared memory.
//!
//! Databases that share a memory ([`SharedMemory`]) look at the shares of all of them, each in its
//! own background work. A look that comes soon after another one does nothing.
//!
//! # Invariants
//! - B1. No keyspace gets memory that another one has not released (S1 of
//!   [`crate::memory_shares`]).
//! - B2. A share whose size the user set is never made smaller, nor larger than that size.
//!
//! # Concurrency
//! The state's lock comes after `catalog` and before `entries`, of each database. No thread waits
//! while it holds this lock. A thread that makes a keyspace holds the catalog while it waits for
//! memory, and a close ends its wait ([`Inner::close`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use device::Device;
use environment::Monotonic;
use memory_budget::{
    Decision, Figures, MemoryNeeds, STEP_BYTES_MIN, ShareFigures, Step, plan_move,
};
use sync::locks::Mutex;

use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::memory_shares::{LeastShares, MemoryShare, MemoryShares, Taken};
use crate::options::{KeyspaceOptions, Options};

/// Interval between looks at the shares.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Looks after which an engine that has not given its memory back gets its old budget back.
const PATIENCE_LOOKS: u32 = 100;
/// Looks for which it is left alone then.
const REST_LOOKS: u32 = 600;
/// How long a keyspace that is being made waits for memory, at most, or a little longer. The same
/// for a database that is being opened.
const WAIT_MOST: Duration = Duration::from_secs(10);
/// Time between two looks of an opening at memory that others release.
const PAUSE: Duration = Duration::from_millis(5);

/// The memory of several databases of one process, whose keyspaces share it: memory moves to the
/// keyspace that saves most with it, of whichever database ([`crate::Options::balance_memory`]).
/// Cheap to clone.
///
/// A database that is opened with it gets at most its own [`crate::Options::memory_bytes`] at
/// first, or what the others have left. If they have left too little, they are made to release the
/// least that its keyspaces need. Data in memory ([`crate::EngineKind::Memory`]) count once their
/// database is open, so open one database with such data at a time.
#[derive(Clone)]
pub struct SharedMemory(Arc<Memory>);

struct Memory {
    shares: Arc<MemoryShares>,
    state: Mutex<State>,
    /// The databases, by the order of their openings.
    databases: Mutex<Databases>,
    moves: AtomicU64,
    moved_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Databases {
    opened: u64,
    open: BTreeMap<u64, Weak<Inner>>,
}

/// Counts of the moves of a memory, of all databases that share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryMoves {
    /// Steps from one keyspace to another, or from free memory.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A keyspace, by its database and its id there.
type Place = (u64, u32);

#[derive(Debug, Default)]
pub(crate) struct State {
    giving: Option<Giving>,
    /// The time of the next look.
    next_look: Option<Monotonic>,
    /// By keyspace: the gain that it had counted at the last decision.
    seen: BTreeMap<Place, u64>,
    /// By keyspace: looks during which it is not asked for memory.
    resting: BTreeMap<Place, u32>,
    /// The giver of the last step, and its taker.
    last: (Option<Place>, Option<Place>),
}

impl State {
    /// Starts counting for keyspaces that are new or were cleared: their gain counts from here on.
    fn note_new(&mut self, members: &[Member]) {
        for member in members {
            let counted = member.needs.gain.saved_bytes;
            let seen = self.seen.entry(member.place).or_insert(counted);
            *seen = counted.min(*seen);
        }
    }
}

/// A step whose memory is not released yet.
#[derive(Debug)]
struct Giving {
    from: (u64, Weak<KeyspaceEntry>),
    to: (u64, Weak<KeyspaceEntry>),
    /// The giver's budget before.
    before: u64,
    looks_left: u32,
}

/// A keyspace whose share may move.
struct Member {
    place: Place,
    entry: Arc<KeyspaceEntry>,
    instance: Arc<KeyspaceInstance>,
    share: Arc<MemoryShare>,
    needs: MemoryNeeds,
}

impl Member {
    /// Returns `None` for a keyspace without a share, or with an engine that cannot resize.
    fn of(database: u64, entry: &Arc<KeyspaceEntry>) -> Option<Self> {
        let instance = entry.instance().ok()?;
        let share = instance.share.clone()?;
        let needs = instance.engine.memory()?.needs();
        let place = (database, entry.lock_id);
        Some(Self { place, entry: Arc::clone(entry), instance, share, needs })
    }

    /// Returns the keyspace of a step, if it is still there.
    fn of_step((database, entry): &(u64, Weak<KeyspaceEntry>)) -> Option<Self> {
        entry.upgrade().and_then(|entry| Self::of(*database, &entry))
    }

    /// Returns the keyspace as a step keeps it.
    fn for_step(&self) -> (u64, Weak<KeyspaceEntry>) {
        (self.place.0, Arc::downgrade(&self.entry))
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

impl SharedMemory {
    /// Returns a memory of this many bytes, which no database uses yet.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(Memory {
            shares: MemoryShares::new(bytes),
            state: Mutex::default(),
            databases: Mutex::default(),
            moves: AtomicU64::new(0),
            moved_bytes: AtomicU64::new(0),
        }))
    }

    /// Returns the bytes that databases use or that are in a share of an engine, and all bytes.
    pub fn bytes(&self) -> (u64, u64) {
        (self.shares().whole.used(), self.shares().whole.limit())
    }

    /// Returns the moves so far.
    pub(crate) fn moves(&self) -> MemoryMoves {
        let Memory { moves, moved_bytes, .. } = &*self.0;
        MemoryMoves { count: moves.load(Relaxed), bytes: moved_bytes.load(Relaxed) }
    }

    pub(crate) fn shares(&self) -> &Arc<MemoryShares> {
        &self.0.shares
    }

    /// Adds a database that is open.
    pub(crate) fn join(&self, database: &Arc<Inner>) {
        let mut databases = self.0.databases.lock();
        databases.opened += 1;
        let number = databases.opened;
        databases.open.insert(number, Arc::downgrade(database));
    }

    /// Takes a look at the shares, and does at most one step. Short, and never blocks.
    pub(crate) fn look(&self, now: Monotonic) {
        let Some(mut state) = self.0.state.try_lock() else { return };
        if state.next_look.is_some_and(|next| now < next) {
            return;
        }
        // The looks of one database may come an eighth of the interval early.
        state.next_look = Some(now + LOOK_INTERVAL * 3 / 4);
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
        state.seen = members.iter().map(|one| (one.place, one.needs.gain.saved_bytes)).collect();
    }

    /// Returns the keyspaces of all databases whose memory may move.
    fn members(&self) -> Vec<Member> {
        let mut databases = self.0.databases.lock();
        databases.open.retain(|_, database| database.strong_count() > 0);
        let open: Vec<_> = databases
            .open
            .iter()
            .filter_map(|(number, it)| Some((*number, it.upgrade()?)))
            .collect();
        drop(databases);
        let balanced = open.iter().filter(|(_, database)| database.options.balance_memory);
        let of = |(number, database): &(u64, Arc<Inner>)| {
            let all = database.keyspaces.all();
            all.iter().filter_map(|entry| Member::of(*number, entry)).collect::<Vec<_>>()
        };
        balanced.flat_map(of).collect()
    }

    fn figures(&self, state: &State, members: &[Member]) -> Figures {
        let share = |member: &Member| {
            let bytes = member.limit();
            let is_resting = state.resting.contains_key(&member.place);
            let (gain, seen) = (member.needs.gain, state.seen.get(&member.place));
            let saved = seen.map_or(0, |seen| gain.saved_bytes.saturating_sub(*seen));
            let most = member.share.asked.map_or(member.needs.most_bytes, |asked| asked.max(bytes));
            let least = if is_resting { bytes } else { member.least() };
            ShareFigures { bytes, least, most, saved, reach: gain.reach_bytes }
        };
        let position =
            |place: Option<Place>| members.iter().position(|member| Some(member.place) == place);
        Figures {
            whole: self.shares().whole.limit(),
            free: self.shares().free(),
            shares: members.iter().map(share).collect(),
            last: (position(state.last.0), position(state.last.1)),
        }
    }

    fn begin_step(&self, state: &mut State, members: &[Member], step: Step) {
        let Some(to) = members.get(step.to) else { return };
        let Some(from) = step.from.and_then(|from| members.get(from)) else {
            let taken = self.shares().take_free(step.bytes);
            let bytes = taken.bytes();
            if to.grow(taken) {
                self.note_move(bytes);
                state.last = (None, Some(to.place));
            }
            return;
        };
        let before = from.limit();
        let resized = from.resize(before.saturating_sub(step.bytes));
        if resized.is_none_or(|now| now >= before) {
            state.resting.insert(from.place, REST_LOOKS);
            return;
        }
        state.last = (Some(from.place), Some(to.place));
        let (from, to) = (from.for_step(), to.for_step());
        state.giving = Some(Giving { from, to, before, looks_left: PATIENCE_LOOKS });
        self.go_on_giving(state);
    }

    /// Step 4.
    fn go_on_giving(&self, state: &mut State) {
        let Some(giving) = state.giving.take() else { return };
        // One that was dropped has given all that it had.
        let Some(from) = Member::of_step(&giving.from) else { return };
        if from.needs.is_within_limit {
            let taken = from.share.take_above(from.limit());
            let bytes = taken.bytes();
            if Member::of_step(&giving.to).is_some_and(|to| to.grow(taken)) {
                self.note_move(bytes);
            }
            return;
        }
        if giving.looks_left > 0 {
            state.giving = Some(giving);
            return;
        }
        state.resting.insert(from.place, REST_LOOKS);
        // Its share still counts as at least that.
        let _if_closed = from.resize(giving.before);
    }

    fn note_move(&self, bytes: u64) {
        self.0.moves.fetch_add(1, Relaxed);
        self.0.moved_bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the shares of the keyspaces of a database that is being opened, by their ids. Of its
    /// memory, `needed` bytes are known to be taken by keyspaces in memory. Takes the missing
    /// memory from other databases, as far as they can release it, and waits for that.
    ///
    /// # Errors
    /// [`crate::Error::MemoryTooSmall`]; the device's; damage.
    pub(crate) fn deal(
        &self,
        (device, catalog): (&dyn Device, &Catalog),
        needed: u64,
        options: &Options,
    ) -> Result<BTreeMap<u32, Arc<MemoryShare>>> {
        let least = LeastShares::of(device, catalog)?;
        let wanted = needed.saturating_add(least.bytes()).min(options.memory_bytes);
        let environment = &options.environment;
        let until = environment.now() + WAIT_MOST;
        loop {
            let mut state = self.0.state.lock();
            let may_wait = options.balance_memory && environment.now() < until;
            if !may_wait || !self.go_on_freeing(&mut state, || self.shares().missing(wanted)) {
                let of_database = (needed, options.memory_bytes);
                return self.shares().deal((device, catalog), &least, of_database);
            }
            drop(state);
            // The pool of this database runs no task yet that would end a wait for the pool.
            environment.sleep(PAUSE);
        }
    }

    /// Makes keyspaces release memory until nothing is missing, or one of them needs time. Returns
    /// whether to wait for that.
    fn go_on_freeing(&self, state: &mut State, missing: impl Fn() -> u64) -> bool {
        loop {
            if state.giving.is_some() {
                self.go_on_giving(state);
            }
            let missing = missing();
            if missing == 0 {
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
        let is_resting = |member: &&Member| !state.resting.contains_key(&member.place);
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
        let (from, to) = (from.for_step(), (0, Weak::new()));
        state.giving = Some(Giving { from, to, before, looks_left: PATIENCE_LOOKS });
        true
    }
}

impl Inner {
    /// Takes a look at the shares of the memory that this database has or shares.
    pub(crate) fn balance_memory(&self) {
        self.factory.memory.look(self.options.environment.now());
    }

    /// Returns the share of a keyspace that is to be made with `options`, if its engine has one.
    /// Takes the missing memory from other keyspaces, as far as they can release it, and waits for
    /// that. The caller holds the catalog.
    ///
    /// # Errors
    /// [`crate::Error::NoMemoryLeft`]; [`crate::Error::Closed`] once the database is being closed.
    pub(crate) fn memory_for_new(
        &self,
        options: KeyspaceOptions,
    ) -> Result<Option<Arc<MemoryShare>>> {
        let memory = &self.factory.memory;
        let has_share = |entry: &Arc<KeyspaceEntry>| entry.last_instance().share.is_some();
        let is_first = !self.keyspaces.all().iter().any(has_share);
        let of_database = (is_first, self.options.memory_bytes);
        let environment = &self.options.environment;
        let until = environment.now() + WAIT_MOST;
        let missing = || memory.shares().missing_for_new(options.engine);
        let mut made = None;
        let is_done = || {
            // It gets its share before another step, or both would count on the same memory [B1].
            let mut state = memory.0.state.lock();
            let is_staying = self.lifecycle.check_staying_open().is_ok();
            let may_wait = self.options.balance_memory && is_staying && environment.now() < until;
            let waits = may_wait && memory.go_on_freeing(&mut state, missing);
            if !waits {
                made = Some(memory.shares().share_of_new(options, of_database));
            }
            !waits
        };
        // If everything is being stopped, the caller gets an error.
        let _if_stopped = self.background.wait_until(is_done);
        self.lifecycle.check_staying_open()?;
        made.unwrap_or(Err(Error::Closed))
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, limit) = self.bytes();
        f.debug_struct("SharedMemory").field("used", &used).field("limit", &limit).finish()
    }
}

#[cfg(test)]
mod tests;
