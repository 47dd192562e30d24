//! Power cuts at every operation of a run that does everything that changes files. The run has
//! flushes, merges, compactions, ingestions, reorganisations and range deletes. It also moves and
//! removes whole tables, and edits and rewrites the manifest.
//!
//! 1. A store on a simulated disk that keeps its history takes writes, all of which a journal has.
//!    After each step the test notes how far the disk was, and which events the store had met.
//! 2. For each operation of the disk the store is opened on an image that a crash may leave:
//!    unsynced writes are lost, kept or torn, names without their directory's sync are there or
//!    not. On every other image the power is cut again while the store is opened, or while it
//!    writes afterwards.
//! 3. Each key has a value that it had at some moment from the persisted number on. The journal's
//!    writes are applied again: everything is as in a map then, also after a flush, and the files
//!    are sound. An ingestion, which no journal has, is there if it had returned, and whole or
//!    absent if it was under way.
//!
//! `THERMOCLINE_SEED` chooses the operations and the data that the disk keeps, `THERMOCLINE_CASES`
//! the number of seeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use conformance::Journaled;
use device::{Device, Faults, SimulatedDisk};
use engine::{BlockingWrites, Direction, Engine, KeyRange, Op, Result, SeqNo};
use environment::{Random, Seed};
use rand::RngExt;

use super::stores::{Bench, key, scan, small};
use crate::{Compression, Options};

/// Steps of a run.
const STEPS: u64 = 110;
/// Keys that are drawn, and where those end that are ingested from one of these on.
const KEYS: u64 = 300;
const KEYS_END: u64 = 500;
const MEMORY_BYTES: u64 = 1 << 20;
/// Operations after which the power is cut again, in rotation.
const AGAIN: u64 = 24;

/// Operation at one number.
#[derive(Clone, Debug)]
enum What {
    Put(u64, usize),
    Delete(u64),
    DeleteRange(u64, u64),
    /// Ingests every n-th key from a key on, up to a number of keys.
    Ingest(u64, usize, u64),
}

impl What {
    /// The keys that it gives a value.
    fn puts(&self) -> Box<dyn Iterator<Item = u64>> {
        match *self {
            Self::Put(number, _) => Box::new(std::iter::once(number)),
            Self::Ingest(from, every, count) => {
                Box::new((from..).step_by(every).take(count as usize))
            }
            _ => Box::new(std::iter::empty()),
        }
    }

    fn deletes(&self, number: u64) -> bool {
        match *self {
            Self::Delete(deleted) => deleted == number,
            Self::DeleteRange(start, end) => (start..end).contains(&number),
            _ => false,
        }
    }
}

/// A write, with the disk's operations before and after it. Its number is its place among all, from
/// 1 on.
struct Write {
    what: What,
    begun: u64,
    ended: u64,
}

/// The value that the write of this number gives a key.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.extend((0..bytes as u64).map(|at| codec::hash64(number, &at.to_le_bytes()) as u8));
    value
}

/// Events of the steps during which the power was cut. Range deletes count if the manifest has
/// them.
const MET: [&str; 9] = [
    "flushes",
    "memtable_merges",
    "compactions",
    "moves",
    "drops",
    "ingestions",
    "reorganisations_major",
    "range_deletes",
    "manifests",
];

type Met = [u64; MET.len()];

/// A result, or a description of the defect that was found.
type Judged<T = ()> = std::result::Result<T, String>;

fn met(bench: &Bench) -> Met {
    MET.map(|name| match name {
        "manifests" => newest_manifest(bench),
        "range_deletes" => bench.store.shared.state.load().deletes.durable.len() as u64,
        name => bench.detail(name),
    })
}

fn newest_manifest(bench: &Bench) -> u64 {
    let files = bench.device.list("").expect("the disk lists");
    let numbers = files.iter().filter_map(|file| file.name.strip_prefix("manifest-")?.parse().ok());
    numbers.max().expect("there is one")
}

