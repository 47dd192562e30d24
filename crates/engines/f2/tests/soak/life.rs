//! One process of a voyage: it verifies the store, continues from there, and reports to its parent.

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

/// Name of the variable that makes this program a life, and says of which voyage.
const VARIABLE: &str = "F2_SOAK_LIFE";

/// Figures of the store that a life reports with each flush. A name that ends with an underscore is
/// the sum of all figures whose names begin with it.
const FIGURES: [&str; 6] = [
    "compactions",
    "cold_compactions",
    "chunk_compactions",
    "memory_moves_to_",
    "chunk_digest_hits",
    "read_cache_hits",
];

/// Names of all counts that a life reports with each flush, all of work that ran next to its load.
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
    /// A life reports flushes that it has not done.
    Flushes,
    /// A life that is going to be killed treats each value that it reads as a wrong one.
    Reads,
}

impl Bug {
    const ALL: [Self; 3] = [Self::None, Self::Flushes, Self::Reads];
}

/// The voyage that a life belongs to.
pub(crate) struct Orders {
    pub(crate) path: PathBuf,
    pub(crate) seed: Seed,
    /// Keys of each thread.
    pub(crate) keys: usize,
    pub(crate) bug: Bug,
}

impl Orders {
    /// Returns the orders that this process was started with.
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

    /// Runs until it is killed, or asked to end.
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

    /// Compares the whole content of a store with the script.
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

/// Makes any panic end the process. The threads of a life wait for each other. If one of them found
/// an error and stopped, the others would run until they are killed. Then the parent would take the
/// life for one that was sound until the kill.
fn end_with_the_first_panic(bug: Bug) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if bug == Bug::None {
            told(panic);
        }
        std::process::abort();
    }));
}

/// Writes a line to the parent; the line's end can be seen.
fn tell(what: &str, numbers: &[u64]) {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let line = format!("{what} {} .\n", numbers.join(" "));
    let mut out = std::io::stdout().lock();
    // Writing fails only if the parent itself was stopped.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// The state that all threads of a life share.
struct Life<'a> {
    orders: &'a Orders,
    open: &'a Open,
    done: Done,
    /// Whole copies, copies that were broken off, and new limits of memory.
    chores: [AtomicU64; 3],
    is_over: AtomicBool,
}

impl Life<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Returns a stream that differs in each life.
    fn random(&self, purpose: &str) -> Random {
        let steps: u64 = self.steps().iter().sum();
        self.orders.seed.child(steps).stream(purpose)
    }

    fn steps(&self) -> [u64; THREADS] {
        self.done.steps.each_ref().map(|steps| steps.load(SeqCst))
    }

    /// Waits, but not beyond the end of the life.
    fn pause(&self, length: Duration) {
        let began = Instant::now();
        while began.elapsed() < length && !self.is_over() {
            thread::sleep(Duration::from_millis(2).min(length));
        }
    }

    /// Flushes with pauses of a length that is drawn for the life: in some lives there is nearly
    /// always a flush under way, in others many steps are above the last one.
    fn flush_on(&self) {
        let mut random = self.random("flushes");
        let pause = [0, 0, 20, 300][random.random_range(0..4)];
        while !self.is_over() {
            self.flush(self.orders.bug);
            self.pause(Duration::from_millis(pause));
        }
    }

    /// Flushes, and reports the steps that were done before.
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

    /// Makes copies of the store, and changes the limit of its memory, while it runs.
    fn do_chores(&self) {
        let mut random = self.random("chores");
        let copy = self.orders.path.join("copy");
        let mut next_copy = Instant::now();
        // In some lives memory moves for a while before its limit changes.
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
            // A life before this one may have been killed during a copy.
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
        // A store whose memory is fixed at its opening has no needs.
        let Some(memory) = store.memory() else { return };
        let needs = memory.needs();
        let most = needs.most_bytes.min(2 * LIMIT);
        let limit = random.random_range(needs.least_bytes.min(most)..=most);
        memory.resize(limit).unwrap();
        self.chores[2].fetch_add(1, SeqCst);
    }

    /// Copies the store. Verifies that the copy has the steps that were done before it began, and
    /// no step that was not done.
    fn copy(&self, path: &Path) {
        let before = self.steps();
        let device = device::open(path, device::Options::default()).unwrap();
        self.open.store.checkpoint(device, &engine::go_on).unwrap();
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
        match self.open.store.checkpoint(device, &go_on) {
            // The copy asked less often than that.
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
