//! Keys as registers: a recorded history of gets, puts, deletes, batches and read-modify-writes,
//! each key's part of it linearizable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use engine::{At, Change, Lookup, Operator};
use reads::{BlockingReads, InFlightReads};

use super::shared::{Shared, failed, join_all, spawn};
use super::value;
use crate::Fixture;
use crate::draw::Draw;
use crate::linearizable::{self, Action, Call};
use crate::operation::Step;

const CLIENTS: usize = 4;
const CALLS: usize = 120;
const KEYS: usize = 5;

/// A call and the key that it was about.
type Recorded = (usize, Call);

fn key(index: usize) -> Vec<u8> {
    format!("register{index}").into_bytes()
}

/// One client's state.
struct Client {
    shared: Arc<Shared>,
    clock: Arc<AtomicU64>,
    client: usize,
    draw: Draw,
    serial: u64,
    history: Vec<Recorded>,
}

impl Client {
    /// Returns a number that no other write has.
    fn fresh(&mut self) -> u64 {
        self.serial += 1;
        self.serial * CLIENTS as u64 + self.client as u64
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn note(&mut self, key: usize, invoked: u64, returned: u64, action: Action) {
        let call = Call { client: self.client, invoked, returned: Some(returned), action };
        self.history.push((key, call));
    }

    fn step(&mut self) -> Result<(), String> {
        let index = self.draw.below(KEYS);
        match self.draw.weighted(&[16, 10, 4, 6, 8, 4, 4, 6, 1]) {
            0 => self.read(index),
            1 => {
                let number = self.fresh();
                self.write(&[(index, Some(number))])
            }
            2 => self.write(&[(index, None)]),
            3 => {
                let numbers = [self.fresh(), self.fresh()];
                let other = (index + 1) % KEYS;
                self.write(&[(index, Some(numbers[0])), (other, Some(numbers[1]))])
            }
            4 => self.rmw(index),
            5 => self.read_all(),
            6 => self.read_pending(),
            7 => self.rmw_pending(),
            _ => self.shared.push_out(),
        }
    }

    fn read(&mut self, index: usize) -> Result<(), String> {
        let invoked = self.now();
        let seen = self.shared.get(&key(index))?;
        let returned = self.now();
        let seen = seen.as_deref().map(value::decode).transpose()?;
        self.note(index, invoked, returned, Action::Read(seen));
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), String> {
        let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut seen = vec![None; KEYS];
        let invoked = self.now();
        let read = self.shared.opened.engine.multi_get(&keys, &mut |index, found| {
            seen[index] = found.map(<[u8]>::to_vec);
        });
        let returned = self.now();
        read.map_err(|error| error.to_string())?;
        for (index, seen) in seen.iter().enumerate() {
            let seen = seen.as_deref().map(value::decode).transpose()?;
            self.note(index, invoked, returned, Action::Read(seen));
        }
        Ok(())
    }

    /// Reads all registers, so that some lookups may be pending at the same time.
    fn read_pending(&mut self) -> Result<(), String> {
        let engine = Arc::clone(&self.shared.opened.engine);
        let mut reads = InFlightReads::new(KEYS, self.shared.reads.budget());
        let mut pending = [0; KEYS];
        let mut into = Vec::new();
        for (index, invoked) in pending.iter_mut().enumerate() {
            *invoked = self.now();
            let seen = match engine.lookup(&key(index), At::Newest, &mut into).map_err(failed)? {
                Lookup::Found => Some(value::decode(&into)?),
                Lookup::Absent => None,
                Lookup::Pending(lookup) => {
                    if reads.start(lookup, index).is_err() {
                        return Err("a table is full before its depth".to_owned());
                    }
                    continue;
                }
            };
            let returned = self.now();
            self.note(index, *invoked, returned, Action::Read(seen));
        }
        let mut found = Vec::new();
        while !reads.is_empty() {
            let count = reads.complete(true, &mut |index, done| {
                found.push((index, done.value.map(|value| value.map(|value| value.clone()))));
            });
            if count == 0 {
                return Err("a table waits, and reports nothing".to_owned());
            }
        }
        let returned = self.now();
        for (index, found) in found {
            let seen = found.map_err(failed)?.as_deref().map(value::decode).transpose()?;
            self.note(index, pending[index], returned, Action::Read(seen));
        }
        Ok(())
    }

    fn write(&mut self, writes: &[(usize, Option<u64>)]) -> Result<(), String> {
        let deletes_ranges = self.shared.opened.engine.capabilities().deletes_ranges;
        let step = |(index, number): &(usize, Option<u64>)| match number {
            Some(number) => Step::Put { key: key(*index), value: value::encode(*number) },
            None if deletes_ranges && index % 2 == 1 => {
                let (start, end) = (key(*index), [key(*index).as_slice(), b"\0"].concat());
                Step::DeleteRange { start, end: Some(end) }
            }
            None => Step::Delete { key: key(*index) },
        };
        // No reader may see a step that a later step of the same batch undoes.
        let mut steps = Vec::new();
        if self.draw.below(2) == 0 {
            for (index, number) in writes {
                match number {
                    None => {
                        let hidden = self.fresh();
                        steps.push(step(&(*index, Some(hidden))));
                    }
                    Some(_) => steps.push(step(&(*index, None))),
                }
            }
        }
        steps.extend(writes.iter().map(step));
        let invoked = self.now();
        self.shared.write(steps)?;
        let returned = self.now();
        for (index, number) in writes {
            self.note(*index, invoked, returned, Action::Write(*number));
        }
        Ok(())
    }

    fn rmw(&mut self, index: usize) -> Result<(), String> {
        let number = self.fresh();
        let mut saw = Ok(None);
        let invoked = self.now();
        self.shared.rmw(&key(index), &mut |present: Option<&[u8]>| {
            saw = present.map(value::decode).transpose();
            Change::Put(value::encode(number))
        })?;
        let returned = self.now();
        let action = Action::Rmw { saw: saw?, left: Some(number) };
        self.note(index, invoked, returned, action);
        Ok(())
    }

    /// Updates all registers, so that some lookups may be pending at the same time.
    fn rmw_pending(&mut self) -> Result<(), String> {
        let mut left = [0; KEYS];
        left.fill_with(|| self.fresh());
        let mut saw = [const { Ok(None) }; KEYS];
        let pairs = saw.iter_mut().zip(left);
        let mut changes: Vec<_> = pairs
            .map(|(saw, number)| {
                move |present: Option<&[u8]>| {
                    *saw = present.map(value::decode).transpose();
                    Change::Put(value::encode(number))
                }
            })
            .collect();
        let operators = changes.iter_mut().map(|change| change as &mut dyn Operator);
        let mut updates: Vec<_> = (0..KEYS).map(key).zip(operators).collect();
        let invoked = self.now();
        self.shared.rmw_pending(&mut updates)?;
        let returned = self.now();
        drop(updates);
        drop(changes);
        for (index, (saw, number)) in saw.into_iter().zip(left).enumerate() {
            let action = Action::Rmw { saw: saw?, left: Some(number) };
            self.note(index, invoked, returned, action);
        }
        Ok(())
    }
}

/// One history of the engine, checked.
pub(crate) fn registers(fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
    let shared = Shared::open(fixture, CLIENTS)?;
    let clock = Arc::new(AtomicU64::new(1));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let mut state = Client {
            shared: Arc::clone(&shared),
            clock: Arc::clone(&clock),
            client,
            draw: Draw::new(seed, &format!("client {client}")),
            serial: 0,
            history: Vec::new(),
        };
        clients.push(spawn(&format!("client-{client}"), move || {
            state.shared.start.wait();
            for _ in 0..CALLS {
                state.step()?;
            }
            Ok(state.history)
        })?);
    }
    let beside = Arc::clone(&shared);
    let upkeep = spawn("upkeep", move || beside.upkeep())?;
    let history: Vec<Recorded> =
        join_all(&shared, clients, vec![upkeep])?.into_iter().flatten().collect();
    for index in 0..KEYS {
        let of_key = history.iter().filter(|(key, _)| *key == index);
        let calls: Vec<Call> = of_key.map(|(_, call)| *call).collect();
        linearizable::check(&calls, None).map_err(|stuck| {
            let lines: Vec<String> = stuck.iter().map(Call::to_string).collect();
            format!("no order of calls explains register{index}:\n    {}", lines.join("\n    "))
        })?;
    }
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    shared.reopen_and_compare(fixture, &keys)
}
