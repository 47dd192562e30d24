//! What a store really takes of memory: the peak of the process's resident set, as the system counts
//! it, less what was resident before the store was opened. Several times its budget goes through it, by
//! several threads, with an old snapshot held, and by gets and scans.
//!
//! Each case is a process of its own, so that nothing else is in its resident set.

use std::ops::ControlFlow;
use std::process::Command;
use std::sync::Arc;

use device::Device;
use engine::{Engine, Host, MemoryBudget, NoJournal, Op, Sequence};
use environment::Environment;
use telemetry::Registry;
use thermocline_flexdb::{Options, Store};
use workers::Pool;

const MIB: u64 = 1 << 20;
const VALUE_BYTES: usize = 127;
/// A pair of a key of 27 bytes.
const PAIR_BYTES: u64 = 27 + VALUE_BYTES as u64;
const THREADS: u64 = 2;
/// What tells a child which case it is.
const CASE: &str = "THERMOCLINE_MEMORY_CASE";

/// A budget, and how many times it is loaded.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    budget: u64,
    times: u64,
    /// Beside the budget: stacks of threads, what the system keeps of the program itself.
    slack: u64,
}

const CASES: [Case; 2] = [
    Case { name: "small", budget: 16 * MIB, times: 4, slack: 3 * MIB },
    Case { name: "large", budget: 64 * MIB, times: 2, slack: 2 * MIB },
];

/// A line of what the system tells of this process.
fn status(name: &str) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/status").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of that name");
    let kib = line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>();
    kib.expect("a number of KiB") << 10
}

/// From now on the peak is counted anew.
fn forget_peak() {
    #[expect(clippy::disallowed_methods, reason = "the system is told about this process")]
    let written = std::fs::write("/proc/self/clear_refs", "5");
    written.expect("the system forgets the peak");
}

struct Watched {
    case: Case,
    store: Option<Store>,
    device: Arc<dyn Device>,
    budget: Arc<MemoryBudget>,
    sequence: Arc<Sequence>,
    workers: Pool,
    /// What was resident before the store was opened.
    before: u64,
    /// The most so far that was resident beside that.
    most: u64,
}

fn key(number: u64) -> Vec<u8> {
    format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes()
}

impl Watched {
    fn new(case: Case, directory: &std::path::Path) -> Self {
        let (environment, telemetry) = (Environment::real(), Registry::default());
        let workers = Pool::start(&environment, 2, &telemetry).expect("threads start");
        let device = device::open(directory, device::Options::default()).expect("it opens");
        let budget = Arc::new(MemoryBudget::new(case.budget));
        let before = status("VmRSS:");
        forget_peak();
        let sequence = Arc::new(Sequence::new());
        let mut watched =
            Self { case, store: None, device, budget, sequence, workers, before, most: 0 };
        watched.open();
        watched
    }

    fn open(&mut self) {
        let host = Host {
            device: Arc::clone(&self.device),
            workers: self.workers.clone(),
            environment: Environment::real(),
            telemetry: Registry::default(),
            sequence: Arc::clone(&self.sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::clone(&self.budget),
        };
        self.store = Some(Store::open(host, Options::default()).expect("the store opens"));
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn keys(&self) -> u64 {
        self.case.times * self.case.budget / PAIR_BYTES
    }

    /// The peak since the last phase ended, which must be within what is allowed.
    fn end_phase(&mut self, name: &str) {
        let peak = status("VmHWM:").saturating_sub(self.before);
        forget_peak();
        self.most = self.most.max(peak);
        let used = self.budget.used();
        println!("{:>8} KiB at most, {:>8} KiB counted: {name}", peak >> 10, used >> 10);
        let allowed = self.case.budget + self.case.slack;
        assert!(peak <= allowed, "{peak} bytes of {allowed} when {name}");
        assert!(used <= self.case.budget, "{used} bytes counted when {name}");
    }

    /// Writes every `step`th key, on several threads, in no order.
    fn write(&self, step: usize, byte: u8) {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for number in (thread..self.keys()).step_by(step * THREADS as usize) {
                        let key = key(number);
                        let put = [Op::Put { key: &key, value: &[byte; VALUE_BYTES] }];
                        self.store().admit(&put).expect("there is room");
                        let ticket = self.sequence.begin();
                        self.store().apply(&put, ticket.seqno()).expect("the write is taken");
                    }
                });
            }
        });
    }

    fn read(&self) {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let mut value = Vec::new();
                    for number in (thread..self.keys()).step_by(3) {
                        assert_eq!(self.store().get(&key(number), &mut value), Ok(true));
                    }
                });
            }
        });
    }

    fn walk(&self) {
        let mut met = 0;
        let walked = self.store().walk(None, &mut |_, _| {
            met += 1;
            ControlFlow::Continue(())
        });
        walked.expect("the walk is made");
        assert_eq!(met, self.keys(), "each is met once");
    }
}

/// The part of the others that has a process of its own; without a case there is nothing to measure.
#[test]
fn child() {
    let Ok(name) = std::env::var(CASE) else { return };
    let case = CASES.into_iter().find(|case| case.name == name).expect("a case of that name");
    // As every program of ours does that has a store.
    sync::share_heaps();
    let directory = tempfile::tempdir().expect("a directory");
    let mut watched = Watched::new(case, directory.path());
    watched.write(1, 1);
    watched.end_phase("loaded");
    let view = watched.store().view(watched.sequence.pin()).expect("it is open");
    watched.write(3, 2);
    watched.end_phase("updated with a snapshot held");
    let (mut value, number) = (Vec::new(), 3 * THREADS);
    assert_eq!(view.get(&key(number), &mut value), Ok(true));
    assert_eq!(value, [1; VALUE_BYTES], "as it was");
    drop(view);
    watched.read();
    watched.end_phase("read");
    watched.walk();
    watched.end_phase("walked over");
    for (name, figure) in watched.store().stats().detail {
        println!("  {name} {figure}");
    }
    let least = case.budget / 2;
    assert!(watched.most > least, "{} bytes: this test sees nothing", watched.most);
    watched.store().close().expect("closes");
}

fn run(name: &str) {
    let program = std::env::current_exe().expect("this program");
    let arguments = ["--exact", "child", "--nocapture", "--test-threads=1"];
    let output = Command::new(program).args(arguments).env(CASE, name).output();
    let output = output.expect("the child runs");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert!(said.contains("1 passed"), "the case was run");
}

#[test]
fn a_store_keeps_within_its_budget() {
    run("small");
}

#[test]
fn a_store_with_more_memory_keeps_within_its_budget() {
    run("large");
}
