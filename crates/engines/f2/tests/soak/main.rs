//! Soaks a store without a journal under mixed load.
//!
//! A process is killed with SIGKILL, or closed in order, again and again. The next one must find
//! exactly the state that the checkpoint promises.
//!
//! 1. A *voyage* is a fresh directory and some lives. A *life* is one process: it verifies the
//!    whole store that it finds. Then threads count, put, delete, and read back, through every call
//!    that there is, and walk over everything (`load`). At the same time the life flushes, copies
//!    the store, verifies the copy, and changes the limit of its memory. Compactions run next to
//!    all that, as the data are several times the memory.
//! 2. Most lives are short and some are long: their logarithm is uniform between 50 ms and 20 s, or
//!    a third of the whole run if that is less. So kills come in the recovery, in the first rounds
//!    of compactions and in late ones.
//! 3. A life reports to its parent how many steps of each thread it has recovered, and how many
//!    every flush has found. The parent compares: no step that was flushed may be missing.
//! 4. The first N steps of each thread must be there, with every counter and every value as they
//!    left it. Of the next step there may be no more than its first parts (`script`).
//! 5. A life that finds an error ends immediately. A life that was to be killed must have ended by
//!    that signal and by nothing else.
//!
//! `cargo test --release -p thermocline-f2 --test soak -- --seconds 1800 --seed 7`; without
//! `--seed` one is drawn, and printed. The moment of a kill depends on the machine too.
#![expect(
    clippy::disallowed_methods,
    reason = "drives other processes from outside: real time, threads and files"
)]
#![expect(clippy::unwrap_used, reason = "a test: a failure is reported with its seed")]

mod life;
mod load;
mod open;
mod script;

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use conformance::Arguments;
use environment::{Random, Seed};
use rand::RngExt;

use life::{Bug, Orders, TOLD};
use script::THREADS;

/// Seconds of the short form, which is part of `cargo test`.
const SECONDS: u64 = 6;
/// Length of a run in which all background work must have happened next to the load.
const LONG: Duration = Duration::from_secs(60);
const LIFE_MIN: Duration = Duration::from_millis(50);
const LIFE_MAX: Duration = Duration::from_secs(20);
/// Keys of each thread; each number is used for two voyages in sequence. The largest number takes
/// several times the memory.
const KEYS: [usize; 3] = [12_000, 3_000, 300];
const SIGKILL: i32 = 9;

/// The sum of the reports of all lives.
#[derive(Default)]
struct Tally {
    kills: u64,
    /// Kills of lives that had not verified everything that they found.
    early_kills: u64,
    longest: Duration,
    steps: u64,
    checkpoints: u64,
    beside: [u64; TOLD.len()],
}

