//! Kept pairs: no reader gets a pair that the base does not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use conformance::{InFlight, LookupStart};
use engine::{
    At, BlockingWrites, Demand, Engine, Host, NoJournal, Op, ResizableMemory, Sequence, Wait,
};
use environment::{Environment, Random, Seed};
use memory_budget::MemoryBudget;
use rand::RngExt;
use reads::BlockingReads;

use super::stores::{Bench, key};
use crate::{Options, Store};

const MIB: u64 = 1 << 20;
const PAIRS: u64 = 16_000;

pub(crate) fn value(number: u64) -> Vec<u8> {
    let mut value = vec![number as u8; 100];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

fn options() -> Options {
    Options { segment_bytes_max: 16 << 10, ..Options::default() }
}

/// A store whose cache has no room for all of it, and has neither the intervals nor the pairs of
/// the first keys.
pub(crate) fn crowded() -> Bench {
    let bench = Bench::of(4 * MIB, options());
    for number in 0..PAIRS {
        bench.put(&key(number), &value(number));
    }
    bench.flush();
    bench.crank.run_all();
    for number in 0..PAIRS {
        assert_eq!(bench.get(&key(number)), Some(value(number)));
    }
    assert!(is_crowded(&bench), "{} bytes", bench.store.shared.cache.bytes());
    bench
}

fn is_crowded(bench: &Bench) -> bool {
    let shared = &bench.store.shared;
    !shared.cache.has_room(shared.cache_share())
}

/// Returns the result of a get, and whether it came from a kept pair.
pub(crate) fn get(bench: &Bench, key: &[u8]) -> (Option<Vec<u8>>, bool) {
    let before = bench.detail("pair_hits");
    let found = bench.get(key);
    (found, bench.detail("pair_hits") > before)
}

#[test]
fn a_pair_answers_until_its_key_is_written_to() {
    let bench = crowded();
    let key = key(5);
    assert_eq!(get(&bench, &key), (Some(value(5)), false));
    let intervals = (bench.detail("cache_hits"), bench.detail("cache_misses"));
    assert_eq!(get(&bench, &key), (Some(value(5)), true));
    assert_eq!(intervals, (bench.detail("cache_hits"), bench.detail("cache_misses")));
    bench.put(&key, b"new");
    assert_eq!(get(&bench, &key), (Some(b"new".to_vec()), false), "a memtable has it");
    bench.flush();
    assert_eq!(get(&bench, &key), (Some(b"new".to_vec()), false), "it was forgotten");
    assert!(is_crowded(&bench));
    assert_eq!(get(&bench, &key), (Some(b"new".to_vec()), true));
    bench.delete(&key);
    assert_eq!(get(&bench, &key), (None, false));
    bench.flush();
    assert_eq!(get(&bench, &key), (None, false));
    // A get that finds nothing leaves nothing behind.
    assert_eq!(get(&bench, &key), (None, false));
}

/// A get waits for the device while its key is written and committed: the pair that it finds is not
/// kept.
#[test]
fn a_get_that_a_commit_overtakes_keeps_nothing() {
    let bench = crowded();
    let mut reads = InFlight::new(&bench.store, 4, &bench.budget);
    for (number, change) in [(3, Some(&b"new"[..])), (1003, None), (2003, Some(b"other"))] {
        let key = key(number);
        assert_eq!(reads.begin(number, &key, At::Newest), Ok(LookupStart::Pending));
        match change {
            Some(value) => bench.put(&key, value),
            None => bench.delete(&key),
        };
        bench.flush();
        reads.finish();
        assert_eq!(reads.ended[&number].value, Ok(Some(value(number))), "as it was when it began");
        assert!(is_crowded(&bench));
        assert_eq!(get(&bench, &key), (change.map(<[u8]>::to_vec), false));
        // The next one is kept, as no commit comes in between.
        assert_eq!(get(&bench, &key), (change.map(<[u8]>::to_vec), change.is_some()));
    }
}

/// A snapshot that commits have left behind is given no pair, and keeps none; a younger one is.
#[test]
fn a_snapshot_sees_its_moment() {
    let bench = crowded();
    let key = key(7);
    let old = bench.view();
    let seen = |view: &reads::View<'_, Store>| {
        let (before, mut value) = (bench.detail("pair_hits"), Vec::new());
        assert_eq!(view.get(&key, &mut value), Ok(true));
        (value, bench.detail("pair_hits") > before)
    };
    assert_eq!(seen(&old), (value(7), false));
    assert_eq!(seen(&old), (value(7), true), "it sees what everybody sees");
    bench.put(&key, b"new");
    assert_eq!(seen(&old), (value(7), true));
    bench.flush();
    assert_eq!(bench.detail("pinned_bases"), 1);
    assert_eq!(seen(&old), (value(7), false));
    assert_eq!(get(&bench, &key), (Some(b"new".to_vec()), false));
    assert_eq!(get(&bench, &key), (Some(b"new".to_vec()), true));
    assert_eq!(seen(&old), (value(7), false));
    assert_eq!(seen(&bench.view()), (b"new".to_vec(), true));
    assert_eq!(seen(&old), (value(7), false));
    assert_eq!(get(&bench, &key), (Some(b"new".to_vec()), true));
}

