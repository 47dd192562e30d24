//! The work of one thread of a life, through every call that there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use conformance::session::{Completed, Get, Session, Ticket, Until, Update};
use engine::{At, Change, Engine, Lookup, Op, Operator};
use environment::Seed;
use memory_budget::MemoryBudget;
use reads::InFlightReads;

use crate::open::{Open, UnderWay};
use crate::script::{State, Step, THREADS, Value, Way, counter, key, note};

/// Operations that may be pending on a session; a step can have more.
const DEPTH: usize = 8;
/// Walks take at most one part in this number of a thread's time.
const WALK_SHARE: u32 = 8;

/// The work that all threads of a life have done.
#[derive(Default)]
pub(crate) struct Done {
    /// Steps of each thread that were done wholly.
    pub(crate) steps: [AtomicU64; THREADS],
    pub(crate) walks: AtomicU64,
    pub(crate) pending_gets: AtomicU64,
    pub(crate) pending_updates: AtomicU64,
}

/// Counts in a thread's place in a counter.
struct CountUp(usize);

impl CountUp {
    fn count(&self, value: &mut [u8]) {
        let place = &mut value[8 * self.0..8 * self.0 + 8];
        let count = u64::from_le_bytes(place.try_into().unwrap()) + 1;
        place.copy_from_slice(&count.to_le_bytes());
    }
}

impl Operator for CountUp {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.count(value);
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let mut value = value.map_or_else(|| vec![0; 8 * THREADS], <[u8]>::to_vec);
        self.count(&mut value);
        Change::Put(value)
    }
}

pub(crate) struct Load<'a> {
    pub(crate) open: &'a Open,
    pub(crate) seed: Seed,
    pub(crate) state: State,
    pub(crate) done: &'a Done,
    /// The thread treats each value that it reads as a wrong one.
    pub(crate) misreads: bool,
}

impl<'a> Load<'a> {
    fn thread(&self) -> usize {
        self.state.thread
    }

    /// Does step by step until the life is over, and completes the step that is under way first.
    pub(crate) fn work(&mut self, mut under_way: UnderWay, is_over: &AtomicBool) {
        let thread = self.thread();
        let mut session = self.session();
        let mut next_walk = Instant::now();
        while !is_over.load(SeqCst) {
            let number = self.done.steps[thread].load(SeqCst) + 1;
            let mut step = Step::of(self.seed, thread, number, self.state.keys.len());
            step.counters.retain(|counter| !under_way.counted.contains(counter));
            step.writes.retain(|write| !under_way.written.contains(&write.key));
            under_way = UnderWay::default();
            self.read_and_count(&step, &mut session);
            self.write(&step);
            self.state.advance(&step);
            self.put_note(number);
            self.done.steps[thread].store(number, SeqCst);
            if Instant::now() >= next_walk {
                let began = Instant::now();
                let from = step.reads.first().copied().filter(|_| number.is_multiple_of(4));
                self.open.verify_by_walk(&self.state, from);
                self.done.walks.fetch_add(1, SeqCst);
                let pause = began.elapsed() * WALK_SHARE + Duration::from_millis(20);
                next_walk = Instant::now() + pause;
            }
        }
    }