fn options(seed: u64) -> Options {
    // Of pairs as small as these, memtables that become full within the run.
    let options =
        Options { compression: vec![Compression::None], memtable_bytes_max: 4 << 10, ..small() };
    match seed % 3 {
        0 => Options { range_deletes_max: 2, ..options },
        1 => Options { slots_max: 6, merging: true, ..options },
        _ => Options { slots_max: 3, merging: true, lookup_index_bytes_max: 0, ..options },
    }
}

fn open(disk: &Arc<SimulatedDisk>, seed: u64) -> Result<Bench> {
    let device: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(disk);
    Bench::with_options(device, Arc::new(Journaled), MEMORY_BYTES, options(seed))
}

/// Does a write, under the number that comes next.
fn write(bench: &Bench, what: &What) -> Result<u64> {
    let number_of = |op: Op<'_>| -> Result<u64> {
        bench.store.write_next(&[op], &bench.sequence).map(SeqNo::get)
    };
    let next = bench.sequence.last().get() + 1;
    match what {
        What::Put(number, bytes) => {
            number_of(Op::Put { key: &key(*number), value: &value(next, *bytes) })
        }
        What::Delete(number) => number_of(Op::Delete { key: &key(*number) }),
        What::DeleteRange(start, end) => {
            number_of(Op::DeleteRange { start: &key(*start), end: Some(&key(*end)) })
        }
        What::Ingest(..) => {
            let mut ingestion = bench.store.ingestion()?;
            what.puts().try_for_each(|number| ingestion.push(&key(number), &value(next, 90)))?;
            let ticket = bench.sequence.begin();
            ingestion.commit(ticket.seqno())?;
            Ok(ticket.seqno().get())
        }
    }
}

/// A run: its writes, and what each operation of the disk was part of.
#[derive(Default)]
struct Run {
    writes: Vec<Write>,
    /// Ends of the steps, and the events in each.
    steps: Vec<(u64, Met)>,
}

impl Run {
    fn of(disk: &Arc<SimulatedDisk>, seed: u64, random: &mut Random) -> Self {
        let mut run = Self::default();
        let bench = open(disk, seed).expect("an honest disk");
        let mut before = met(&bench);
        for step in 0..STEPS {
            // The hot keys move.
            let hot = step / 25 * 70;
            match random.random_range(0..20) {
                0..10 => {
                    for _ in 0..random.random_range(1..60) {
                        let any = random.random_range(0..KEYS);
                        let number = if random.random_bool(0.6) { hot + any % 5 } else { any };
                        let what = match random.random_range(0..8) {
                            0 => What::Delete(number),
                            _ => What::Put(number, random.random_range(10..60)),
                        };
                        run.write(disk, &bench, what);
                    }
                }
                10..12 => {
                    let start = random.random_range(0..KEYS);
                    let end = start + random.random_range(1..120);
                    run.write(disk, &bench, What::DeleteRange(start, end));
                }
                12..14 => {
                    let from = random.random_range(0..KEYS);
                    let (every, count) = (random.random_range(1..5), random.random_range(1..40));
                    run.write(disk, &bench, What::Ingest(from, every, count));
                }
                14..18 => drop(bench.crank.run_one()),
                18 => drop(bench.crank.run_all()),
                _ => bench.store.flush().expect("an honest disk"),
            }
            let now = met(&bench);
            let came = std::array::from_fn(|at| now[at].abs_diff(before[at]));
            before = now;
            run.steps.push((disk.operations(), came));
        }
        run
    }

    fn write(&mut self, disk: &SimulatedDisk, bench: &Bench, what: What) {
        let begun = disk.operations();
        let number = write(bench, &what).expect("an honest disk");
        assert_eq!(number, self.writes.len() as u64 + 1);
        self.writes.push(Write { what, begun, ended: disk.operations() });
    }

    /// The state after the first writes; `skips` is a number that is left out.
    fn after(&self, count: usize, skips: Option<u64>) -> BTreeMap<u64, u64> {
        let mut map = BTreeMap::new();
        for (write, number) in self.writes[..count].iter().zip(1..) {
            if Some(number) != skips {
                map.retain(|key, _| !write.what.deletes(*key));
                map.extend(write.what.puts().map(|key| (key, number)));
            }
        }
        map
    }