/// A kept pair is dropped by the commit that changes it, and by nothing else: not by another base
/// either.
#[test]
fn a_commit_forgets_what_it_changes() {
    let bench = crowded();
    let shared = &bench.store.shared;
    let numbers = |first: u64| (0..300).map(move |at| at * 40 + first);
    for number in numbers(0).chain(numbers(1)) {
        bench.get(&key(number));
        assert_eq!(get(&bench, &key(number)), (Some(value(number)), true));
    }
    let are_there = || numbers(1).filter(|number| get(&bench, &key(*number)).1).count();
    shared.renew_base(&mut shared.committer.lock()).expect("it is open");
    assert_eq!(are_there(), 300);
    numbers(0).for_each(|number| _ = bench.put(&key(number), b"new"));
    bench.flush();
    assert_eq!(are_there(), 300);
    for number in numbers(0) {
        assert_eq!(get(&bench, &key(number)), (Some(b"new".to_vec()), false));
    }
}

/// Blocks and pairs together take their share and no more, also when the share becomes less.
#[test]
fn pairs_and_blocks_keep_within_the_budget() {
    let bench = crowded();
    let shared = &bench.store.shared;
    let mut state = 11_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        state >> 33
    };
    let mut most = 0;
    for step in 0..30_000_u64 {
        let number = random() % [PAIRS, 500][step as usize % 2];
        assert!(bench.get(&key(number)).is_some());
        assert!(shared.cache.bytes() <= shared.cache_share(), "at step {step}");
        assert!(bench.budget.used() <= bench.budget.limit(), "at step {step}");
        most = most.max(bench.detail("pair_bytes"));
    }
    assert!(most > shared.cache_share() / 2, "gets alone give pairs up to three quarters: {most}");
    for limit in [3 * MIB, 2 * MIB, 4 * MIB] {
        bench.store.resize(limit).expect("it is open");
        assert!(shared.cache.bytes() <= shared.cache_share(), "{limit}");
        for step in 0..4000 {
            let number = random() % PAIRS;
            match step % 4 {
                0 => _ = bench.put(&key(number), &value(number)),
                _ => assert!(bench.get(&key(number)).is_some()),
            }
            bench.crank.run_all();
            assert!(bench.budget.used() <= limit, "{} of {limit}", bench.budget.used());
        }
    }
    bench.store.close().expect("closes");
    assert_eq!(bench.detail("pair_bytes"), 0);
}

/// Scans have the memory if nothing else is read.
#[test]
fn walks_take_the_memory_of_pairs() {
    let bench = crowded();
    (0..20_000).for_each(|at| _ = bench.get(&key(at * 7919 % PAIRS)));
    let of_gets = bench.detail("pair_bytes");
    for _ in 0..20 {
        assert_eq!(bench.pairs().len() as u64, PAIRS);
    }
    let of_walks = bench.detail("pair_bytes");
    assert!(of_walks < of_gets / 2, "{of_walks} bytes after walks, {of_gets} before");
}

/// A store with threads of its own, and for each key that is written the number of the last write
/// that has begun, and of the last that has ended. The first one, 0, was before.
struct Model {
    store: Store,
    sequence: Arc<Sequence>,
    begun: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
    is_over: AtomicBool,
}

/// Keys that are written, among many others.
const WRITTEN: u64 = 400;
const WRITES: u64 = 6000;
/// Reads of a writer after each of its writes.
const READS: usize = 5;
const WRITERS: u64 = 2;

/// Returns whether a write is a delete.
fn is_delete(write: u64) -> bool {
    write % 5 == 4
}

fn key_of(index: u64) -> Vec<u8> {
    key(index * (PAIRS / WRITTEN))
}

fn written(write: u64, random: &mut Random) -> Vec<u8> {
    // Some are longer than the values that are kept.
    let bytes = if random.random_range(0..20) == 0 { 5000 } else { random.random_range(8..200) };
    let mut value = vec![7; bytes];
    value[..8].copy_from_slice(&write.to_le_bytes());
    value
}

impl Model {
    fn put(&self, op: Op<'_>) {
        self.store.reserve(&Demand::Ops(&[op]), Wait::Yes).map(drop).expect("there is room");
        self.store.write_next(&[op], &self.sequence).expect("the write is taken");
    }

    fn write(&self, writer: u64, mut random: Random) {
        let mut newest = vec![0; WRITTEN as usize];
        for at in 0..WRITES / WRITERS {
            let index = random.random_range(0..WRITTEN / WRITERS) * WRITERS + writer;
            let (key, place) = (key_of(index), index as usize);
            let write = self.begun[place].fetch_add(1, SeqCst) + 1;
            let value = written(write, &mut random);
            match is_delete(write) {
                true => self.put(Op::Delete { key: &key }),
                false => self.put(Op::Put { key: &key, value: &value }),
            }
            self.ended[place].store(write, SeqCst);
            if at % 300 == 0 {
                self.store.flush().expect("flushes");
            }
            (0..READS).for_each(|_| self.read(&mut newest, &mut random));
        }
    }