    fn session(&self) -> Session<'a> {
        self.open.session(DEPTH)
    }

    fn compare(&self, number: usize, found: Option<&[u8]>) {
        let wanted = self.state.value(number);
        let is_right = found == wanted.as_deref() && !self.misreads;
        assert!(is_right, "thread {}, key {number}: {found:?}, not {wanted:?}", self.thread());
    }

    /// Reads the keys that the step reads, and counts.
    fn read_and_count(&self, step: &Step, session: &mut Session<'a>) {
        match step.way {
            Way::Session => {
                let rest: Vec<usize> = step.counters.clone();
                self.by_session(&step.reads, rest, session, false);
                return;
            }
            Way::BrokenSession => {
                let rest = self.by_session(&step.reads, step.counters.clone(), session, true);
                // Operations that were pending have not been done.
                *session = self.session();
                self.by_session(&step.reads, rest, session, false);
                return;
            }
            Way::InFlight => self.read_in_flight(&step.reads),
            Way::Batches => {
                let names: Vec<Vec<u8>> = self.names(&step.reads);
                let found = self.open.multi_get(&names);
                for (number, value) in step.reads.iter().zip(found) {
                    self.compare(*number, value.as_deref());
                }
            }
            Way::Calls => {
                for number in &step.reads {
                    let found = self.open.get(&key(self.thread(), *number));
                    self.compare(*number, found.as_deref());
                }
            }
        }
        for number in &step.counters {
            let name = counter(*number);
            self.open.rmw(&name, &mut CountUp(self.thread()));
        }
    }

    fn names(&self, keys: &[usize]) -> Vec<Vec<u8>> {
        keys.iter().map(|number| key(self.thread(), *number)).collect()
    }

    /// Gets and counts with operations pending at the same time. Returns the counters that were
    /// left pending; there are none unless `leaves` is true.
    fn by_session(
        &self,
        reads: &[usize],
        counters: Vec<usize>,
        session: &mut Session<'a>,
        leaves: bool,
    ) -> Vec<usize> {
        let mut gets: BTreeMap<Ticket, usize> = BTreeMap::new();
        let mut updates: BTreeMap<Ticket, usize> = BTreeMap::new();
        let mut value = Vec::new();
        for number in reads {
            loop {
                match session.get(&key(self.thread(), *number), &mut value).unwrap() {
                    Get::Found => self.compare(*number, Some(&value)),
                    Get::Absent => self.compare(*number, None),
                    Get::Pending(ticket) => _ = gets.insert(ticket, *number),
                    Get::Full => {
                        self.complete(session, Until::One, &mut gets, &mut updates);
                        continue;
                    }
                }
                break;
            }
        }
        for number in counters {
            let mut count_up: Box<dyn Operator + Send> = Box::new(CountUp(self.thread()));
            loop {
                match session.rmw(&counter(number), count_up).unwrap() {
                    Update::Done => {}
                    Update::Pending(ticket) => _ = updates.insert(ticket, number),
                    Update::Full(back) => {
                        self.complete(session, Until::One, &mut gets, &mut updates);
                        count_up = back;
                        continue;
                    }
                }
                break;
            }
        }
        let wait = if leaves { Until::Now } else { Until::All };
        self.complete(session, wait, &mut gets, &mut updates);
        assert!(leaves || (gets.is_empty() && updates.is_empty()), "never told of");
        updates.into_values().collect()
    }

    fn complete(
        &self,
        session: &mut Session<'a>,
        wait: Until,
        gets: &mut BTreeMap<Ticket, usize>,
        updates: &mut BTreeMap<Ticket, usize>,
    ) {
        let mut told =
            |ticket: Ticket, outcome: engine::Result<Completed<'_>>| match outcome.unwrap() {
                Completed::Value(value) => {
                    let number = gets.remove(&ticket).expect("the ticket of a get, told once");
                    self.compare(number, value);
                    self.done.pending_gets.fetch_add(1, SeqCst);
                }
                Completed::Updated => {
                    updates.remove(&ticket).expect("the ticket of an update, told once");
                    self.done.pending_updates.fetch_add(1, SeqCst);
                }
            };
        session.complete_pending(wait, &mut told);
    }

    fn read_in_flight(&self, keys: &[usize]) {
        let budget = Arc::new(MemoryBudget::new(u64::MAX));
        let mut reads: InFlightReads<usize> = InFlightReads::new(DEPTH, &budget);
        let mut value = Vec::new();
        let complete = |reads: &mut InFlightReads<usize>| {
            reads.complete(true, &mut |number, done| {
                let value = done.value.unwrap();
                self.compare(number, value.map(|value| value.as_slice()));
                self.done.pending_gets.fetch_add(1, SeqCst);
            });
        };
        for number in keys {
            let name = key(self.thread(), *number);
            loop {
                match self.open.store.lookup(&name, At::Newest, &mut value).unwrap() {
                    Lookup::Found => self.compare(*number, Some(&value)),
                    Lookup::Absent => self.compare(*number, None),
                    Lookup::Pending(lookup) => {
                        if reads.start(lookup, *number).is_err() {
                            complete(&mut reads);
                            continue;
                        }
                    }
                }
                break;
            }
        }
        while !reads.is_empty() {
            complete(&mut reads);
        }
    }

    fn write(&self, step: &Step) {
        let keys: Vec<usize> = step.writes.iter().map(|write| write.key).collect();
        let names = self.names(&keys);
        let values: Vec<Option<Vec<u8>>> =
            step.writes.iter().map(|write| write.value.map(Value::bytes)).collect();
        let ops: Vec<Op<'_>> = names
            .iter()
            .zip(&values)
            .map(|(key, value)| match value {
                Some(value) => Op::Put { key, value },
                None => Op::Delete { key },
            })
            .collect();
        match step.way {
            Way::Batches if !ops.is_empty() => self.open.write(&ops),
            Way::InFlight => {
                for ((number, name), value) in keys.iter().zip(&names).zip(&values) {
                    let mut replace = |old: Option<&[u8]>| {
                        self.compare(*number, old);
                        value.clone().map_or(Change::Delete, Change::Put)
                    };
                    self.open.rmw(name, &mut replace);
                }
            }
            _ => ops.iter().for_each(|op| self.open.write(std::slice::from_ref(op))),
        }
    }

    fn put_note(&self, number: u64) {
        let (name, value) = (note(self.thread()), number.to_le_bytes());
        self.open.write(&[Op::Put { key: &name, value: &value }]);
    }
}