    /// The number of the ingestion that is under way in an operation.
    fn ingestion_at(&self, operation: u64, made: usize) -> Option<u64> {
        let last = self.writes[..made].last()?;
        let is_under_way = matches!(last.what, What::Ingest(..)) && last.ended > operation;
        is_under_way.then_some(made as u64)
    }

    /// Checks each key of a store that was just opened against its values from `persisted` on.
    fn judge_as_found(&self, bench: &Bench, persisted: u64, made: usize) -> Judged {
        let base = self.after(persisted as usize, None);
        let later = &self.writes[persisted as usize..made];
        // A snapshot would be below the versions of later writes that were flushed.
        let found = numbers_by_gets(bench)?;
        for key in base.keys().chain(found.keys()) {
            let (found, base) = (found.get(key), base.get(key));
            let given = |number: u64| {
                let write = number.checked_sub(persisted + 1).and_then(|at| later.get(at as usize));
                write.is_some_and(|write| write.what.puts().any(|put| put == *key))
            };
            let is_so = match found {
                Some(number) => found == base || given(*number),
                None => base.is_none() || later.iter().any(|write| write.what.deletes(*key)),
            };
            if !is_so {
                return Err(format!("key {key} is of {found:?}, not of {base:?} or later"));
            }
        }
        Ok(())
    }

    /// Opens the files that a crash has left after an operation, applies the journal's writes
    /// again, and continues.
    fn judge(&self, image: &Arc<SimulatedDisk>, seed: u64, operation: u64) -> Judged {
        let made = self.writes.partition_point(|write| write.begun <= operation);
        let bench = open(image, seed).map_err(|error| format!("opening: {error}"))?;
        let persisted = bench.store.persisted().get();
        if persisted > made as u64 {
            return Err(format!("{persisted} writes are persisted, of {made}"));
        }
        self.judge_as_found(&bench, persisted, made)?;
        let skips = self.ingestion_at(operation, made).filter(|number| *number > persisted);
        self.replay(&bench, persisted, made - usize::from(skips.is_some()))?;
        let expected = self.after(made, skips);
        for flushes in [false, true] {
            if flushes {
                bench.store.flush().map_err(|error| format!("flushing: {error}"))?;
            }
            let found = numbers_of(&bench)?;
            if found != expected {
                let wrong = found.iter().filter(|pair| !expected.iter().any(|one| one == *pair));
                let (counts, wrong) = ((found.len(), expected.len()), wrong.collect::<Vec<_>>());
                return Err(format!(
                    "{counts:?} pairs, flushed: {flushes}; of them not: {wrong:?}"
                ));
            }
        }
        let last = bench.sequence.visible();
        if bench.store.persisted() != last {
            return Err(format!("of {last} only {} is persisted", bench.store.persisted()));
        }
        bench.store.close().map_err(|error| format!("closing: {error}"))?;
        let report = crate::check(&bench.device).map_err(|error| error.to_string())?;
        match report.is_sound() && report.leftover.is_empty() {
            true => Ok(()),
            false => Err(format!("{report:?}")),
        }
    }

    /// Applies the journal's writes above a number.
    fn replay(&self, bench: &Bench, from: u64, to: usize) -> Judged {
        for (at, again) in self.writes[..to].iter().enumerate().skip(from as usize) {
            if matches!(again.what, What::Ingest(..)) {
                return Err(format!("ingestion {} had returned, and is not there", at + 1));
            }
            let number = write(bench, &again.what).map_err(|error| format!("again: {error}"))?;
            assert_eq!(number, at as u64 + 1, "the number of what comes again");
        }
        Ok(())
    }