    /// Returns the oldest write that can have left this value, if it is in `from..=upto`.
    fn write_of(value: Option<&[u8]>, from: u64, upto: u64) -> Option<u64> {
        match value {
            Some(value) => {
                let write = u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
                (from..=upto).contains(&write).then_some(write)
            }
            None => (from..=upto).find(|write| is_delete(*write)),
        }
    }

    fn read_on(&self, mut random: Random) {
        let mut newest = vec![0; WRITTEN as usize];
        while !self.is_over.load(SeqCst) {
            self.read(&mut newest, &mut random);
        }
    }

    /// Reads a key; `newest` has what this thread was given of each, at least.
    fn read(&self, newest: &mut [u64], random: &mut Random) {
        let mut value = Vec::new();
        let index = random.random_range(0..WRITTEN);
        if random.random_range(0..4) == 0 {
            // Keys that no thread writes to, so that some pairs have to be evicted.
            let number = index * (PAIRS / WRITTEN) + random.random_range(1..PAIRS / WRITTEN);
            assert_eq!(self.store.get(&key(number), &mut value), Ok(true));
            return;
        }
        let (key, place) = (key_of(index), index as usize);
        let from = self.ended[place].load(SeqCst).max(newest[place]);
        let view = (random.random_range(0..16) == 0).then(|| self.store.view(self.sequence.pin()));
        let mut get = || {
            let found = match &view {
                Some(view) => view.get(&key, &mut value),
                None => self.store.get(&key, &mut value),
            };
            found.expect("nothing is damaged").then(|| value.clone())
        };
        let found = get();
        let upto = self.begun[place].load(SeqCst);
        newest[place] = Self::write_of(found.as_deref(), from, upto).unwrap_or_else(|| {
            let found = found.as_ref().map(|found| found[0]);
            panic!("{found:?} of key {index} is not of writes {from} to {upto}")
        });
        if view.is_some() {
            for _ in 0..random.random_range(0..30) {
                sync::thread::yield_now();
            }
            assert_eq!(get(), found, "a view of key {index}");
        }
    }
}

/// Gets and snapshots concurrently with writers and commits, while pairs are kept and dropped.
#[test]
fn a_reader_beside_commits_gets_nothing_stale() {
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| Seed::from_entropy().get());
    println!("seed {seed}; THERMOCLINE_SEED={seed} cargo test -p thermocline-flexdb nothing_stale");
    let random = |name: &str| -> Random { Seed::from(seed).stream(name) };
    let (environment, telemetry) = (Environment::real(), telemetry::Registry::default());
    let workers = workers::Pool::start(&environment, 2, &telemetry).expect("threads");
    let sequence = Arc::new(Sequence::new());
    let host = Host {
        device: device::memory(),
        environment,
        workers,
        telemetry,
        sequence: Arc::clone(&sequence),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(MemoryBudget::new(4 * MIB)),
    };
    let options = Options { memtable_bytes_max: 48 << 10, interval_pairs: 8, ..options() };
    let counts = || (0..WRITTEN).map(|_| AtomicU64::new(0)).collect();
    let model = Model {
        store: Store::open(host, options).expect("opens"),
        sequence,
        begun: counts(),
        ended: counts(),
        is_over: AtomicBool::new(false),
    };
    for number in 0..PAIRS {
        model.put(Op::Put { key: &key(number), value: &[0; 100] });
    }
    model.store.flush().expect("flushes");
    for number in 0..PAIRS {
        assert_eq!(model.store.get(&key(number), &mut Vec::new()), Ok(true));
    }
    std::thread::scope(|scope| {
        let model = &model;
        let readers = ["first", "second"].map(&random);
        let readers = readers.map(|random| scope.spawn(move || model.read_on(random)));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let random = random(&format!("writer {writer}"));
                scope.spawn(move || model.write(writer, random))
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        model.is_over.store(true, SeqCst);
        assert!(readers.into_iter().all(|reader| reader.join().is_ok()), "a reader panicked");
        assert!(ended.into_iter().all(|writer| writer.is_ok()), "a writer panicked");
    });
    for _ in 0..2 {
        let mut value = Vec::new();
        for (index, ended) in (0..).zip(&model.ended) {
            let found = model.store.get(&key_of(index), &mut value).expect("it is open");
            let last = ended.load(SeqCst);
            assert_eq!(found, !is_delete(last), "{index}");
            assert!(!found || value[..8] == last.to_le_bytes(), "{index}");
        }
        model.store.flush().expect("flushes");
    }
    let stats = model.store.stats();
    let detail = |name: &str| stats.detail.iter().find(|(key, _)| *key == name).expect("there").1;
    println!("{} pair hits, {} commits", detail("pair_hits"), detail("commits"));
    assert!(detail("pair_hits") > 100 && detail("commits") > 10);
    model.store.close().expect("closes");
}
