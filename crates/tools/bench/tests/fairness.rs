//! Stores that a fair harness has to notice.
//!
//! Some still work after their load, or have caches that fill slowly. Some take another amount of
//! memory than the budget, or write while they are read. Minutes pass on a simulated clock, which a
//! thread moves.
//!
//! The tests look at the memory of the process, so they run one by one, in a program of their own.

mod small_run;
mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use environment::{Environment, JoinHandle, ManualClock, Monotonic};
use small_run::small_run;
use stores::Maps;
use sync::locks::{Mutex, MutexGuard};
use thermocline_bench::measure::resident_bytes;
use thermocline_bench::memory::Budget;
use thermocline_bench::report::{Mark, Report, run_table};
use thermocline_bench::run::{Config, Progress, RunError, WarmUp, execute, prepare};
use thermocline_bench::stores::{
    Background, Catalog, DeviceCounts, OpenOptions, Pairs, Session, Store, StoreError,
};

const BUDGET: u64 = 256 << 20;
/// For how long a store works after its load, or its cache takes to fill.
const WORK: Duration = Duration::from_secs(200);
const FILL: Duration = Duration::from_secs(60);
/// Bytes a second that a store writes while it works.
const WORK_BYTES_PER_S: f64 = 2e6;
const FILL_BYTES: f64 = (120 << 20) as f64;

/// Keys for which no disk has room.
const KEYS_NOWHERE: u64 = 1 << 40;

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A simulated clock that moves by itself.
struct Moving {
    env: Environment,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _alone: MutexGuard<'static, ()>,
}

impl Moving {
    fn start() -> Self {
        let alone = ALONE.lock();
        let (env, clock): (Environment, Arc<ManualClock>) = Environment::simulated(1);
        let stops = Arc::new(AtomicBool::new(false));
        let (seen, real) = (stops.clone(), Environment::real());
        let thread = env.spawn("clock", move || {
            while !seen.load(Ordering::Relaxed) {
                clock.advance(Duration::from_millis(100));
                real.sleep(Duration::from_micros(500));
            }
        });
        Self { env, stops, thread: Some(thread.expect("a thread")), _alone: alone }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// A behaviour of a store that a harness has to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Writes after its load.
    Writes,
    /// Reports work after its load, and writes nothing.
    Works,
    /// Waits for its work itself, and is at rest when that is done.
    Waits,
    /// Reads less and less.
    FillsReads,
    /// Takes more and more memory.
    FillsMemory,
    /// Holds this many thousandths of the budget.
    Holds(u64),
    /// Writes while it is read.
    WritesUnderReads,
}

const NAMES: [(&str, Habit); 9] = [
    ("writes", Habit::Writes),
    ("works", Habit::Works),
    ("waits", Habit::Waits),
    ("fills-reads", Habit::FillsReads),
    ("fills-memory", Habit::FillsMemory),
    ("twice", Habit::Holds(2000)),
    ("half", Habit::Holds(500)),
    ("all", Habit::Holds(975)),
    ("writes-under-reads", Habit::WritesUnderReads),
];

/// Opens them on a clock.
struct Habits {
    env: Environment,
    opened: AtomicU64,
}

struct Fake {
    inner: Arc<dyn Store>,
    habit: Habit,
    env: Environment,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flushed: Option<Monotonic>,
    first_get: Option<Monotonic>,
    has_waited: bool,
    reads: f64,
    held: Vec<Vec<u8>>,
}

impl Catalog for Habits {
    fn names(&self) -> &'static [&'static str] {
        const ALL: [&str; NAMES.len()] = {
            let mut names = [""; NAMES.len()];
            let mut index = 0;
            while index < names.len() {
                names[index] = NAMES[index].0;
                index += 1;
            }
            names
        };
        &ALL
    }

    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        if options.keys >= KEYS_NOWHERE {
            return Err("was opened without room".into());
        }
        let habit = NAMES.iter().find(|(known, _)| *known == name).ok_or("unknown")?.1;
        let mut state = State::default();
        if let Habit::Holds(thousandths) = habit {
            let wanted = options.memory_bytes / 1000 * thousandths;
            state.held.push(vec![1; wanted.saturating_sub(resident_bytes()) as usize]);
        }
        let inner = Maps.open("map", options)?;
        Ok(Arc::new(Fake { inner, habit, env: self.env.clone(), state: Mutex::new(state) }))
    }
}

