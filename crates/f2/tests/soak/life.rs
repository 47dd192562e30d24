//! One process of a voyage: it verifies what it finds, goes on from there, and tells its parent.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use engine::{Change, Engine, Host, MemoryBudget, NoJournal, Op, Operator, Sequence};
use environment::{Environment, Seed};
use telemetry::Registry;
use thermocline_f2::{Options, Store};
use workers::Pool;

use crate::script::{COUNTERS, KEYS, State, Step, THREADS, counter, key, note, value};

/// Tells this program to be a life, and of what.
const VARIABLE: &str = "F2_SOAK_LIFE";

/// Figures that a life tells with each flush, of what was beside its load.
pub(crate) const TOLD: [&str; 4] =
    ["compactions", "cold_compactions", "memory_moves_to_read_cache", "chunk_digest_hits"];

/// A bug that a voyage has, so that it must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// A life tells of flushes that are none.
    Flushes,
    /// A life that is going to be killed takes what it reads back for something else.
    Reads,
}

impl Bug {
    const ALL: [Self; 3] = [Self::None, Self::Flushes, Self::Reads];
}

/// Which voyage a life belongs to.
pub(crate) struct Orders {
    pub(crate) path: PathBuf,
    pub(crate) seed: Seed,
    pub(crate) bug: Bug,
}

impl Orders {
    /// Those that this process was begun with.
    pub(crate) fn given() -> Option<Self> {
        let orders = std::env::var(VARIABLE).ok()?;
        let fields: Vec<&str> = orders.splitn(3, ' ').collect();
        let [seed, bug, path] = fields[..] else { panic!("three fields: {orders:?}") };
        let seed = Seed::from(seed.parse::<u64>().unwrap());
        Some(Self { path: path.into(), seed, bug: Bug::ALL[bug.parse::<usize>().unwrap()] })
    }

    pub(crate) fn spawn(&self) -> Child {
        let path = self.path.to_str().expect("a temporary path is UTF-8");
        let orders = format!("{} {} {path}", self.seed.get(), self.bug as usize);
        crate::this_program().env(VARIABLE, orders).spawn().unwrap()
    }

    /// Until it is killed, or told to end.
    pub(crate) fn live(&self) {
        end_with_the_first_panic(self.bug);
        let open = Open::new(self);
        let recovered: Vec<u64> = (0..THREADS).map(|thread| open.recovered(thread)).collect();
        let mut states: Vec<State> =
            (0..THREADS).map(|thread| State::after(self.seed, thread, recovered[thread])).collect();
        let has_counted: Vec<bool> =
            states.iter_mut().map(|state| open.verify(self.seed, state, &recovered)).collect();
        tell("recovered", &recovered);
        let done: Vec<AtomicU64> = recovered.iter().map(|done| AtomicU64::new(*done)).collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for (state, has_counted) in states.into_iter().zip(has_counted) {
                let (open, done, is_over) = (&open, &done, &is_over);
                scope.spawn(move || open.work(self, state, has_counted, done, is_over));
            }
            scope.spawn(|| {
                // A byte, or the end of the parent.
                let _ = std::io::stdin().read(&mut [0]);
                is_over.store(true, SeqCst);
            });
            while !is_over.load(SeqCst) {
                open.flush(&done, self.bug);
            }
        });
        open.flush(&done, Bug::None);
        open.store.close().unwrap();
    }
}

/// The threads of a life wait for each other: one that has found what may not be would leave the others
/// to be killed, and the parent to take that for a life that was well until then.
fn end_with_the_first_panic(bug: Bug) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if bug == Bug::None {
            told(panic);
        }
        std::process::abort();
    }));
}

