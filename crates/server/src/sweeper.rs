//! The sweeper: removes keys whose time has come though nobody asks for them, and counts those that
//! have one; and drops the seats that event loops have given up.
//!
//! 1. Ten times a second it takes a turn: it looks at the keys of each database whose pass is due,
//!    in the store's order, slice by slice, and removes the expired ones, one atomic update each.
//! 2. A turn goes on until every pass is over or its time is: a quarter of a core while more than a
//!    quarter of a slice had expired, a tenth while the server has little else to do, otherwise a
//!    fiftieth.
//! 3. When a pass has come to the last key, its counts are shown (INFO keyspace). The next one is
//!    due when the first key ends that it has seen or that was written since, and in any case,
//!    since counts grow old, after ten times as many ticks as it took; where there was no key with
//!    an expiry, after a minute at least.
//!
//! # Concurrency
//! It looks outside of the gate, since a walk may have to read the device for each key. It enters by
//! its own slot for each key that it removes, and when a pass begins.

use std::io;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::shared::Shared;
use crate::store::value::Stored;
use crate::store::{Change, DB_COUNT, DbIndex, StoreError};

const TICK: Duration = Duration::from_millis(100);
/// Keys looked at in one slice, and bytes of values after which it ends.
const SLICE_KEYS: usize = 500;
const SLICE_BYTES: usize = 1 << 20;
/// Time that a turn may take when it pays, when the server has little else to do, and otherwise.
const DENSE_TURN: Duration = Duration::from_millis(25);
const IDLE_TURN: Duration = Duration::from_millis(10);
const BUSY_TURN: Duration = Duration::from_millis(2);
/// Commands within a tick from which on the server is busy.
const BUSY_COMMANDS: u64 = 100;
/// Ticks between passes over a database that holds no key with an expiry.
const REST_TICKS: u64 = 600;
/// A pass that took one tick is followed by this many ticks of rest, a longer one by as many more.
const REST_FACTOR: u64 = 10;

/// The sweeper's place in each database.
pub(crate) struct Sweeper {
    shared: Arc<Shared>,
    places: Vec<Place>,
    tick: u64,
    /// Commands executed until the last turn.
    executed: u64,
}

/// A pass over a database, and when the next one is due.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Where the pass goes on; nowhere between passes.
    from: Option<Vec<u8>>,
    /// The tick in which it began.
    begun: u64,
    found: Found,
    /// Keys that it has seen and that had not expired.
    seen: u64,
    /// The tick from which on the next pass is due whatever the last one found.
    rest_until: u64,
}

/// Keys with an expiry that is still to come.
#[derive(Clone, Copy, Debug)]
struct Found {
    keys: u64,
    /// Milliseconds that they have left, together.
    left_ms: u64,
    /// When the first of them ends, in milliseconds since the epoch.
    soonest_ms: u64,
}

impl Default for Found {
    fn default() -> Self {
        Self { keys: 0, left_ms: 0, soonest_ms: u64::MAX }
    }
}

/// What a slice found.
#[derive(Debug, Default)]
struct Slice {
    seen: usize,
    bytes: usize,
    expired: Vec<Vec<u8>>,
    found: Found,
    next: Option<Vec<u8>>,
}

impl Slice {
    fn live(&self) -> usize {
        self.seen - self.expired.len()
    }

    /// Whether it pays to look further at once.
    fn is_dense(&self) -> bool {
        self.expired.len() * 4 > self.seen
    }
}

