//! The look-ups of one event loop that wait for the device.
//!
//! 1. A command that has to wait says so ([`Want`]); wants stand in the order in which they came.
//! 2. As long as there is room among those under way, the first want's key is looked up, on the seat of
//!    its database.
//! 3. The device rings the loop's bell, which wakes its poll as a socket does. What has ended is told
//!    to the connections, whose commands go on.
//!
//! # Invariants
//! - L1. At most `depth` look-ups are under way, whatever the clients ask for. What they read into is
//!   memory of the data; commands that wait are memory of the clients.
//! - L2. When [`LookUps::turn`] returns, every look-up that was begun is with the device, so that the bell
//!   will tell; or it answers that it is to be called again.
//! - L3. A connection that ends does not wait for its look-ups: what they find is told to nobody.

use std::collections::VecDeque;
use std::sync::Arc;

use thermocline::Doorbell;

use crate::connection::{Connection, Worker};
use crate::store::seat::{Begun, Looked, Purpose, Seat};
use crate::store::{DB_COUNT, DbIndex, Durable, StoreError};

/// Most look-ups under way: what keeps a fast device busy.
const DEPTH_MAX: u64 = 128;
/// Few enough for any budget, and enough to overlap.
const DEPTH_MIN: u64 = 8;
/// What a look-up reads into, mostly: a block or two.
const LOOK_UP_BYTES: u64 = 8 << 10;
/// Share of the data's memory that the look-ups of all loops may take.
const MEMORY_SHARE: u64 = 16;
/// How often a turn begins what the last round left.
const ROUNDS: usize = 3;

/// A command that wants its key looked up: the connection's token, its client, and the place of the
/// command among its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) token: usize,
    pub(crate) client: u64,
    pub(crate) number: u64,
}

/// The look-ups.
pub(super) struct LookUps {
    bell: Arc<Doorbell>,
    depth: usize,
    seats: [Option<Box<dyn Seat>>; DB_COUNT as usize],
    /// Who wants to know, by tag.
    owners: Vec<Option<(DbIndex, Want)>>,
    free: Vec<usize>,
    value: Vec<u8>,
}

/// The connections of the loop, by token.
type Connections = [Option<Box<Connection>>];

impl LookUps {
    /// None yet, for one of `loops` loops over data that may take `memory_bytes_max`.
    pub(super) fn new(bell: Arc<Doorbell>, memory_bytes_max: u64, loops: usize) -> Self {
        let share = memory_bytes_max / MEMORY_SHARE / loops.max(1) as u64;
        let depth = (share / LOOK_UP_BYTES).clamp(DEPTH_MIN, DEPTH_MAX) as usize;
        let (seats, owners, free, value) = Default::default();
        Self { bell, depth, seats, owners, free, value }
    }

    /// Look-ups under way.
    pub(super) fn under_way(&self) -> usize {
        self.owners.len() - self.free.len()
    }

    fn has_room(&self) -> bool {
        self.under_way() < self.depth
    }

    /// Begins what is wanted, as far as there is room, and goes on with what has ended. The tokens of
    /// those whose commands went on are put into `answered`. Whether there is more to do at once.
    pub(super) fn turn(
        &mut self,
        connections: &mut Connections,
        worker: &mut Worker<'_>,
        answered: &mut Vec<usize>,
    ) -> bool {
        for _ in 0..ROUNDS {
            let is_full = self.begin_wanted(connections, worker, answered);
            self.complete(&mut |want, looked| {
                if let Some(connection) = client_of(connections, want) {
                    connection.go_on(want.number, looked, worker);
                    answered.push(want.token);
                }
            });
            if worker.wanted.is_empty() || !self.has_room() || is_full && self.under_way() > 0 {
                return false;
            }
        }
        true
    }

    /// Begins what is wanted, as far as there is room. Whether a seat has none until what is under way
    /// has ended.
    fn begin_wanted(
        &mut self,
        connections: &mut Connections,
        worker: &mut Worker<'_>,
        answered: &mut Vec<usize>,
    ) -> bool {
        // What comes to be wanted meanwhile has its turn in the next round.
        for _ in 0..worker.wanted.len() {
            if !self.has_room() {
                break;
            }
            let Some(want) = worker.wanted.pop_front() else { break };
            let Some(connection) = client_of(connections, want) else { continue };
            let Some((db, key, purpose)) = connection.wanted(want.number) else { continue };
            let store = &*worker.shared.store;
            match self.begin(store, want, db, key, purpose) {
                Ok(Begun::Pending) => continue,
                Ok(Begun::Full) => {
                    worker.wanted.push_front(want);
                    return true;
                }
                Ok(Begun::AtOnce) => connection.try_again(want.number, worker),
                Ok(Begun::Known(is_there)) => {
                    let value = is_there.then_some(self.value.as_slice());
                    connection.go_on(want.number, Ok(Looked::Value(value)), worker);
                }
                // There is no queue to be had: better to wait for the device than to fail.
                Err(_) => connection.block(want.number, worker),
            }
            answered.push(want.token);
        }
        false
    }

    fn begin(
        &mut self,
        store: &dyn Durable,
        want: Want,
        db: DbIndex,
        key: &[u8],
        purpose: Purpose,
    ) -> Result<Begun, StoreError> {
        let Some(place) = self.seats.get_mut(usize::from(db)) else { return Ok(Begun::Full) };
        let seat = match place {
            Some(seat) => seat,
            none => none.insert(store.seat(db, self.depth, &self.bell)?),
        };
        let tag = self.free.last().copied().unwrap_or(self.owners.len());
        let begun = seat.begin(tag as u64, key, purpose, &mut self.value)?;
        if begun == Begun::Pending {
            match self.free.pop() {
                Some(tag) => self.owners[tag] = Some((db, want)),
                None => self.owners.push(Some((db, want))),
            }
        }
        Ok(begun)
    }

    /// Goes on with what is under way, and tells of what has ended.
    fn complete(&mut self, told: &mut dyn FnMut(Want, Result<Looked<'_>, StoreError>)) {
        let Self { seats, owners, free, .. } = self;
        for (db, place) in (0..).zip(seats) {
            let Some(seat) = place.as_mut().filter(|seat| seat.pending() > 0) else { continue };
            let completed = seat.complete(&mut |tag, looked| {
                let owner = owners.get_mut(tag as usize).and_then(Option::take);
                if let Some((_, want)) = owner {
                    free.push(tag as usize);
                    told(want, looked);
                }
            });
            let Err(error) = completed else { continue };
            // Nothing more will come of it, so all who wait for it hear why; the next look-up makes a
            // new one.
            *place = None;
            for (tag, owner) in owners.iter_mut().enumerate() {
                if let Some((_, want)) = owner.take_if(|(of, _)| *of == db) {
                    free.push(tag);
                    told(want, Err(error.clone()));
                }
            }
        }
    }
}

/// The connection that wants to know, if it is still there.
fn client_of(connections: &mut Connections, want: Want) -> Option<&mut Connection> {
    let connection = connections.get_mut(want.token)?.as_deref_mut()?;
    (connection.session.client.id == want.client && !connection.is_gone).then_some(connection)
}

/// What waits for room, in the order in which it came.
pub(crate) type Wanted = VecDeque<Want>;
