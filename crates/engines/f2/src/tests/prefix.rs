//! Checkpoints without a journal, after a power cut at any moment.
//!
//! A prefix of each thread's writes is there. With any write there are all writes that had ended
//! before it began. The prefix has at least the writes that the last finished flush had found.

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::yield_now;

use device::{Device, Faults, History, SimulatedDisk};
use engine::{Change, Engine};
use environment::{Random, Seed};
use rand::RngExt;
use sync::planted::must_fail;

use super::stores::{Bench, tiny};
use super::two_logs::small_cold;
use crate::checkpoint::SUPERBLOCK;
use crate::{Checkpoint, Options, check};

/// Keys of each thread; a few of them get most of the writes, and are changed in place.
const KEYS: usize = 150;
const BUSY_KEYS: usize = 6;
/// Flushes and compactions that must happen during the writes.
const FLUSHES: usize = 50;
const COMPACTIONS: u64 = 5;
/// Random runs on a faulty disk. Each finds the fault with a chance of nine tenths or more.
const RUNS: usize = 6;

fn single_log() -> Options {
    Options { single_log: true, disk_bytes_max: Some(96 << 10), ..tiny() }
}

/// One write of a thread: the first is number 1, and its number is the value.
struct Write {
    key: usize,
    is_delete: bool,
    /// How many writes of each thread had ended before it began.
    knew: Vec<usize>,
}

/// A flush that has ended.
struct Flushed {
    /// Number of the disk's operations when the flush had ended.
    at: u64,
    /// How many writes of each thread had ended before it began.
    found: Vec<usize>,
    checkpoint: Checkpoint,
}

/// The writes and flushes that threads have done to a store.
struct Deeds {
    seed: u64,
    options: Options,
    writes: Vec<Vec<Write>>,
    flushes: Vec<Flushed>,
    history: History,
}

fn seed(name: &str) -> u64 {
    let replayed = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = replayed.unwrap_or_else(|| RandomState::new().hash_one(name));
    println!("{name}: seed {seed}; to replay, THERMOCLINE_SEED={seed} and this test's name");
    seed
}

fn key_of(thread: usize, key: usize) -> Vec<u8> {
    format!("thread {thread}, key {key}").into_bytes()
}

/// Returns a value of `words` words, which repeats the write's number. Few lengths are used, so
/// that some writes fit in the place of the old value.
fn value_of(number: usize, words: usize) -> Vec<u8> {
    (number as u64).to_le_bytes().repeat(words)
}

fn number_in(value: &[u8]) -> usize {
    let words: Vec<u64> =
        value.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert!(words.iter().all(|word| *word == words[0]), "a torn value: {words:?}");
    words[0] as usize
}

/// Does write `number` of thread `thread`.
fn write(bench: &Bench, thread: usize, number: usize, draw: &mut Random) -> (usize, bool) {
    let is_busy = draw.random_ratio(2, 3);
    let key = draw.random_range(0..if is_busy { BUSY_KEYS } else { KEYS });
    let name = key_of(thread, key);
    let words = if draw.random_ratio(1, 8) { 4 } else { 8 };
    let kind = draw.random_range(0..8);
    match kind {
        0 => bench.delete(&name),
        1..4 => {
            let value = value_of(number, words);
            bench.rmw(&name, &mut |_: Option<&[u8]>| Change::Put(value.clone()));
        }
        _ => bench.put(&name, &value_of(number, words)),
    }
    (key, kind == 0)
}

