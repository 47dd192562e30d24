//! The lookups of one event loop that wait for the device.
//!
//! 1. A connection of which commands have to wait takes its place among the others ([`Wanted`]).
//! 2. As long as there is room for another lookup, the first connection's first key is looked up,
//!    on the store session of its database. If the connection wants more it takes its place again,
//!    behind the others: a long pipeline holds up no short one.
//! 3. The device rings the loop's bell, which wakes its poll as a socket does. Results are handed
//!    to the connections, whose commands continue.
//!
//! # Invariants
//! - L1. At most `depth` lookups are under way, for any requests of the clients. The buffers that
//!   they read into are memory of the data; commands that wait are memory of the clients.
//! - L2. When [`Lookups::turn`] returns, every lookup that was begun is with the device, so that
//!   the bell will ring; or it returns that it must be called again.
//! - L3. A connection that ends does not wait for its lookups: their results are dropped.
//! - L4. A store session keeps a queue of the device and its read buffers. So it is dropped at the
//!   second tick after its last lookup.

use std::collections::VecDeque;
use std::sync::Arc;

use thermocline::Doorbell;

use super::SCRATCH_BYTES_KEPT;
use crate::connection::{Connection, Worker};
use crate::shared::Shared;
use crate::store::session::{Purpose, StoreLookup, StoreRead, StoreSession};
use crate::store::{DB_COUNT, DbIndex, StoreError};

/// Most lookups under way: enough to keep a fast device busy.
const DEPTH_MAX: u64 = 128;
/// Few enough for any budget, and enough to overlap.
const DEPTH_MIN: u64 = 8;
/// Bytes that a lookup mostly reads: a block or two.
const LOOKUP_BYTES: u64 = 8 << 10;
/// Share of the data's memory that the lookups of all loops may take.
const MEMORY_SHARE: u64 = 16;
/// Rounds of a turn, each of which begins the lookups that the last one left.
const ROUNDS: usize = 3;

/// A connection whose keys are looked up: its token, and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) token: usize,
    pub(crate) client: u64,
}

/// A command whose key is looked up: whose it is, and its place among the replies.
#[derive(Clone, Copy, Debug)]
struct Want {
    asker: Asker,
    number: u64,
}

/// The connections that want keys looked up, each once, in the order of their turns.
pub(crate) type Wanted = VecDeque<Asker>;

/// A store session in use.
struct Taken {
    store_session: Box<dyn StoreSession>,
    /// Something was begun since the last tick.
    is_used: bool,
}

/// The lookups.
pub(super) struct Lookups {
    bell: Arc<Doorbell>,
    depth: usize,
    store_sessions: [Option<Taken>; DB_COUNT as usize],
    /// The commands that want the results, by tag.
    owners: Vec<Option<(DbIndex, Want)>>,
    free: Vec<usize>,
    value: Vec<u8>,
}

/// The connections of the loop, by token.
type Connections = [Option<Box<Connection>>];

impl Lookups {
    /// None yet, for one of `loops` loops over data that may take `memory_bytes_max`.
    pub(super) fn new(bell: Arc<Doorbell>, memory_bytes_max: u64, loops: usize) -> Self {
        let share = memory_bytes_max / MEMORY_SHARE / loops.max(1) as u64;
        let depth = (share / LOOKUP_BYTES).clamp(DEPTH_MIN, DEPTH_MAX) as usize;
        let (store_sessions, owners, free, value) = Default::default();
        Self { bell, depth, store_sessions, owners, free, value }
    }

    /// Lookups under way.
    pub(super) fn under_way(&self) -> usize {
        self.owners.len() - self.free.len()
    }

    fn has_room(&self) -> bool {
        self.under_way() < self.depth
    }

    /// Begins the wanted lookups, as far as there is room, and continues the commands whose lookups
    /// have ended. The tokens of connections whose commands continued are put into `answered`.
    /// Returns whether there is more to do immediately.
    pub(super) fn turn(
        &mut self,
        connections: &mut Connections,
        worker: &mut Worker<'_>,
        answered: &mut Vec<usize>,
    ) -> bool {
        for _ in 0..ROUNDS {
            let is_full = self.begin_wanted(connections, worker, answered);
            self.complete(&mut |want, looked| {
                if let Some(connection) = client_of(connections, want.asker) {
                    connection.go_on(want.number, looked, worker);
                    answered.push(want.asker.token);
                }
            });
            if worker.wanted.is_empty() || !self.has_room() || is_full && self.under_way() > 0 {
                return false;
            }
        }
        true
    }

