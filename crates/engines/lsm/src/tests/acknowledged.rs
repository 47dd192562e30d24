//! Threads that write, delete ranges, ingest, read, scan, reorganise, merge and flush concurrently.
//! A get or a scan never misses a write that was acknowledged before it began.
//!
//! 1. Each writer has keys of its own, and does round after round of operations that a seed draws.
//!    It reports which round it has begun, and which one has returned.
//! 2. A scan shows each writer's keys in their state after one of its rounds. That round had begun
//!    when the scan ended. It is not before the last round that had returned when the scan began,
//!    nor before the round of an earlier scan. A get shows a key in the same way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use engine::{BlockingWrites, Demand, Direction, Engine, KeyRange, NoJournal, Op, Wait};
use environment::{Environment, Seed};
use rand::RngExt;
use sync::locks::RwLock;

use super::dranges::install;
use super::stores::{Bench, key, scan, small};
use crate::Options;

const WRITERS: u64 = 2;
/// Keys of a writer.
const KEYS: u64 = 60;
const ROUNDS: usize = 1500;
/// The key that is written to most, of each writer.
const HOT: u64 = 7;
const SEEDS: u64 = 12;

/// Operation of a writer in a round, on keys of its own: numbers below [`KEYS`].
#[derive(Clone, Debug)]
enum Round {
    Put(u64),
    Delete(u64),
    DeleteRange(u64, u64),
    /// Ingests every n-th key, from a key on.
    Ingest(u64, usize),
}

impl Round {
    /// Returns `None` if the round leaves a key unchanged, else whether it gives it the round's
    /// number.
    fn gives(&self, number: u64) -> Option<bool> {
        match *self {
            Self::Put(put) => (put == number).then_some(true),
            Self::Delete(deleted) => (deleted == number).then_some(false),
            Self::DeleteRange(start, end) => (start..end).contains(&number).then_some(false),
            Self::Ingest(from, every) => {
                (from..KEYS).step_by(every).any(|one| one == number).then_some(true)
            }
        }
    }
}

/// State of a writer's keys after a round, by number: the round that wrote the value.
type Behind = BTreeMap<u64, usize>;

/// A writer, as others see it.
struct Writer {
    first: u64,
    /// Round 1 and those behind it.
    rounds: Vec<Round>,
    begun: AtomicU64,
    returned: AtomicU64,
}

impl Writer {
    fn new(seed: u64, writer: u64) -> Self {
        let mut random = Seed::from(seed).stream(&format!("writer {writer}"));
        let mut round = || match random.random_range(0..60) {
            0..20 => Round::Put(HOT),
            20..52 => Round::Put(random.random_range(0..KEYS)),
            52..56 => Round::Delete(random.random_range(0..KEYS)),
            56..58 => {
                let start = random.random_range(0..KEYS);
                Round::DeleteRange(start, start + random.random_range(1..KEYS))
            }
            _ => Round::Ingest(random.random_range(0..KEYS), random.random_range(1..9)),
        };
        let rounds = (0..ROUNDS).map(|_| round()).collect();
        let (begun, returned) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { first: writer * KEYS, rounds, begun, returned }
    }

    fn key(&self, number: u64) -> Vec<u8> {
        key(self.first + number)
    }

    /// Writes all rounds. No other writer writes during an ingestion: `others` is a host's lock.
    fn write(&self, bench: &Bench, others: &RwLock<()>) {
        for (round, number) in self.rounds.iter().zip(1_u64..) {
            let value = number.to_le_bytes().repeat(6);
            self.begun.store(number, SeqCst);
            match *round {
                Round::Put(at) => {
                    apply(bench, others, Op::Put { key: &self.key(at), value: &value })
                }
                Round::Delete(at) => apply(bench, others, Op::Delete { key: &self.key(at) }),
                Round::DeleteRange(start, end) => {
                    // Not beyond the keys of this writer.
                    let (start, end) = (self.key(start), self.key(end.min(KEYS)));
                    apply(bench, others, Op::DeleteRange { start: &start, end: Some(&end) });
                }
                Round::Ingest(from, every) => {
                    let mut ingestion = bench.store.ingestion().expect("the store is open");
                    for at in (from..KEYS).step_by(every) {
                        ingestion.push(&self.key(at), &value).expect("memory takes it");
                    }
                    let _alone = others.write();
                    let ticket = bench.sequence.begin();
                    ingestion.commit(ticket.seqno()).expect("memory takes it");
                }
            }
            self.returned.store(number, SeqCst);
        }
    }
}

fn apply(bench: &Bench, others: &RwLock<()>, op: Op<'_>) {
    bench.store.reserve(&Demand::Ops(&[op]), Wait::Yes).map(drop).expect("the write is admitted");
    let _beside = others.read();
    bench.store.write_next(&[op], &bench.sequence).expect("the write is taken");
}

/// A reader's knowledge of a writer.
#[derive(Default)]
struct Known {
    round: usize,
    behind: Behind,
}

impl Known {
    /// Advances to the state after one more round.
    fn step(&mut self, writer: &Writer) {
        let round = &writer.rounds[self.round];
        self.round += 1;
        for number in 0..KEYS {
            match round.gives(number) {
                Some(true) => _ = self.behind.insert(number, self.round),
                Some(false) => _ = self.behind.remove(&number),
                None => {}
            }
        }
    }