/// Threads write and flush at the same time, next to all background work, until there were some
/// flushes and some compactions.
fn crowd(seed: u64, options: Options, threads: usize) -> Deeds {
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let bench = Bench::open_on(Arc::clone(&disk) as _, options.clone());
    if let Some(cold) = bench.store.shared.cold.as_ref().filter(|_| seed.is_multiple_of(2)) {
        cold.index.snapshot_always();
    }
    let ended: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    let knows = || -> Vec<usize> { ended.iter().map(|ended| ended.load(SeqCst)).collect() };
    let is_over = AtomicBool::new(false);
    let flushed = AtomicUsize::new(0);
    let is_enough =
        || flushed.load(SeqCst) >= FLUSHES && bench.figure("compactions") >= COMPACTIONS;
    let mut deeds = std::thread::scope(|scope| {
        let flushing = scope.spawn(|| {
            let mut flushes = Vec::new();
            let mut found = knows();
            while !is_over.load(SeqCst) {
                if knows() == found {
                    yield_now();
                    continue;
                }
                found = knows();
                bench.store.flush().expect("flushes");
                let checkpoint = bench.store.newest_checkpoint();
                let at = disk.operations();
                flushes.push(Flushed { at, found: found.clone(), checkpoint });
                flushed.fetch_add(1, SeqCst);
            }
            flushes
        });
        let (bench, ended, knows, is_enough) = (&bench, &ended, &knows, &is_enough);
        let write_all = |thread: usize| {
            let mut draw = Seed::from(seed).stream(&format!("thread {thread}"));
            let numbers = (1..).take_while(|number| number % 100 != 1 || !is_enough());
            let writing = numbers.map(|number| {
                let knew = knows();
                let (key, is_delete) = write(bench, thread, number, &mut draw);
                ended[thread].store(number, SeqCst);
                Write { key, is_delete, knew }
            });
            writing.collect()
        };
        let writing: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || write_all(thread))).collect();
        let writes = writing.into_iter().map(|thread| thread.join().expect("writes")).collect();
        is_over.store(true, SeqCst);
        let flushes = flushing.join().expect("flushes");
        Deeds { seed, options, writes, flushes, history: disk.history() }
    });
    println!(
        "{} writes, {} flushes, {} compactions of the hot log, {} operations of the disk",
        deeds.writes.iter().map(Vec::len).sum::<usize>(),
        deeds.flushes.len(),
        bench.figure("compactions"),
        deeds.history.last_operation()
    );
    deeds.history = disk.history();
    deeds
}

/// Returns the values of a thread's keys.
fn found_of(bench: &Bench, thread: usize) -> Vec<Option<usize>> {
    let value = |key| bench.get(&key_of(thread, key)).map(|value| number_in(&value));
    (0..KEYS).map(value).collect()
}

impl Deeds {
    /// Returns the numbers of writes after which a thread's keys had the values that were found.
    fn prefixes(&self, thread: usize, found: &[Option<usize>]) -> Vec<usize> {
        let mut state = vec![None; KEYS];
        let mut fitting = Vec::new();
        fitting.extend((state == found).then_some(0));
        for (before, write) in self.writes[thread].iter().enumerate() {
            state[write.key] = (!write.is_delete).then_some(before + 1);
            fitting.extend((state == found).then_some(before + 1));
        }
        fitting
    }

    /// Checks that the state after a power cut at operation `cut` is a state that the store was in.
    fn must_recover(&self, image: &Bench, cut: u64) {
        let recovered = image.store.recovered();
        let flushed = self.flushes.iter().rev().find(|flushed| flushed.at <= cut);
        let fitting: Vec<Vec<usize>> = (0..self.writes.len())
            .map(|thread| {
                let found = found_of(image, thread);
                let fitting = self.prefixes(thread, &found);
                assert!(
                    !fitting.is_empty(),
                    "seed {}, cut at {cut}: thread {thread} has no prefix of its writes: {found:?}",
                    self.seed
                );
                fitting
            })
            .collect();
        let most: Vec<usize> = fitting.iter().map(|fitting| fitting[fitting.len() - 1]).collect();
        for (thread, fitting) in fitting.iter().enumerate() {
            let Some(last) = fitting[0].checked_sub(1) else { continue };
            let knew = &self.writes[thread][last].knew;
            assert!(
                knew.iter().zip(&most).all(|(knew, most)| knew <= most),
                "seed {}, cut at {cut}: write {} of thread {thread} came after {knew:?}, and of \
                 these {most:?} are there",
                self.seed,
                fitting[0]
            );
        }
        let Some(flushed) = flushed else { return };
        assert!(
            flushed.found.iter().zip(&most).all(|(found, most)| found <= most),
            "seed {}, cut at {cut}: {:?} were flushed, {most:?} are there",
            self.seed,
            flushed.found
        );
        assert!(recovered >= flushed.checkpoint, "{recovered:?}, {:?}", flushed.checkpoint);
    }