impl Fake {
    /// Seconds since `moment`, no more than `most`.
    fn seconds(&self, moment: Option<Monotonic>, most: Duration) -> f64 {
        moment.map_or(0.0, |moment| (self.env.now() - moment).min(most).as_secs_f64())
    }

    fn note_get(&self) {
        let mut state = self.state.lock();
        let first = *state.first_get.get_or_insert_with(|| self.env.now());
        let seconds = self.seconds(Some(first), FILL);
        let full = seconds / FILL.as_secs_f64();
        match self.habit {
            Habit::FillsReads => state.reads += 1.0 - 0.9 * full,
            Habit::FillsMemory => {
                while (state.held.len() as f64) < full * FILL_BYTES / f64::from(1 << 18) {
                    state.held.push(vec![1; 1 << 18]);
                }
            }
            _ => {}
        }
    }
}

impl Store for Fake {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(FakeSession { inner: self.inner.session()?, fake: self }))
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.state.lock().flushed.get_or_insert_with(|| self.env.now());
        self.inner.flush()
    }

    fn device(&self) -> Option<DeviceCounts> {
        let state = self.state.lock();
        let counts = self.inner.device().unwrap_or_default();
        let seconds = match self.habit {
            Habit::Writes => self.seconds(state.flushed, WORK),
            Habit::WritesUnderReads => self.seconds(state.first_get, Duration::MAX),
            _ => 0.0,
        };
        let write_bytes = counts.write_bytes + (seconds * WORK_BYTES_PER_S) as u64;
        Some(DeviceCounts { write_bytes, read_ops: state.reads as u64, ..counts })
    }

    fn finish_background_work(&self) -> Result<(), StoreError> {
        self.state.lock().has_waited = true;
        Ok(())
    }

    fn background(&self) -> Background {
        let state = self.state.lock();
        match self.habit {
            Habit::Writes => Background::Unknown,
            Habit::Works if self.seconds(state.flushed, WORK) < WORK.as_secs_f64() => {
                Background::UnderWay("compactions 3".to_owned())
            }
            Habit::Waits if !state.has_waited => Background::UnderWay("never waited".to_owned()),
            _ => Background::AtRest,
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

struct FakeSession<'a> {
    inner: Box<dyn Session + 'a>,
    fake: &'a Fake,
}

impl Session for FakeSession<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.fake.note_get();
        self.inner.get(key, value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.inner.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.inner.delete(key)
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.inner.rmw(key, new, old)
    }

    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError> {
        self.inner.scan(from, limit, pairs)
    }
}

/// Keeps the lines that a user would read.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn begin(&self, phase: &str, _total: Option<u64>) {
        self.0.lock().push(phase.to_owned());
    }
    fn at(&self, _operations: u64, _ops_per_s: f64) {}
    fn waits(&self, what: &str) {
        self.0.lock().push(what.to_owned());
    }
    fn end(&self) {}
}

impl Heard {
    fn contains(&self, part: &str) -> bool {
        self.0.lock().iter().any(|said| said.contains(part))
    }

    fn count(&self, whole: &str) -> usize {
        self.0.lock().iter().filter(|said| *said == whole).count()
    }
}

fn config(engine: &str, workload: &str) -> Config {
    let by_time = Config { seconds: Some(5.0), ops: None, ..small_run(engine, workload) };
    Config { quiet_seconds: 4.0, ..by_time }
}

fn run(config: &Config) -> (Report, Heard) {
    let moving = Moving::start();
    run_on(&moving, config)
}