    fn go_to(&mut self, writer: &Writer, round: usize) {
        while self.round < round {
            self.step(writer);
        }
    }

    /// Advances to the first round after which all keys have these values.
    fn find(&mut self, writer: &Writer, shown: &Behind, begun: usize, seed: u64) {
        let from = self.round;
        while self.behind != *shown {
            assert!(
                self.round < begun,
                "seed {seed}: {shown:?} is behind none of {from}..={begun}"
            );
            self.step(writer);
        }
    }
}

/// Returns the round that wrote a value.
fn round_of(value: &[u8]) -> usize {
    u64::from_le_bytes(value[..8].try_into().expect("eight bytes")) as usize
}

/// Scans once, gets each key, and checks the results against the writers' reports.
fn look(bench: &Bench, writers: &[Writer], known: &mut [Known], direction: Direction, seed: u64) {
    for (writer, known) in writers.iter().zip(&mut *known) {
        known.go_to(writer, writer.returned.load(SeqCst) as usize);
    }
    let pairs: BTreeMap<_, _> =
        scan(&bench.view(), KeyRange::all(), direction).into_iter().collect();
    for (writer, known) in writers.iter().zip(&mut *known) {
        let begun = writer.begun.load(SeqCst) as usize;
        let shown = |number| pairs.get(&writer.key(number)).map(|value| (number, round_of(value)));
        known.find(writer, &(0..KEYS).filter_map(shown).collect(), begun, seed);
    }
    for (writer, known) in writers.iter().zip(known) {
        for number in 0..KEYS {
            known.go_to(writer, writer.returned.load(SeqCst) as usize);
            let found = bench.get(&writer.key(number)).map(|value| round_of(&value));
            let begun = writer.begun.load(SeqCst) as usize;
            let later = known.round + 1..=begun;
            let given = |round: &usize| writer.rounds[round - 1].gives(number);
            let is_given = match found {
                Some(found) => later.contains(&found) && given(&found) == Some(true),
                None => later.into_iter().any(|round| given(&round) == Some(false)),
            };
            let before = known.behind.get(&number).copied();
            assert!(
                found == before || is_given,
                "seed {seed}, key {number}: {found:?}, {before:?}"
            );
        }
    }
}

/// Moves boundaries, runs queued work, and flushes, until `is_over` is set.
fn upset(bench: &Arc<Bench>, is_over: &AtomicBool) {
    for round in 0.. {
        if is_over.load(SeqCst) {
            break;
        }
        let (middle, hot) = (key(round * 13 % (WRITERS * KEYS)), key(HOT));
        let mut starts = vec![(&b""[..], 1), (&hot, 1 + round as usize % 3), (&middle, 2)];
        starts.sort();
        starts.dedup_by(|one, other| one.0 == other.0);
        install(bench, &starts);
        while bench.crank.run_one().is_some() {}
        if round % 5 == 0 {
            bench.store.flush().expect("memory takes it");
        }
    }
}

fn options(seed: u64) -> Options {
    let options = Options { slots_max: 16, merging: true, ..small() };
    match seed % 4 {
        1 => Options { lookup_index_bytes_max: 0, range_deletes_max: 4, ..options },
        2 => Options { merging: false, duplicates: false, ..options },
        3 => Options { range_index: false, pairs: false, ..options },
        _ => options,
    }
}

#[test]
fn nothing_that_was_acknowledged_is_missed() {
    let chosen = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!(
            "to replay: THERMOCLINE_SEED={seed} cargo test -p thermocline-lsm --lib acknowledged"
        );
        play(seed);
    }
}

fn play(seed: u64) {
    let bench = Bench::with_options(device::memory(), Arc::new(NoJournal), 1 << 20, options(seed));
    let bench = Arc::new(bench.expect("opens"));
    let writers: Arc<Vec<Writer>> =
        Arc::new((0..WRITERS).map(|writer| Writer::new(seed, writer)).collect());
    let (others, is_over) = (Arc::new(RwLock::new(())), Arc::new(AtomicBool::new(false)));
    let environment = Environment::real();
    let mut threads = Vec::new();
    for writer in 0..WRITERS as usize {
        let (bench, writers, others) = (bench.clone(), writers.clone(), others.clone());
        let work = move || writers[writer].write(&bench, &others);
        threads.push(environment.spawn("writer", work).expect("a thread"));
    }
    let (theirs, over) = (bench.clone(), is_over.clone());
    let upsetting = environment.spawn("reorganise", move || upset(&theirs, &over));
    let mut known: Vec<Known> = writers.iter().map(|_| Known::default()).collect();
    let mut scans = 0;
    while threads.iter().any(|thread| !thread.is_finished()) || scans < 20 {
        let direction = if scans % 2 == 0 { Direction::Forward } else { Direction::Backward };
        look(&bench, &writers, &mut known, direction, seed);
        scans += 1;
    }
    is_over.store(true, SeqCst);
    threads.push(upsetting.expect("a thread"));
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    bench.run_background();
    look(&bench, &writers, &mut known, Direction::Forward, seed);
    assert!(known.iter().all(|known| known.round == ROUNDS));
    assert_eq!(bench.store.persisted(), bench.sequence.visible());
    assert_eq!(bench.sequence.visible().get(), WRITERS * ROUNDS as u64);
    assert!(bench.detail("ingestions") > 20);
    let report = crate::check(&bench.device).expect("memory reads");
    assert!(report.is_sound(), "{report:?}");
}
