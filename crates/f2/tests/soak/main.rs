//! Soaks a store without a journal: a process under mixed load is killed with SIGKILL, or closed in
//! order, again and again, and what the next one finds must be exactly what its checkpoint promises.
//!
//! 1. A *voyage* is a fresh directory and some lives. A *life* is one process: it verifies all that it
//!    finds, then threads count, put, delete and read back, and flush all the while, beside all
//!    background work over very little memory.
//! 2. It tells its parent how many steps of each thread it has recovered, and how many every flush
//!    has found. The parent compares: no step that was flushed may be missing.
//! 3. Of each thread there must be the first N steps, every counter and every value as they left it,
//!    and nothing of a step behind the one that was under way (`script`).
//! 4. A life that finds what may not be ends at once. One that was to be killed must have ended by that
//!    signal and by nothing else.
//!
//! `cargo test --release -p thermocline-f2 --test soak -- --seconds 1800 --seed 7`; without `--seed`
//! one is drawn, and printed. The moment of a kill depends on the machine too.
#![expect(
    clippy::disallowed_methods,
    reason = "drives other processes from outside: real time, threads and files"
)]
#![expect(clippy::unwrap_used, reason = "a test: a failure is reported with its seed")]

mod life;
mod script;

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use environment::Seed;
use rand::RngExt;

use life::{Bug, Orders, TOLD};
use script::THREADS;

/// The short form, which is part of `cargo test`.
const SECONDS: u64 = 6;
/// In more time than this all background work has to have been beside the load.
const SHORT: Duration = Duration::from_secs(120);
const SIGKILL: i32 = 9;

/// What all lives have told.
#[derive(Default)]
struct Tally {
    kills: u64,
    steps: u64,
    checkpoints: u64,
    beside: [u64; TOLD.len()],
}

fn main() -> ExitCode {
    if let Some(orders) = Orders::given() {
        orders.live();
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let position = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(position + 1)?.parse().expect("a number"))
    };
    // `cargo test SOMETHING` hands the filter to every test binary; ours has one name.
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let asked = number("--seconds").is_some() || number("--seed").is_some();
    if !asked && filter.is_some_and(|filter| !"soak".contains(filter.as_str())) {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    let length = Duration::from_secs(number("--seconds").unwrap_or(SECONDS));
    let seed = number("--seed").unwrap_or_else(|| Seed::from_entropy().get());
    println!("seed {seed}; replay: cargo test -p thermocline-f2 --test soak -- --seed {seed}");
    let began = Instant::now();
    let (mut tally, mut failed) = (Tally::default(), 0);
    for index in 0.. {
        if began.elapsed() >= length {
            break;
        }
        let drawn = Seed::from(seed).child(index);
        let voyage = AssertUnwindSafe(|| voyage(drawn, &mut tally, Bug::None));
        if catch_unwind(voyage).is_err() {
            println!("voyage {index} FAILED; seed {seed}");
            failed += 1;
        }
    }
    for bug in [Bug::Flushes, Bug::Reads] {
        if !notices(bug, seed) {
            println!("planted bug FAILED: {bug:?} was never noticed");
            failed += 1;
        }
    }
    let Tally { kills, steps, checkpoints, beside } = tally;
    println!("{steps} steps verified beside {checkpoints} checkpoints and");
    for (name, count) in TOLD.into_iter().zip(beside) {
        println!("{count} {name}");
        if count == 0 && length > SHORT {
            println!("FAILED: there were none");
            failed += 1;
        }
    }
    println!("{kills} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plants a bug that this harness is for, and must see it; otherwise the voyages say nothing.
fn notices(bug: Bug, seed: u64) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    (0..10).any(|index| {
        let seed = Seed::from(!seed).child(index);
        let voyage = AssertUnwindSafe(|| voyage(seed, &mut Tally::default(), bug));
        catch_unwind(voyage).is_err()
    })
}

/// A directory and its lives.
fn voyage(seed: Seed, tally: &mut Tally, bug: Bug) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = seed.stream("voyage");
    // Steps of each thread that may not be lost any more; after an orderly end, all there are.
    let mut settled = [0; THREADS];
    let mut is_exact = true;
    for _ in 0..random.random_range(1..=4) {
        let is_killed = random.random_ratio(3, 4);
        let ms = random.random_range(50..1500);
        let bug = if bug == Bug::Reads && !is_killed { Bug::None } else { bug };
        let orders = Orders { path: dir.path().to_owned(), seed, bug };
        let told = live(&orders, is_killed, Duration::from_millis(ms));
        // Killed before it had verified everything, it has written nothing.
        if let Some(recovered) = told.recovered {
            compare(&recovered, &settled, is_exact);
            settled = told.settled;
            is_exact = !is_killed;
        }
        tally.kills += u64::from(is_killed);
        tally.checkpoints += told.flushes;
        tally.beside.iter_mut().zip(told.beside).for_each(|(sum, count)| *sum += count);
    }
    let bug = if bug == Bug::Reads { Bug::None } else { bug };
    let orders = Orders { path: dir.path().to_owned(), seed, bug };
    let last = live(&orders, false, Duration::ZERO);
    let recovered = last.recovered.expect("it has ended in order");
    compare(&recovered, &settled, is_exact);
    tally.steps += recovered.iter().sum::<u64>();
    let device = device::open(dir.path(), device::Options::default()).unwrap();
    let report = thermocline_f2::check(&device).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

fn compare(recovered: &[u64; THREADS], settled: &[u64; THREADS], is_exact: bool) {
    let are_there = recovered.iter().zip(settled).all(|(there, settled)| there >= settled);
    assert!(are_there, "{settled:?} steps were flushed, {recovered:?} are there");
    assert!(!is_exact || recovered == settled, "{settled:?} steps were closed, {recovered:?}");
}

/// What a life has told.
#[derive(Default)]
struct Life {
    recovered: Option<[u64; THREADS]>,
    settled: [u64; THREADS],
    flushes: u64,
    beside: [u64; TOLD.len()],
}

impl Life {
    fn note(&mut self, line: &str) {
        let (what, numbers) = line.split_once(' ').expect("a word and numbers");
        let numbers: Vec<u64> =
            numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
        let steps = numbers[..THREADS].try_into().unwrap();
        match what {
            "recovered" => (self.recovered, self.settled) = (Some(steps), steps),
            "flushed" => {
                self.settled = steps;
                self.flushes += 1;
                self.beside = numbers[THREADS..].try_into().unwrap();
            }
            other => panic!("what is {other}?"),
        }
    }
}

fn live(orders: &Orders, is_killed: bool, length: Duration) -> Life {
    let mut child = orders.spawn();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reader = thread::spawn(move || {
        let mut told = Life::default();
        // The last line may have been cut off by the kill.
        let whole = lines.map_while(Result::ok).filter(|line| line.ends_with(" ."));
        whole.for_each(|line| told.note(line.trim_end_matches(" .")));
        told
    });
    thread::sleep(length);
    if is_killed {
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(ended.signal(), Some(SIGKILL), "a life has found what may not be");
    } else {
        end(child);
    }
    reader.join().unwrap()
}

/// Asks a life to end in order.
fn end(mut child: Child) {
    // Nobody reads it where the life has ended already, which is seen below.
    let _ = child.stdin.take().unwrap().write_all(b"\n");
    assert!(child.wait().unwrap().success(), "a life has found what may not be");
}

/// This program, as somebody else.
fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}