fn run_on(moving: &Moving, config: &Config) -> (Report, Heard) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let config = Config { dir: Some(dir.path().to_owned()), ..config.clone() };
    let habits = Habits { env: moving.env.clone(), opened: AtomicU64::new(0) };
    let heard = Heard::default();
    let report = execute(&config, &habits, &moving.env, &heard).expect("a run");
    assert_eq!(report.wrong_read_examples, Vec::<String>::new());
    (report, heard)
}

#[test]
fn a_load_ends_when_the_store_writes_no_more() {
    let (report, heard) = run(&config("writes", "ycsb-c"));
    let rest = report.load.rest_seconds;
    assert!((WORK.as_secs_f64() - 1.0..WORK.as_secs_f64() + 10.0).contains(&rest), "{rest}");
    let written = WORK.as_secs_f64() * WORK_BYTES_PER_S;
    assert!(report.load.device_write_bytes as f64 >= written, "{}", report.load.device_write_bytes);
    assert_eq!((report.device.write_bytes, report.marks.len()), (0, 0), "it was at rest");
    assert!(heard.contains("MB/s written"), "{:?}", heard.0);
}

#[test]
fn a_load_ends_when_the_store_reports_no_more_work() {
    let (report, heard) = run(&config("works", "ycsb-c"));
    let rest = report.load.rest_seconds;
    assert!((WORK.as_secs_f64() - 1.0..WORK.as_secs_f64() + 10.0).contains(&rest), "{rest}");
    assert!(heard.contains("compactions 3"), "{:?}", heard.0);
    let (report, _) = run(&config("waits", "ycsb-c"));
    assert!(report.load.rest_seconds < 5.0, "{}", report.load.rest_seconds);
}

#[test]
fn a_shared_load_ends_when_the_store_is_at_rest() {
    let moving = Moving::start();
    let loads = tempfile::tempdir().expect("a scratch directory");
    let config = Config { loads: Some(loads.path().to_owned()), ..config("writes", "ycsb-c") };
    let habits = Habits { env: moving.env.clone(), opened: AtomicU64::new(0) };
    let begun = moving.env.now();
    assert!(prepare(&config, &habits, &moving.env, &Heard::default()).expect("a load"));
    assert!(moving.env.now() - begun >= WORK);
    let (report, heard) = run_on(&moving, &config);
    assert!(report.load.is_shared && report.load.rest_seconds >= WORK.as_secs_f64() - 1.0);
    assert!(report.load.space_peak_bytes > 0 || report.space_peak_bytes > 0);
    assert_eq!(heard.count("until at rest"), 1, "also a copy is at rest when its run begins");
}

#[test]
fn the_measured_load_counts_what_the_store_does_until_it_is_at_rest() {
    let config = Config { seconds: None, ..config("writes", "load") };
    let (report, _) = run(&config);
    let written = WORK.as_secs_f64() * WORK_BYTES_PER_S;
    assert!(report.device.write_bytes as f64 >= written, "{}", report.device.write_bytes);
    assert!(report.seconds < WORK.as_secs_f64(), "the time of the load itself");
}

#[test]
fn a_warm_up_ends_when_the_cache_is_full() {
    for store in ["fills-reads", "fills-memory"] {
        let warm_up = WarmUp::UntilSteady { seconds_max: 900.0 };
        let (report, heard) = run(&Config { warm_up, ..config(store, "ycsb-c") });
        assert_eq!(report.warmup_is_steady, Some(true), "{store}");
        let seconds = report.warmup_seconds;
        assert!(seconds > FILL.as_secs_f64(), "{store}: {seconds}");
        assert!(seconds < 900.0, "{store}: {seconds}");
        assert!(heard.contains("resident set changed by"), "{:?}", heard.0);
        assert!(run_table(&report).contains("until the caches were steady"));
    }
}

#[test]
fn a_warm_up_that_finds_no_end_ends_at_its_limit_and_the_report_says_so() {
    let warm_up = WarmUp::UntilSteady { seconds_max: 25.0 };
    let (report, _) = run(&Config { warm_up, ..config("fills-memory", "ycsb-c") });
    assert_eq!(report.warmup_is_steady, Some(false));
    assert_eq!(report.warmup_limit_seconds, Some(25.0));
    // Both ends are sums of many steps in floating point, so the time may be just less.
    assert!(report.warmup_seconds > 24.99, "{}", report.warmup_seconds);
    assert!(run_table(&report).contains("not steady at its limit of 25 s"));
}