/// Says it to the parent, in a line whose end can be seen.
fn tell(what: &str, numbers: &[u64]) {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let line = format!("{what} {} .\n", numbers.join(" "));
    let mut out = std::io::stdout().lock();
    // The parent is gone only if it was stopped itself.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Counts in a thread's place of a counter.
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

/// A store with very little memory.
struct Open {
    store: Store,
    sequence: Arc<Sequence>,
    _pool: Pool,
}

impl Open {
    fn new(orders: &Orders) -> Self {
        let environment = Environment::real();
        let telemetry = Registry::default();
        let pool = Pool::start(&environment, 3, &telemetry).unwrap();
        let sequence = Arc::new(Sequence::new());
        // In every other voyage memory moves within a budget, and digests of chunks are made.
        let is_adaptive = orders.seed.get().is_multiple_of(2);
        let limit = if is_adaptive { 2 << 20 } else { u64::MAX };
        let tight = Options {
            segment_bytes: 64 << 10,
            disk_bytes_max: Some(1 << 20),
            cold_disk_bytes_max: Some(3 << 20),
            ..Options::default()
        };
        let host = Host {
            device: device::open(&orders.path, device::Options::default()).unwrap(),
            workers: pool.clone(),
            telemetry,
            environment,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(limit)),
        };
        let options = match is_adaptive {
            true => Options { page_bytes: Some(4096), ..tight },
            false => Options {
                log_memory_bytes: Some(512 << 10),
                read_cache_bytes: Some(128 << 10),
                page_bytes: Some(16 << 10),
                index_bits: Some(4),
                ..tight
            },
        };
        let store = Store::open(host, options).unwrap();
        Self { store, sequence, _pool: pool }
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.store.get(key, &mut value).unwrap().then_some(value)
    }

    fn write(&self, op: &Op<'_>) {
        let ops = std::slice::from_ref(op);
        self.store.admit(ops).unwrap();
        let ticket = self.sequence.begin();
        self.store.apply(ops, ticket.seqno()).unwrap();
    }

    fn recovered(&self, thread: usize) -> u64 {
        self.get(&note(thread)).map_or(0, |note| u64::from_le_bytes(note.try_into().unwrap()))
    }

    fn count(&self, thread: usize, number: u64) -> u64 {
        let value = self.get(&counter(number));
        value.map_or(0, |value| u64::from_le_bytes(value[8 * thread..][..8].try_into().unwrap()))
    }

    /// Compares a thread's share with its state, and says whether the step that was under way has
    /// counted.
    fn verify(&self, seed: Seed, state: &mut State, recovered: &[u64]) -> bool {
        let (thread, next) = (state.thread, recovered[state.thread] + 1);
        let step = Step::of(seed, thread, next);
        let mut has_counted = false;
        for number in 0..COUNTERS {
            let (count, wanted) = (self.count(thread, number), state.counts[number as usize]);
            has_counted |= number == step.counter && count == wanted + 1;
            let is_right = count == wanted || (number == step.counter && count == wanted + 1);
            assert!(is_right, "thread {thread}, counter {number}: {count} instead of {wanted}");
        }
        for number in 0..KEYS {
            let found = self.get(&key(thread, number));
            if found == state.value(number) {
                continue;
            }
            let new = step.words.map(|words| value(next, words));
            let is_under_way = has_counted && number == step.key && found == new;
            assert!(is_under_way, "thread {thread}, key {number}: {found:?}, step {next} is next");
            state.put(&step, next);
        }
        has_counted
    }

    /// Step by step, until it is over.
    fn work(
        &self,
        orders: &Orders,
        mut state: State,
        mut has_counted: bool,
        done: &[AtomicU64],
        is_over: &AtomicBool,
    ) {
        let thread = state.thread;
        while !is_over.load(SeqCst) {
            let number = done[thread].load(SeqCst) + 1;
            let step = Step::of(orders.seed, thread, number);
            if !std::mem::take(&mut has_counted) {
                let ticket = self.sequence.begin();
                let counter = counter(step.counter);
                self.store.rmw(&counter, &mut CountUp(thread), ticket.seqno()).unwrap();
            }
            let name = key(thread, step.key);
            match step.words {
                Some(words) => self.write(&Op::Put { key: &name, value: &value(number, words) }),
                None => self.write(&Op::Delete { key: &name }),
            }
            state.put(&step, number);
            self.write(&Op::Put { key: &note(thread), value: &number.to_le_bytes() });
            done[thread].store(number, SeqCst);
            let found = self.get(&key(thread, step.read));
            let wanted = state.value(step.read);
            let is_right = found == wanted && orders.bug != Bug::Reads;
            assert!(is_right, "thread {thread}, key {}: {found:?}, not {wanted:?}", step.read);
        }
    }

    /// Flushes, and tells what was done before.
    fn flush(&self, done: &[AtomicU64], bug: Bug) {
        let mut found: Vec<u64> = done.iter().map(|done| done.load(SeqCst)).collect();
        if bug != Bug::Flushes {
            self.store.flush().unwrap();
        }
        let stats = self.store.stats();
        let figure = |name| stats.detail.iter().find(|(known, _)| *known == name).unwrap().1;
        found.extend(TOLD.map(figure));
        tell("flushed", &found);
    }
}
