//! Counters under read-modify-write: exact at the end, never falling meanwhile.

use std::sync::Arc;

use engine::{Change, Operator};

use super::shared::{Shared, join_all, spawn};
use crate::Fixture;
use crate::draw::Draw;

const CLIENTS: usize = 4;
const ADDITIONS: usize = 200;
const KEYS: usize = 3;

fn key(index: usize) -> Vec<u8> {
    format!("counter{index}").into_bytes()
}

fn decode(value: &[u8]) -> Result<u64, String> {
    let bytes = <[u8; 8]>::try_from(value).map_err(|_| format!("no counter: {value:?}"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Adds one, in place if the engine offers it and `in_place` is set.
struct Add {
    in_place: bool,
}

impl Operator for Add {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        let Ok(count) = decode(value) else { return false };
        if self.in_place {
            value.copy_from_slice(&(count + 1).to_le_bytes());
        }
        self.in_place
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let count = value.map_or(Ok(0), decode).unwrap_or(0);
        Change::Put((count + 1).to_le_bytes().to_vec())
    }
}

/// Adds one to each counter, all of them in one session.
fn add_to_all(shared: &Shared, in_place: bool) -> Result<(), String> {
    let mut adds: [Add; KEYS] = std::array::from_fn(|_| Add { in_place });
    let operators = adds.iter_mut().map(|add| add as &mut dyn Operator);
    let mut updates: Vec<_> = (0..KEYS).map(key).zip(operators).collect();
    shared.rmw_pending(&mut updates)
}

/// Adds from many threads and looks whether the sums are right.
pub(crate) fn counters(fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
    let shared = Shared::open(fixture, CLIENTS)?;
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let shared = Arc::clone(&shared);
        let mut draw = Draw::new(seed, &format!("client {client}"));
        clients.push(spawn(&format!("client-{client}"), move || {
            shared.start.wait();
            let mut added = [0_u64; KEYS];
            let mut least = [0_u64; KEYS];
            for _ in 0..ADDITIONS {
                let index = draw.below(KEYS);
                let in_place = draw.once_in(2);
                if draw.once_in(4) {
                    add_to_all(&shared, in_place)?;
                    added.iter_mut().chain(&mut least).for_each(|count| *count += 1);
                } else {
                    shared.rmw(&key(index), &mut Add { in_place })?;
                    added[index] += 1;
                    least[index] += 1;
                }
                if draw.once_in(30) {
                    shared.push_out()?;
                }
                let seen = shared.get(&key(index))?.as_deref().map(decode).transpose()?;
                let seen = seen.unwrap_or(0);
                if seen < least[index] {
                    let least = least[index];
                    return Err(format!("counter{index} reads {seen}, it was {least} before"));
                }
                least[index] = seen;
            }
            Ok(added)
        })?);
    }
    let beside = Arc::clone(&shared);
    let upkeep = spawn("upkeep", move || beside.upkeep())?;
    let added = join_all(&shared, clients, vec![upkeep])?;
    for index in 0..KEYS {
        let expected: u64 = added.iter().map(|added| added[index]).sum();
        let seen = shared.get(&key(index))?.as_deref().map(decode).transpose()?.unwrap_or(0);
        if seen != expected {
            return Err(format!("counter{index} is {seen} after {expected} additions"));
        }
    }
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    shared.reopen_and_compare(fixture, &keys)
}
