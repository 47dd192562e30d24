//! One process of a voyage: it verifies what it finds, goes on from there, and tells its parent.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Engine, Error};
use environment::{Random, Seed};
use rand::RngExt;

use crate::load::{Done, Load};
use crate::open::{LIMIT, Open, UnderWay};
use crate::script::{State, Step, THREADS};

/// Tells this program to be a life, and of what.
const VARIABLE: &str = "F2_SOAK_LIFE";

/// Figures of the store that a life tells with each flush; what ends with a dash is the sum of all that
/// begin so.
const FIGURES: [&str; 6] = [
    "compactions",
    "cold_compactions",
    "chunk_compactions",
    "memory_moves_to_",
    "chunk_digest_hits",
    "read_cache_hits",
];

/// Everything that a life tells so, all of which was beside its load.
pub(crate) const TOLD: [&str; FIGURES.len() + 6] = [
    FIGURES[0],
    FIGURES[1],
    FIGURES[2],
    FIGURES[3],
    FIGURES[4],
    FIGURES[5],
    "walks",
    "gets that were pending",
    "updates that were pending",
    "copies",
    "copies broken off",
    "limits of memory",
];

/// A bug that a voyage has, so that it must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// A life tells of flushes that are none.
    Flushes,
    /// A life that is going to be killed takes what it reads for something else.
    Reads,
}

impl Bug {
    const ALL: [Self; 3] = [Self::None, Self::Flushes, Self::Reads];
}

/// Which voyage a life belongs to.
pub(crate) struct Orders {
    pub(crate) path: PathBuf,
    pub(crate) seed: Seed,
    /// Of each thread.
    pub(crate) keys: usize,
    pub(crate) bug: Bug,
}

impl Orders {
    /// Those that this process was begun with.
    pub(crate) fn given() -> Option<Self> {
        let orders = std::env::var(VARIABLE).ok()?;
        let fields: Vec<&str> = orders.splitn(4, ' ').collect();
        let [seed, keys, bug, path] = fields[..] else { panic!("four fields: {orders:?}") };
        let seed = Seed::from(seed.parse::<u64>().unwrap());
        let bug = Bug::ALL[bug.parse::<usize>().unwrap()];
        Some(Self { path: path.into(), seed, keys: keys.parse().unwrap(), bug })
    }

