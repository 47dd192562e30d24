//! The sweeper: removes keys whose time has come though nobody asks for them.
//!
//! 1. Ten times a second it looks at a slice of the keys of each database, in order, and removes
//!    the expired ones, one atomic update each.
//! 2. If more than a quarter of a slice had expired, it goes on at once, up to a share of the time.
//! 3. A database in which a whole pass found no key with an expiry is left alone until a key with
//!    an expiry is written ([`Sweeper::pass_is_due`]).
//!
//! # Concurrency
//! It enters the gate by its own slot, and leaves it between slices.

use std::io;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::shared::Shared;
use crate::store::value::Stored;
use crate::store::{Change, DB_COUNT, DbIndex, StoreError};

const TICK: Duration = Duration::from_millis(100);
/// Keys looked at in one slice.
const SLICE_KEYS: usize = 500;
/// Time that the slices of one tick may take together: a quarter of a core.
const TIME_PER_TICK: Duration = Duration::from_millis(25);
/// Ticks between passes over a database that holds no key with an expiry.
const REST_TICKS: u64 = 600;

/// The sweeper's place in each database.
pub(crate) struct Sweeper {
    shared: Arc<Shared>,
    places: Vec<Place>,
    tick: u64,
}

#[derive(Clone, Debug, Default)]
struct Place {
    /// Where the pass goes on.
    from: Vec<u8>,
    /// Keys with an expiry that this pass has seen.
    expiring: u64,
    /// The tick before which no new pass begins.
    rest_until: u64,
    /// Keys with an expiry that had been written when the last pass ended.
    written_before: u64,
}

/// What a slice found.
#[derive(Debug, Default)]
struct Slice {
    seen: usize,
    expiring: u64,
    expired: Vec<Vec<u8>>,
    next: Option<Vec<u8>>,
}

impl Sweeper {
    /// A sweeper that begins at the first key of every database.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, places: vec![Place::default(); usize::from(DB_COUNT)], tick: 0 }
    }

    /// Sweeps until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.shared.stop.wait_for(TICK) {
            self.tick += 1;
            let begun = self.shared.environment.now();
            for db in 0..DB_COUNT {
                while self.sweep(db)
                    && self.shared.environment.now() - begun < TIME_PER_TICK
                    && !self.shared.stop.is_asked()
                {}
            }
        }
        Ok(())
    }

    /// Sweeps one slice; whether it is worth going on at once.
    fn sweep(&mut self, db: DbIndex) -> bool {
        if !self.pass_is_due(db) {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let pass = shared.gate.enter(shared.options.threads);
        // A store that cannot be read or written is reported to those who use it; the sweeper
        // comes back later.
        let slice = self.look(db).unwrap_or_default();
        let mut removed = 0;
        for key in &slice.expired {
            removed += u64::from(self.remove(db, key).unwrap_or(false));
        }
        drop(pass);
        shared.stats.expired.add(removed);
        let goes_on = removed > 0 && slice.expired.len() * 4 > slice.seen;
        self.advance(db, slice);
        goes_on
    }

    /// Whether `db` may hold keys with an expiry, as far as the last pass knew.
    fn pass_is_due(&self, db: DbIndex) -> bool {
        let place = &self.places[usize::from(db)];
        let written = self.shared.expiries_written.load(Relaxed);
        !place.from.is_empty() || self.tick >= place.rest_until || written > place.written_before
    }

    fn look(&self, db: DbIndex) -> Result<Slice, StoreError> {
        let now_ms = self.shared.environment.wall_ms();
        let mut slice = Slice::default();
        let from = &self.places[usize::from(db)].from;
        self.shared.store.scan(db, from, &mut |key, value| {
            if slice.seen == SLICE_KEYS {
                slice.next = Some(key.to_vec());
                return Break(());
            }
            slice.seen += 1;
            match Stored::decode(value) {
                Ok(stored) if stored.is_expired(now_ms) => slice.expired.push(key.to_vec()),
                Ok(stored) => slice.expiring += u64::from(stored.expiry_ms.is_some()),
                Err(_) => {}
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

    fn advance(&mut self, db: DbIndex, slice: Slice) {
        let place = &mut self.places[usize::from(db)];
        place.expiring += slice.expiring;
        match slice.next {
            Some(next) => place.from = next,
            None => {
                place.from.clear();
                let expiring = std::mem::take(&mut place.expiring);
                self.shared.stats.expiring_keys[usize::from(db)].store(expiring, Relaxed);
                place.written_before = self.shared.expiries_written.load(Relaxed);
                place.rest_until = self.tick + if expiring == 0 { REST_TICKS } else { 1 };
            }
        }
    }
}