fn main() -> ExitCode {
    if let Some(orders) = Orders::given() {
        orders.live();
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::of_program();
    let number = |name| arguments.number(name);
    if arguments.are_for_others("soak", &["--seconds", "--seed"]) {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    let length = Duration::from_secs(number("--seconds").unwrap_or(SECONDS));
    let seed = number("--seed").unwrap_or_else(|| Seed::from_entropy().get());
    println!("seed {seed}; replay: cargo test -p thermocline-f2 --test soak -- --seed {seed}");
    let began = Instant::now();
    let longest = (length / 3).clamp(LIFE_MIN, LIFE_MAX);
    let (mut tally, mut failed) = (Tally::default(), 0);
    for index in 0.. {
        if began.elapsed() >= length {
            break;
        }
        // Memory moves if the seed is even: in every other voyage.
        let drawn = Seed::from(Seed::from(seed).child(index).get() & !1 | index & 1);
        let keys = KEYS[(index / 2) as usize % KEYS.len()];
        let drawn = Voyage { seed: drawn, keys, longest, bug: Bug::None };
        if catch_unwind(AssertUnwindSafe(|| drawn.run(&mut tally))).is_err() {
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
    failed += tell(&tally, length);
    println!("{} passed, {failed} failed", tally.kills);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the counts, and returns how many counts are zero and must not be.
fn tell(tally: &Tally, length: Duration) -> u64 {
    let Tally { kills, early_kills, longest, steps, checkpoints, beside } = tally;
    println!(
        "{kills} kills, {early_kills} of them before all was verified; life up to {longest:?}"
    );
    println!("{steps} steps verified beside {checkpoints} checkpoints and");
    let mut failed = 0;
    for (name, count) in TOLD.into_iter().zip(beside) {
        println!("{count} {name}");
        if *count == 0 && length >= LONG {
            println!("FAILED: there were no {name}");
            failed += 1;
        }
    }
    failed
}

/// Plants a bug that this harness is for, and returns whether the harness notices it; otherwise the
/// voyages prove nothing.
fn notices(bug: Bug, seed: u64) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    (0..20).any(|index| {
        let seed = Seed::from(!seed).child(index);
        let voyage = Voyage { seed, keys: KEYS[0], longest: Duration::from_secs(1), bug };
        catch_unwind(AssertUnwindSafe(|| voyage.run(&mut Tally::default()))).is_err()
    })
}

/// A directory and its lives.
struct Voyage {
    seed: Seed,
    /// Keys of each thread.
    keys: usize,
    longest: Duration,
    bug: Bug,
}

impl Voyage {
    fn run(&self, tally: &mut Tally) {
        let dir = tempfile::tempdir().unwrap();
        let mut random = self.seed.stream("voyage");
        let orders = |is_killed: bool| {
            let bug = if self.bug == Bug::Reads && !is_killed { Bug::None } else { self.bug };
            Orders { path: dir.path().to_owned(), seed: self.seed, keys: self.keys, bug }
        };
        // Steps of each thread that must not be lost any more; after an orderly end, all steps.
        let mut durable = [0; THREADS];
        let mut is_exact = true;
        for _ in 0..random.random_range(1..=4) {
            let is_killed = random.random_ratio(3, 4);
            let length = self.life(&mut random);
            tally.longest = tally.longest.max(length);
            // Half of the lives count from the end of their verification, so that none is too
            // short.
            let has_begun = random.random_ratio(1, 2);
            let acknowledged = live(&orders(is_killed), is_killed, length, has_begun);
            // A life that was killed before it had verified everything has written nothing.
            match acknowledged.recovered {
                Some(recovered) => {
                    compare(&recovered, &durable, is_exact);
                    durable = acknowledged.durable;
                    is_exact = !is_killed;
                }
                None => tally.early_kills += 1,
            }
            tally.kills += u64::from(is_killed);
            tally.checkpoints += acknowledged.flushes;
            tally.beside.iter_mut().zip(acknowledged.beside).for_each(|(sum, count)| *sum += count);
        }
        let last = live(&orders(false), false, Duration::ZERO, true);
        let recovered = last.recovered.expect("it has ended in order");
        compare(&recovered, &durable, is_exact);
        tally.steps += recovered.iter().sum::<u64>();
        life::check(&orders(false).store());
    }

    /// Returns the length of a life: as often between 50 and 500 ms as between 2 and 20 s.
    fn life(&self, random: &mut Random) -> Duration {
        let (least, most) = (LIFE_MIN.as_secs_f64().ln(), self.longest.as_secs_f64().ln());
        let share = random.random_range(0.0..=1.0);
        Duration::from_secs_f64((least + share * (most - least)).exp())
    }
}

fn compare(recovered: &[u64; THREADS], durable: &[u64; THREADS], is_exact: bool) {
    let are_there = recovered.iter().zip(durable).all(|(there, durable)| there >= durable);
    assert!(are_there, "{durable:?} steps were flushed, {recovered:?} are there");
    assert!(!is_exact || recovered == durable, "{durable:?} steps were closed, {recovered:?}");
}

/// The report of one life.
#[derive(Default)]
struct Acknowledged {
    recovered: Option<[u64; THREADS]>,
    durable: [u64; THREADS],
    flushes: u64,
    beside: [u64; TOLD.len()],
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        let (what, numbers) = line.split_once(' ').expect("a word and numbers");
        let numbers: Vec<u64> =
            numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
        let steps = numbers[..THREADS].try_into().unwrap();
        match what {
            "recovered" => (self.recovered, self.durable) = (Some(steps), steps),
            "flushed" => {
                self.durable = steps;
                self.flushes += 1;
                self.beside = numbers[THREADS..].try_into().unwrap();
            }
            other => panic!("what is {other}?"),
        }
    }
}

/// Runs a life of this length, counted from its beginning, or from the end of its verification.
fn live(orders: &Orders, is_killed: bool, length: Duration, has_begun: bool) -> Acknowledged {
    let mut child = orders.spawn();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (first, first_came) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut acknowledged = Acknowledged::default();
        // The last line may have been cut off by the kill.
        for line in lines.map_while(Result::ok).filter(|line| line.ends_with(" .")) {
            acknowledged.note(line.trim_end_matches(" ."));
            // The receiver is dropped after the first line.
            let _ = first.send(());
        }
        acknowledged
    });
    if has_begun {
        // A life that sends no line has ended; the check below notices it.
        let _ = first_came.recv();
    }
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
    // A life that has already ended does not read it; the check below notices it.
    let _ = child.stdin.take().unwrap().write_all(b"\n");
    assert!(child.wait().unwrap().success(), "a life has found what may not be");
}

/// Returns a command that runs this program again, with pipes.
fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}