    /// Draws disks as the machine may find them after a power cut at each of `cuts`, which rise.
    fn must_survive(&self, cuts: impl IntoIterator<Item = u64>) {
        let mut replay = self.history.replay();
        for cut in cuts {
            replay.advance_to(cut);
            let disk: Arc<dyn Device> = replay.crash(self.seed ^ cut);
            let entries = check(&disk).expect("is checked").entries;
            let image = Bench::open_by_hand(disk, self.options.clone(), cut);
            if let Some(cold) = &image.store.shared.cold {
                assert_eq!(cold.index.counts().entries, entries, "seed {}, {cut}", self.seed);
            }
            self.must_recover(&image, cut);
        }
    }

    /// The same, and the power fails again at every operation of the recovery from the first cut.
    fn must_survive_twice(&self, cuts: impl IntoIterator<Item = u64>) {
        let mut replay = self.history.replay();
        let (mut operations, mut removals) = (0, 0);
        for cut in cuts {
            replay.advance_to(cut);
            let disk = replay.crash(self.seed ^ cut);
            disk.keep_history();
            let files = || disk.list("").expect("is listed").len();
            let before = files();
            let image = Bench::open_by_hand(Arc::clone(&disk) as _, self.options.clone(), cut);
            self.must_recover(&image, cut);
            let recovery = disk.history();
            removals += before.saturating_sub(files());
            let mut again = recovery.replay();
            for second in 0..=recovery.last_operation() {
                again.advance_to(second);
                let disk: Arc<dyn Device> = again.crash(self.seed ^ cut ^ second << 32);
                let image = Bench::open_by_hand(disk, self.options.clone(), cut);
                self.must_recover(&image, cut);
            }
            operations += recovery.last_operation();
        }
        println!("{operations} operations of recoveries, {removals} files removed");
        assert!(operations > 100 && removals > 10, "{operations} operations, {removals} removals");
    }

    fn random_cuts(&self, count: usize) -> Vec<u64> {
        let mut draw = Seed::from(self.seed).stream("cuts");
        let last = self.history.last_operation();
        let mut cuts: Vec<u64> = (0..count).map(|_| draw.random_range(0..=last)).collect();
        cuts.sort_unstable();
        cuts
    }
}

#[test]
fn a_checkpoint_of_two_logs_has_a_prefix_of_each_threads_writes() {
    let deeds = crowd(seed("prefix of two logs"), small_cold(), 4);
    deeds.must_survive(deeds.random_cuts(60));
}

#[test]
fn a_checkpoint_of_a_single_log_has_a_prefix_of_each_threads_writes() {
    let deeds = crowd(seed("prefix of a single log"), single_log(), 4);
    deeds.must_survive(deeds.random_cuts(60));
}