    /// Opens a disk whose power goes soon, and writes there what the journal has.
    fn recover_until_it_breaks(&self, image: &Arc<SimulatedDisk>, seed: u64, operation: u64) {
        image.power_cut_at(1 + operation % AGAIN);
        let made = self.writes.partition_point(|write| write.begun <= operation);
        let Ok(bench) = open(image, seed) else { return };
        let persisted = bench.store.persisted().get();
        let is_under_way = self.ingestion_at(operation, made).is_some_and(|one| one > persisted);
        if self.replay(&bench, persisted, made - usize::from(is_under_way)).is_ok() {
            let _ = bench.store.flush();
            bench.crank.run_all();
        }
    }
}

/// The number of the write that gave a key its value, which is whole.
fn number_in(found: &[u8]) -> Judged<u64> {
    let number = found.first_chunk().map(|number| u64::from_be_bytes(*number));
    let is_whole = |number: &u64| found == value(*number, found.len() - 8);
    number.filter(is_whole).ok_or_else(|| format!("a value of {found:?}"))
}

fn numbers_by_gets(bench: &Bench) -> Judged<BTreeMap<u64, u64>> {
    let found = |number| Some((number, bench.get(&key(number))?));
    let found = (0..KEYS_END).filter_map(found);
    found.map(|(number, value)| Ok((number, number_in(&value)?))).collect()
}

/// The same by scans, which gets are held to.
fn numbers_of(bench: &Bench) -> Judged<BTreeMap<u64, u64>> {
    let numbers = numbers_by_gets(bench)?;
    let expected = numbers.iter().map(|(at, number)| (key(*at), *number)).collect::<Vec<_>>();
    for direction in [Direction::Forward, Direction::Backward] {
        let pairs = scan(&bench.view(), KeyRange::all(), direction).into_iter();
        let pairs = pairs.map(|(key, value)| Ok((key, number_in(&value)?)));
        let mut pairs = pairs.collect::<Judged<Vec<_>>>()?;
        if direction == Direction::Backward {
            pairs.reverse();
        }
        if pairs != expected {
            return Err(format!("gets find {expected:?}, a scan {direction:?} {pairs:?}"));
        }
    }
    Ok(numbers)
}

/// Every operation of a run, and how many there were in whose middle each thing came.
fn crashes_of_a_seed(seed: u64) -> (Met, u64) {
    let mut random = Seed::from(seed).stream("lsm crash");
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let run = Run::of(&disk, seed, &mut random);
    let history = disk.history();
    let (mut replay, mut all) = (history.replay(), Met::default());
    for operation in 0..=history.last_operation() {
        replay.advance_to(operation);
        let image = replay.crash(seed ^ (operation << 8));
        if operation % 2 == 1 {
            run.recover_until_it_breaks(&image, seed, operation);
        }
        let image = if operation % 2 == 1 { image.crash(seed ^ operation) } else { image };
        let step = run.steps.partition_point(|(ended, _)| *ended <= operation);
        let came = run.steps.get(step).map(|(_, came)| *came).unwrap_or_default();
        if let Err(what) = run.judge(&image, seed, operation) {
            panic!(
                "seed {seed}, power cut after operation {operation}, with {MET:?} {came:?}: {what}\n\
                 replay: THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 \
                 cargo test -p thermocline-lsm --lib crash"
            );
        }
        all.iter_mut().zip(came).for_each(|(all, came)| *all += came.min(1));
    }
    (all, history.last_operation() + 1)
}

#[test]
fn no_power_cut_loses_what_the_journal_or_a_table_has() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = setting("THERMOCLINE_SEED").unwrap_or(1);
    let (mut all, cases) = (Met::default(), setting("THERMOCLINE_CASES").unwrap_or(3));
    for seed in first..first + cases {
        let (met, count) = crashes_of_a_seed(seed);
        println!("seed {seed}: {count} power cuts, in steps in which came {MET:?} {met:?}");
        all.iter_mut().zip(met).for_each(|(all, met)| *all += met);
    }
    assert!(cases < 3 || all.iter().all(|count| *count > 0), "not all was met: {MET:?} {all:?}");
}
