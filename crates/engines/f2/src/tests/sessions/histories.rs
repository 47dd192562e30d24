//! Recorded histories of sessions with operations pending are linearizable, key by key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use conformance::linearizable::{Action, Call, check};
use conformance::session::{Completed, Get, Session, Ticket, Until, Update};
use engine::{Change, Engine};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::super::stores::{Bench, key, value};
use super::super::two_logs::small_cold;
use super::uncached;
use crate::Options;

const CLIENTS: usize = 3;
/// Calls of a client, at least and at most: it continues until all of [`BESIDE`] has happened.
const CALLS: u64 = 500;
const CALLS_MAX: u64 = 5_000;
/// Events that have to happen during the calls, with their least numbers.
const BESIDE: [(&str, u64); 3] = [("compactions", 10), ("cold_compactions", 2), ("checkpoint", 10)];
const REGISTERS: u64 = 25;
/// Written along with every few calls: together the clients fill memory about every fifty calls.
const FILLERS: u64 = 20;

/// The value that a read-modify-write saw and left, as of the operator's last call.
type Witness = Arc<Mutex<Option<u64>>>;

/// A call under way.
struct Open {
    register: u64,
    invoked: u64,
    update: Option<(u64, Witness)>,
}

struct Client<'a> {
    session: Session<'a>,
    clock: &'a AtomicU64,
    client: usize,
    serial: u64,
    open: HashMap<Ticket, Open>,
    history: Vec<(u64, Call)>,
    pended: u64,
}

/// The number that a register holds; it is padded to two words.
fn decode(bytes: Option<&[u8]>) -> Option<u64> {
    let word = bytes?.first_chunk::<8>().expect("a register has two words");
    Some(u64::from_le_bytes(*word))
}

fn encode(number: u64) -> Vec<u8> {
    [number.to_le_bytes(), [7; 8]].concat()
}

impl Client<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn fresh(&mut self) -> u64 {
        self.serial += 1;
        self.serial * CLIENTS as u64 + self.client as u64
    }

    fn note(&mut self, open: &Open, action: Action) {
        let call =
            Call { client: self.client, invoked: open.invoked, returned: Some(self.now()), action };
        self.history.push((open.register, call));
    }

    fn note_update(&mut self, open: &Open) {
        let Some((left, witness)) = &open.update else { panic!("a get was updated") };
        let saw = *witness.lock().expect("nobody panicked");
        self.note(open, Action::Rmw { saw, left: Some(*left) });
    }

    fn step(&mut self, draw: &mut SmallRng) {
        let open =
            Open { register: draw.random_range(0..REGISTERS), invoked: self.now(), update: None };
        let name = key(open.register);
        match draw.random_range(0..10) {
            0 => {
                let number = self.fresh();
                self.session.put(&name, &encode(number)).expect("the put is taken");
                self.note(&open, Action::Write(Some(number)));
            }
            1 => {
                self.session.delete(&name).expect("the delete is taken");
                self.note(&open, Action::Write(None));
            }
            2..=4 => self.update(open, &name),
            _ => self.read(open, &name),
        }
    }

    fn read(&mut self, open: Open, name: &[u8]) {
        let mut into = Vec::new();
        loop {
            match self.session.get(name, &mut into).expect("the get begins") {
                Get::Found => return self.note(&open, Action::Read(decode(Some(&into)))),
                Get::Absent => return self.note(&open, Action::Read(None)),
                Get::Pending(ticket) => return self.pend(ticket, open),
                Get::Full => self.complete(Until::One),
            }
        }
    }

    fn update(&mut self, open: Open, name: &[u8]) {
        let left = self.fresh();
        let witness = Witness::default();
        let open = Open { update: Some((left, Arc::clone(&witness))), ..open };
        loop {
            let saw = Arc::clone(&witness);
            let operator = move |old: Option<&[u8]>| {
                *saw.lock().expect("nobody panicked") = decode(old);
                Change::Put(encode(left))
            };
            match self.session.rmw(name, Box::new(operator)).expect("it begins") {
                Update::Done => return self.note_update(&open),
                Update::Pending(ticket) => return self.pend(ticket, open),
                Update::Full(_) => self.complete(Until::One),
            }
        }
    }

    fn pend(&mut self, ticket: Ticket, open: Open) {
        self.pended += 1;
        assert!(self.open.insert(ticket, open).is_none());
    }

    fn complete(&mut self, wait: Until) {
        let mut told = Vec::new();
        let completed = self.session.complete_pending(wait, &mut |ticket, outcome| {
            told.push((
                ticket,
                match outcome.expect("nothing fails") {
                    Completed::Value(value) => Some(decode(value)),
                    Completed::Updated => None,
                },
            ));
        });
        assert_eq!(completed, told.len());
        for (ticket, outcome) in told {
            let open = self.open.remove(&ticket).expect("a ticket is told once");
            match outcome {
                Some(seen) => self.note(&open, Action::Read(seen)),
                None => self.note_update(&open),
            }
        }
    }
}