    /// Begins the wanted lookups, as far as there is room. Returns whether a store session has none
    /// until the lookups under way have ended.
    fn begin_wanted(
        &mut self,
        connections: &mut Connections,
        worker: &mut Worker<'_>,
        answered: &mut Vec<usize>,
    ) -> bool {
        let mut full = Vec::new();
        // A lookup that memory answers after all takes no room, and the loop must not continue for
        // ever.
        for _ in 0..self.depth {
            if !self.has_room() {
                break;
            }
            let Some(asker) = worker.wanted.pop_front() else { break };
            let Some(connection) = client_of(connections, asker) else { continue };
            connection.is_in_turn = false;
            let Some(number) = connection.next_wanted(worker.shared) else {
                // The gate may hold it up.
                connection.take_turn(worker);
                continue;
            };
            let Some((db, key, purpose)) = connection.wanted(number) else { continue };
            let begun = self.begin(worker.shared, Want { asker, number }, db, key, purpose);
            if matches!(begun, Ok(StoreLookup::Full)) {
                // Others may have room, in other databases.
                connection.is_in_turn = true;
                full.push(asker);
                continue;
            }
            connection.note_begun(number);
            match begun {
                Ok(StoreLookup::Pending | StoreLookup::Full) => {
                    connection.take_turn(worker);
                    continue;
                }
                Ok(StoreLookup::AtOnce) => connection.try_again(number, worker),
                Ok(StoreLookup::Known(is_there)) => {
                    let value = is_there.then_some(self.value.as_slice());
                    connection.go_on(number, Ok(StoreRead::Value(value)), worker);
                }
                // There is no queue to be had.
                Err(_) => connection.leave_to_thread(number, worker),
            }
            connection.take_turn(worker);
            answered.push(asker.token);
        }
        let is_full = !full.is_empty();
        full.into_iter().rev().for_each(|asker| worker.wanted.push_front(asker));
        is_full
    }

    fn begin(
        &mut self,
        shared: &Shared,
        want: Want,
        db: DbIndex,
        key: &[u8],
        purpose: Purpose,
    ) -> Result<StoreLookup, StoreError> {
        let Some(place) = self.store_sessions.get_mut(usize::from(db)) else {
            return Ok(StoreLookup::Full);
        };
        let taken = match place {
            Some(taken) => taken,
            none => {
                let store_session = shared.store.store_session(db, self.depth, &self.bell)?;
                none.insert(Taken { store_session, is_used: true })
            }
        };
        taken.is_used = true;
        let tag = self.free.last().copied().unwrap_or(self.owners.len());
        let begun = taken.store_session.begin(tag as u64, key, purpose, &mut self.value)?;
        if begun == StoreLookup::Pending {
            match self.free.pop() {
                Some(tag) => self.owners[tag] = Some((db, want)),
                None => self.owners.push(Some((db, want))),
            }
        }
        Ok(begun)
    }

    /// Drops store sessions without a lookup since the last call. [L4]
    pub(super) fn tick(&mut self) {
        for place in &mut self.store_sessions {
            let is_idle = |taken: &mut Taken| {
                let is_used = std::mem::take(&mut taken.is_used);
                !is_used && taken.store_session.pending() == 0
            };
            drop(place.take_if(is_idle));
        }
        self.value.clear();
        self.value.shrink_to(SCRATCH_BYTES_KEPT);
    }

    /// Completes lookups under way, and calls `on_done` for each that has ended.
    fn complete(&mut self, on_done: &mut dyn FnMut(Want, Result<StoreRead<'_>, StoreError>)) {
        let Self { store_sessions, owners, free, .. } = self;
        for (db, place) in (0..).zip(store_sessions) {
            let taken = place.as_mut().filter(|taken| taken.store_session.pending() > 0);
            let Some(taken) = taken else { continue };
            let completed = taken.store_session.complete(&mut |tag, looked| {
                let owner = owners.get_mut(tag as usize).and_then(Option::take);
                if let Some((_, want)) = owner {
                    free.push(tag as usize);
                    on_done(want, looked);
                }
            });
            let Err(error) = completed else { continue };
            // Nothing more will come of it, so all commands that wait for it get the error; the
            // next lookup makes a new one.
            *place = None;
            for (tag, owner) in owners.iter_mut().enumerate() {
                if let Some((_, want)) = owner.take_if(|(of, _)| *of == db) {
                    free.push(tag);
                    on_done(want, Err(error.clone()));
                }
            }
        }
    }
}

/// The connection that wants to know, if it is still there.
pub(super) fn client_of(connections: &mut Connections, asker: Asker) -> Option<&mut Connection> {
    let connection = connections.get_mut(asker.token)?.as_deref_mut()?;
    (connection.session.client.id == asker.client && !connection.is_gone).then_some(connection)
}