    pub(crate) fn spawn(&self) -> Child {
        let path = self.path.to_str().expect("a temporary path is UTF-8");
        let orders = format!("{} {} {} {path}", self.seed.get(), self.keys, self.bug as usize);
        crate::this_program().env(VARIABLE, orders).spawn().unwrap()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Until it is killed, or told to end.
    pub(crate) fn live(&self) {
        end_with_the_first_panic(self.bug);
        let open = Open::new(&self.store(), self.seed);
        let recovered = open.recovered();
        let found = self.verify(&open, &recovered);
        tell("recovered", &recovered);
        let life = Life {
            orders: self,
            open: &open,
            done: Done { steps: recovered.map(AtomicU64::new), ..Done::default() },
            chores: Default::default(),
            is_over: AtomicBool::new(false),
        };
        let life = &life;
        thread::scope(|scope| {
            for (state, under_way) in found {
                let misreads = self.bug == Bug::Reads;
                let (open, seed, done) = (&open, self.seed, &life.done);
                let mut load = Load { open, seed, state, done, misreads };
                scope.spawn(move || load.work(under_way, &life.is_over));
            }
            scope.spawn(|| {
                // A byte, or the end of the parent.
                let _ = std::io::stdin().read(&mut [0]);
                life.is_over.store(true, SeqCst);
            });
            scope.spawn(|| life.do_chores());
            life.flush_on();
        });
        life.flush(Bug::None);
        open.store.close().unwrap();
    }

    /// Compares all that is in a store with the script.
    fn verify(&self, open: &Open, recovered: &[u64; THREADS]) -> Vec<(State, UnderWay)> {
        let verified = (0..THREADS).map(|thread| {
            let steps = recovered[thread];
            let mut state = State::after(self.seed, thread, steps, self.keys);
            let next = Step::of(self.seed, thread, steps + 1, self.keys);
            let under_way = open.verify(&mut state, &next);
            open.verify_by_walk(&state, None);
            (state, under_way)
        });
        verified.collect()
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

/// What all threads of a life share.
struct Life<'a> {
    orders: &'a Orders,
    open: &'a Open,
    done: Done,
    /// Copies, those broken off, and limits that the memory was given.
    chores: [AtomicU64; 3],
    is_over: AtomicBool,
}

impl Life<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// A stream that is another one in each life.
    fn random(&self, purpose: &str) -> Random {
        let steps: u64 = self.steps().iter().sum();
        self.orders.seed.child(steps).stream(purpose)
    }

    fn steps(&self) -> [u64; THREADS] {
        self.done.steps.each_ref().map(|steps| steps.load(SeqCst))
    }

    /// Waits, but not beyond the end.
    fn pause(&self, length: Duration) {
        let began = Instant::now();
        while began.elapsed() < length && !self.is_over() {
            thread::sleep(Duration::from_millis(2).min(length));
        }
    }

    /// Flushes with pauses of a length that is drawn for the life: in some there is nearly always a
    /// flush under way, in others much is above the last one.
    fn flush_on(&self) {
        let mut random = self.random("flushes");
        let pause = [0, 0, 20, 300][random.random_range(0..4)];
        while !self.is_over() {
            self.flush(self.orders.bug);
            self.pause(Duration::from_millis(pause));
        }
    }

    /// Flushes, and tells what was done before.
    fn flush(&self, bug: Bug) {
        let mut told = self.steps().to_vec();
        if bug != Bug::Flushes {
            self.open.store.flush().unwrap();
        }
        let stats = self.open.store.stats();
        told.extend(FIGURES.map(|name| {
            let is_meant = |known: &str| match name.ends_with('_') {
                true => known.starts_with(name),
                false => known == name,
            };
            let meant = stats.detail.iter().filter(|(known, _)| is_meant(known));
            meant.map(|(_, figure)| figure).sum::<u64>()
        }));
        let Done { walks, pending_gets, pending_updates, .. } = &self.done;
        told.extend([walks, pending_gets, pending_updates].map(|count| count.load(SeqCst)));
        told.extend(self.chores.each_ref().map(|count| count.load(SeqCst)));
        tell("flushed", &told);
    }

    /// Copies of the store, and other limits of its memory, while it runs.
    fn do_chores(&self) {
        let mut random = self.random("chores");
        let copy = self.orders.path.join("copy");
        let mut next_copy = Instant::now();
        // In some lives memory moves for a while before there is more or less of it.
        let one_of = [1, 10, 100][random.random_range(0..3)];
        while !self.is_over() {
            self.pause(Duration::from_millis(random.random_range(5..200)));
            if random.random_ratio(1, one_of) {
                self.resize(&mut random);
            }
            if Instant::now() < next_copy {
                continue;
            }
            let began = Instant::now();
            let whole = random.random_ratio(1, 2);
            // A life before this one may have been killed at it.
            let _ = std::fs::remove_dir_all(&copy);
            if whole {
                self.copy(&copy)
            } else {
                self.break_copy_off(&copy, &mut random)
            }
            next_copy = Instant::now() + began.elapsed() * 4;
        }
    }

    fn resize(&self, random: &mut Random) {
        let store = &self.open.store;
        // Where memory is as it was opened with, there are none.
        let Some(needs) = store.memory_needs() else { return };
        let most = needs.most_bytes.min(2 * LIMIT);
        let limit = random.random_range(needs.least_bytes.min(most)..=most);
        store.resize_memory(limit).unwrap();
        self.chores[2].fetch_add(1, SeqCst);
    }

    /// Copies the store, and verifies that the copy has what was done before it began, and nothing
    /// that was not.
    fn copy(&self, path: &Path) {
        let before = self.steps();
        let device = device::open(path, device::Options::default()).unwrap();
        self.open.store.checkpoint(device).unwrap();
        let after = self.steps();
        let copy = Open::new(path, self.orders.seed);
        let recovered = copy.recovered();
        for thread in 0..THREADS {
            let is_there = (before[thread]..=after[thread] + 1).contains(&recovered[thread]);
            assert!(is_there, "a copy made at {before:?} to {after:?} has {recovered:?}");
        }
        self.orders.verify(&copy, &recovered);
        copy.store.close().unwrap();
        self.chores[0].fetch_add(1, SeqCst);
    }

    fn break_copy_off(&self, path: &Path, random: &mut Random) {
        let device = device::open(path, device::Options::default()).unwrap();
        let asked = AtomicU64::new(0);
        let last = random.random_range(0..4);
        let go_on = || match asked.fetch_add(1, SeqCst) < last {
            true => Ok(()),
            false => Err(Error::Closed),
        };
        match self.open.store.checkpoint_while(device, &go_on) {
            // It asked more seldom than that.
            Ok(()) => {}
            Err(Error::Closed) => _ = self.chores[1].fetch_add(1, SeqCst),
            Err(error) => panic!("a copy that is broken off: {error}"),
        }
    }
}

/// Checks a store offline.
pub(crate) fn check(path: &Path) {
    let device = device::open(path, device::Options::default()).unwrap();
    let report = thermocline_f2::check(&device).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}