#[test]
fn a_store_that_takes_another_amount_of_memory_than_the_budget_is_marked() {
    for (store, is_off) in [("twice", true), ("half", true), ("all", false)] {
        let memory = Budget::Bytes(BUDGET);
        let (report, _) = run(&Config { memory, ..config(store, "ycsb-c") });
        let off = matches!(report.marks.as_slice(), [Mark::OffBudget { .. }]);
        assert_eq!(off, is_off, "{store}: {:?}, {}", report.marks, report.rss_peak_bytes);
        assert_eq!(report.is_quotable(), !is_off);
        let table = run_table(&report);
        assert_eq!(table.contains("NOT TO BE QUOTED"), is_off, "{table}");
        assert!(table.contains("% of the budget"), "{table}");
    }
    let (report, _) = run(&config("half", "ycsb-c"));
    assert!(report.marks.is_empty(), "a budget in which everything fits need not be filled");
}

#[test]
fn a_read_only_row_in_which_the_store_wrote_is_marked() {
    let (report, _) = run(&config("writes-under-reads", "ycsb-c"));
    let [Mark::WroteUnderReads { bytes_per_s }] = report.marks.as_slice() else {
        panic!("{:?}", report.marks);
    };
    assert!((1e6..4e6).contains(bytes_per_s), "{bytes_per_s}");
    assert!(run_table(&report).contains("under a read-only workload"));
    let (report, _) = run(&config("writes-under-reads", "ycsb-b"));
    assert!(report.marks.is_empty(), "it also updates");
}

#[test]
fn ageing_updates_as_many_keys_as_there_are_in_each_phase() {
    let plain = run(&config("waits", "ycsb-c")).0;
    let (report, heard) = run(&Config { aged: 3, ..config("waits", "ycsb-c") });
    assert_eq!((report.aged, heard.count("ageing 3"), heard.count("ageing 4")), (3, 1, 0));
    assert_eq!(report.load.user_write_bytes, plain.load.user_write_bytes);
    assert_eq!(heard.count("until at rest"), 2, "after the load and after the ageing");
    assert!(run_table(&report).contains("3 phases of 2000 updates"));
}

#[test]
fn a_disk_without_room_is_refused_before_the_load() {
    let moving = Moving::start();
    let habits = Habits { env: moving.env.clone(), opened: AtomicU64::new(0) };
    let dir = tempfile::tempdir().expect("a scratch directory");
    let loads = dir.path().join("loads");
    let config = Config {
        keys: KEYS_NOWHERE,
        dir: Some(dir.path().join("data")),
        loads: Some(loads.clone()),
        ..config("waits", "ycsb-c")
    };
    let heard = Heard::default();
    let run = execute(&config, &habits, &moving.env, &heard).map(drop);
    let load = prepare(&config, &habits, &moving.env, &heard).map(drop);
    for refused in [run, load] {
        let error = refused.expect_err("more than any disk has");
        let RunError::NoRoom { needed, free, .. } = &error else { panic!("{error}") };
        assert!(*needed == 2 * 52 * KEYS_NOWHERE && needed > free);
        assert!(error.to_string().contains(&format!("needs {needed} bytes")), "{error}");
    }
    assert_eq!(habits.opened.load(Ordering::Relaxed), 0);
    assert_eq!(loads.read_dir().expect("a directory").count(), 0);
    assert_eq!(dir.path().join("data").read_dir().expect("a directory").count(), 0);
    assert!(heard.0.lock().is_empty(), "no phase began");
}

#[test]
fn the_space_at_its_peak_is_sampled() {
    let (report, _) = run(&config("waits", "ycsb-c"));
    assert!(report.space_peak_bytes >= report.space_bytes);
}