/// Runs one thread, whose run a seed decides, with all background work between its writes, until
/// its logs were compacted some times.
fn alone(seed: u64, options: Options, faults: Faults) -> Deeds {
    let disk = SimulatedDisk::new(seed, faults);
    disk.keep_history();
    let bench = Bench::open_by_hand(Arc::clone(&disk) as _, options.clone(), seed);
    let mut draw = Seed::from(seed).stream("thread 0");
    let mut deeds = Deeds {
        seed,
        options,
        writes: vec![Vec::new()],
        flushes: Vec::new(),
        history: disk.history(),
    };
    let logs = if deeds.options.single_log { 1 } else { 2 };
    let rounds = || -> Vec<u64> {
        let names = ["compactions", "cold_compactions"].into_iter().take(logs);
        names.map(|name| bench.figure(name)).collect()
    };
    let numbers = (1..).take_while(|_| rounds().iter().any(|rounds| *rounds < COMPACTIONS));
    for number in numbers {
        let (key, is_delete) = write(&bench, 0, number, &mut draw);
        deeds.writes[0].push(Write { key, is_delete, knew: vec![number - 1] });
        if draw.random_ratio(1, 10) {
            bench.advance();
        }
        if draw.random_ratio(1, 40) {
            bench.store.flush().expect("flushes");
            let checkpoint = bench.store.newest_checkpoint();
            deeds.flushes.push(Flushed { at: disk.operations(), found: vec![number], checkpoint });
        }
    }
    deeds.history = disk.history();
    let (writes, last) = (deeds.writes[0].len(), deeds.history.last_operation());
    println!("{writes} writes, {:?} compactions, {last} operations", rounds());
    deeds
}

/// The law that no old value reappears. Writes and deletes run next to compactions of both logs,
/// checkpoints and removals of files, with a power cut at every operation of the disk. The
/// recovered state stays the same when it is compacted again.
#[test]
fn law_compaction_never_resurrects() {
    never_resurrects(small_cold(), Faults::none());
}

/// The same for a store with one log. Its compaction appends live records to the log's own tail,
/// and finds them by lookups or by a scan.
#[test]
fn law_compaction_of_a_single_log_never_resurrects() {
    for scan_compaction in [false, true] {
        never_resurrects(Options { scan_compaction, ..single_log() }, Faults::none());
    }
}

/// The same on a disk with faults.
fn never_resurrects(options: Options, faults: Faults) {
    let deeds = alone(seed("never resurrects"), options, faults);
    let mut replay = deeds.history.replay();
    for cut in 0..=deeds.history.last_operation() {
        replay.advance_to(cut);
        let disk: Arc<dyn Device> = replay.crash(deeds.seed ^ cut);
        let image = Bench::open_by_hand(disk, deeds.options.clone(), cut);
        deeds.must_recover(&image, cut);
        if cut.is_multiple_of(20) {
            let found = found_of(&image, 0);
            let (begin, end) = (image.figure("log_begin"), image.figure("log_tail"));
            for number in 0.. {
                // The length differs each time, so that no record is changed in place.
                let filler = value_of(number, 7 + number / 200 % 2);
                image.put(format!("filler {}", number % 200).as_bytes(), &filler);
                if number % 20 == 0 {
                    image.advance();
                }
                if image.figure("log_begin") >= end {
                    break;
                }
            }
            assert!(image.figure("log_begin") > begin);
            assert_eq!(found_of(&image, 0), found, "seed {}, cut at {cut}", deeds.seed);
        }
    }
}

#[test]
fn a_superblock_that_is_not_synced_is_found() {
    must_fail("a superblock that is not synced", "", || {
        for _ in 0..RUNS {
            let faults = Faults { unsynced_name: Some(SUPERBLOCK), ..Faults::none() };
            never_resurrects(small_cold(), faults);
        }
    });
}

/// A recovery that is cut off can itself be recovered from.
#[test]
fn a_recovery_may_be_cut_off_at_any_operation() {
    let deeds = alone(seed("recovery cut off"), small_cold(), Faults::none());
    deeds.must_survive_twice(deeds.random_cuts(180));
}