/// Writes records that no client reads, so that the registers leave memory, and become cold again
/// and again.
fn push(bench: &Bench, round: u64) {
    for number in 0..FILLERS {
        let round = FILLERS * round + number;
        bench.put(format!("filler-{}", round % 500).as_bytes(), &value(round, 0, 8));
    }
}

fn history(seed: u64) -> u64 {
    println!("seed {seed}");
    let is_cached = seed.is_multiple_of(2);
    let options = if is_cached { small_cold() } else { uncached() };
    // Each of the flushes takes a block of the hot log at least: clients are not to wait for that.
    let (disk_bytes_max, cold_disk_bytes_max) = (Some(256 << 10), Some(48 << 10));
    let bench = Bench::open(Options { disk_bytes_max, cold_disk_bytes_max, ..options });
    let clock = AtomicU64::new(1);
    let mut all = Vec::new();
    let mut pended = 0;
    let happened = || BESIDE.iter().all(|(name, least)| bench.figure(name) >= *least);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                bench.store.flush().expect("flushes");
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (bench, clock, happened) = (&bench, &clock, &happened);
                scope.spawn(move || {
                    let mut draw = SmallRng::seed_from_u64(seed * 100 + client as u64);
                    let session = bench.session(6);
                    let mut state = Client {
                        session,
                        clock,
                        client,
                        serial: 0,
                        open: HashMap::new(),
                        history: Vec::new(),
                        pended: 0,
                    };
                    for call in 0.. {
                        if call >= CALLS && happened() {
                            break;
                        }
                        if call < CALLS_MAX {
                            state.step(&mut draw);
                        }
                        if draw.random_range(0..4) == 0 {
                            push(bench, call);
                        }
                        match draw.random_range(0..8) {
                            0 => state.complete(Until::Now),
                            1 => state.complete(Until::One),
                            _ => {}
                        }
                    }
                    state.complete(Until::All);
                    assert!(state.open.is_empty(), "every ticket is told");
                    (state.history, state.pended)
                })
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, SeqCst);
        for client in ended {
            let (history, pending) = client.expect("a client ends");
            all.extend(history);
            pended += pending;
        }
    });
    println!("{} calls", all.len());
    for (name, least) in BESIDE {
        let figure = bench.figure(name);
        assert!(figure >= least, "{figure} {name} beside the calls");
    }
    for register in 0..REGISTERS {
        let of_key = all.iter().filter(|(of, _)| *of == register);
        let calls: Vec<Call> = of_key.map(|(_, call)| *call).collect();
        if let Err(stuck) = check(&calls, None) {
            let lines: Vec<String> = stuck.iter().map(Call::to_string).collect();
            panic!("no order of calls explains register {register}:\n{}", lines.join("\n"));
        }
    }
    pended
}

#[test]
fn histories_with_pending_operations_are_linearizable() {
    let pended: u64 = (0..4).map(history).sum();
    println!("{pended} calls were pending");
    assert!(pended > CALLS, "{pended} calls were pending");
}