impl Sweeper {
    /// A sweeper that begins at the first key of every database.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let places = vec![Place::default(); usize::from(DB_COUNT)];
        Self { shared, places, tick: 0, executed: 0 }
    }

    /// Sweeps until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.shared.stop.wait_for(TICK) {
            self.tick += 1;
            self.drop_retired();
            self.turn();
        }
        Ok(())
    }

    /// Drops what nobody uses any more, outside of the gate and of the lock: it may take its time.
    fn drop_retired(&self) {
        let retired = std::mem::take(&mut *self.shared.retired.lock());
        drop(retired);
    }

    /// Steps 1 and 2: a slice of each database in turn.
    fn turn(&mut self) {
        let begun = self.shared.environment.now();
        let executed = self.shared.stats.executed.get();
        let is_busy = executed.saturating_sub(self.executed) > BUSY_COMMANDS;
        self.executed = executed;
        let now_ms = self.shared.environment.wall_ms();
        let mut due: Vec<DbIndex> = (0..DB_COUNT).filter(|&db| self.is_due(db, now_ms)).collect();
        while !due.is_empty() && !self.shared.stop.is_asked() {
            let mut is_dense = false;
            due.retain(|&db| {
                let (goes_on, dense) = self.sweep(db);
                is_dense |= dense;
                goes_on
            });
            let time = match () {
                () if is_dense => DENSE_TURN,
                () if is_busy => BUSY_TURN,
                () => IDLE_TURN,
            };
            if self.shared.environment.now() - begun >= time {
                return;
            }
        }
    }

    /// Whether a pass over `db` is under way, or one is due.
    fn is_due(&self, db: DbIndex, now_ms: u64) -> bool {
        let place = &self.places[usize::from(db)];
        let written_ms = self.shared.soonest_written_ms[usize::from(db)].load(Relaxed);
        place.from.is_some()
            || self.tick >= place.rest_until
            || now_ms >= place.found.soonest_ms.min(written_ms)
    }

    /// Sweeps one slice; whether the pass goes on, and whether it pays to go on at once.
    fn sweep(&mut self, db: DbIndex) -> (bool, bool) {
        let shared = Arc::clone(&self.shared);
        let place = &mut self.places[usize::from(db)];
        if place.from.is_none() {
            // What is written from now on may lie where the pass has been already. Not amid a
            // transaction, which may have noted an expiry that it has not written yet.
            let _pass = shared.gate.enter(shared.options.threads);
            shared.soonest_written_ms[usize::from(db)].store(u64::MAX, Relaxed);
            (place.begun, place.found, place.seen) = (self.tick, Found::default(), 0);
        }
        let Ok(slice) = self.look(db) else {
            // A store that cannot be read is reported to those who use it.
            let place = &mut self.places[usize::from(db)];
            place.from = None;
            place.rest_until = self.tick + REST_FACTOR;
            return (false, false);
        };
        let mut removed = 0;
        for key in &slice.expired {
            let _pass = shared.gate.enter(shared.options.threads);
            // A store that cannot be written likewise; the keys stay invisible.
            removed += u64::from(self.remove(db, key).unwrap_or(false));
        }
        shared.stats.expired.add(removed);
        let is_dense = removed > 0 && slice.is_dense();
        (self.advance(db, slice), is_dense)
    }

    fn look(&self, db: DbIndex) -> Result<Slice, StoreError> {
        let now_ms = self.shared.environment.wall_ms();
        let mut slice = Slice::default();
        let from = self.places[usize::from(db)].from.as_deref();
        self.shared.store.walk(db, from, &mut |key, value| {
            if slice.seen == SLICE_KEYS || slice.bytes > SLICE_BYTES {
                slice.next = Some(key.to_vec());
                return Break(());
            }
            slice.seen += 1;
            slice.bytes += value.len();
            match Stored::decode(value) {
                Ok(stored) if stored.is_expired(now_ms) => slice.expired.push(key.to_vec()),
                Ok(Stored { expiry_ms: Some(expiry_ms), .. }) => slice.found.add(expiry_ms, now_ms),
                Ok(_) | Err(_) => {}
            }
            Continue(())
        })?;
        Ok(slice)
    }

    /// Removes `key` if it is still expired; whether it did.
    fn remove(&self, db: DbIndex, key: &[u8]) -> Result<bool, StoreError> {
        let now_ms = self.shared.environment.wall_ms();
        let mut gone = false;
        self.shared.store.update(db, key, &mut |bytes| {
            let stored = bytes.and_then(|bytes| Stored::decode(bytes).ok());
            gone = stored.is_some_and(|stored| stored.is_expired(now_ms));
            if gone { Change::Delete } else { Change::Keep }
        })?;
        if gone {
            self.shared.watches.touch(db, key);
        }
        Ok(gone)
    }

    /// Step 3; whether the pass goes on.
    fn advance(&mut self, db: DbIndex, slice: Slice) -> bool {
        let place = &mut self.places[usize::from(db)];
        place.found.merge(slice.found);
        place.seen += slice.live() as u64;
        place.from = slice.next;
        if place.from.is_some() {
            return true;
        }
        let Found { keys, left_ms, .. } = place.found;
        let stats = &self.shared.stats;
        stats.seen_keys[usize::from(db)].store(place.seen, Relaxed);
        stats.expiring_keys[usize::from(db)].store(keys, Relaxed);
        stats.expiring_in_ms[usize::from(db)].store(left_ms / keys.max(1), Relaxed);
        let has_none =
            keys == 0 && self.shared.soonest_written_ms[usize::from(db)].load(Relaxed) == u64::MAX;
        let ticks = self.tick - place.begun + 1;
        let rest = ticks * REST_FACTOR;
        place.rest_until = self.tick + if has_none { rest.max(REST_TICKS) } else { rest };
        false
    }
}

impl Found {
    fn add(&mut self, expiry_ms: u64, now_ms: u64) {
        let left_ms = expiry_ms.saturating_sub(now_ms);
        self.merge(Self { keys: 1, left_ms, soonest_ms: expiry_ms });
    }

    fn merge(&mut self, other: Self) {
        self.keys += other.keys;
        self.left_ms = self.left_ms.saturating_add(other.left_ms);
        self.soonest_ms = self.soonest_ms.min(other.soonest_ms);
    }
}