/// A copy of the store is whole or no store, wherever the power fails during the copy; and so is
/// the store that is copied.
#[test]
fn a_copy_may_be_cut_off_at_any_operation() {
    let seed = seed("copy cut off");
    let (source, into) =
        (SimulatedDisk::new(seed, Faults::none()), SimulatedDisk::new(seed ^ 1, Faults::none()));
    let bench = Bench::open_by_hand(Arc::clone(&source) as _, small_cold(), seed);
    let mut draw = Seed::from(seed).stream("thread 0");
    for number in 1..3_000 {
        write(&bench, 0, number, &mut draw);
        if number % 10 == 0 {
            bench.advance();
        }
    }
    assert!(bench.figure("compactions") > 0 && bench.figure("cold_log_tail") > 64);
    let found = found_of(&bench, 0);
    bench.store.flush().expect("flushes");
    source.keep_history();
    into.keep_history();
    bench.put(&key_of(1, 0), &value_of(1, 8));
    bench.store.checkpoint(Arc::clone(&into) as _, &engine::go_on).expect("is written");
    for (disk, is_copy) in [(source, false), (into, true)] {
        let history = disk.history();
        let (mut replay, mut whole) = (history.replay(), 0);
        for cut in 0..=history.last_operation() {
            replay.advance_to(cut);
            let image: Arc<dyn Device> = replay.crash(seed ^ cut);
            if is_copy && !image.exists(SUPERBLOCK).expect("is looked for") {
                assert!(cut < history.last_operation(), "it had been written");
                let is_empty = image.list("").expect("is listed").is_empty();
                let open = || drop(Bench::open_by_hand(Arc::clone(&image), small_cold(), cut));
                let opened = catch_unwind(AssertUnwindSafe(open));
                assert!(is_empty || opened.is_err(), "it is taken for empty, cut at {cut}");
                continue;
            }
            whole += 1;
            let image = Bench::open_by_hand(image, small_cold(), cut);
            assert_eq!(found_of(&image, 0), found, "seed {seed}, cut at {cut}");
        }
        println!("{whole} whole of {}", history.last_operation() + 1);
        assert!(whole > 0 && history.last_operation() > 4);
    }
}

/// A write above a cut must not reach the cold index before that index is cut too: it would be in
/// the checkpoint without the writes that had ended before it.
#[test]
fn what_lies_above_a_cut_does_not_move_while_the_cold_index_is_not_cut() {
    let bench = Bench::open_by_hand(device::memory(), small_cold(), 1);
    let write_much = |round: usize| {
        for number in 0..1_000 {
            bench.put(&key_of(round, number), &value_of(number, 8));
            if number % 20 == 0 {
                bench.advance();
            }
        }
    };
    write_much(0);
    let tail = bench.figure("log_tail");
    let shared = &bench.store.shared;
    // A checkpoint takes this lock too, so that there is only one at a time.
    let one_at_a_time = shared.checkpoints.checkpointer.lock();
    let held = shared.checkpoints.gate.hold(shared.hot.log.tail());
    write_much(1);
    assert!(bench.figure("log_tail") > tail + (64 << 10), "there is much to move");
    assert!(bench.figure("log_begin") <= tail, "what is above the cut has moved");
    drop((held, one_at_a_time));
    write_much(2);
    assert!(bench.figure("log_begin") > tail);
}

/// D10: the reference recovers and reports version 0.
#[test]
fn d10_recovery_reports_the_checkpoint() {
    let bench = Bench::open(tiny());
    assert_eq!(bench.store.recovered(), Checkpoint::default());
    for number in 1..=3 {
        bench.put(b"key", &value_of(number, 8));
        bench.store.flush().expect("flushes");
        let checkpoint = bench.store.newest_checkpoint();
        assert_eq!((checkpoint.number, checkpoint.persisted.get()), (number as u64, number as u64));
        bench.store.flush().expect("flushes nothing");
        assert_eq!(bench.store.newest_checkpoint(), checkpoint);
    }
    let into = device::memory();
    bench.store.checkpoint(Arc::clone(&into), &engine::go_on).expect("is written");
    bench.put(b"key", &value_of(4, 8));
    let third = bench.store.newest_checkpoint();
    let device = Arc::clone(&bench.device);
    // A crash: nothing is flushed, nothing is closed.
    drop(bench);
    for device in [device, into] {
        let bench = Bench::open_on(device, tiny());
        assert_eq!(bench.store.recovered(), third);
        assert_eq!(bench.figure("recovered_checkpoint"), 3);
        assert_eq!(bench.get(b"key"), Some(value_of(3, 8)));
    }
}
