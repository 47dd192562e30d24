//! Law H2: power cuts at every operation of a run. The run flushes buffers, seals and collects
//! segments, flushes and compacts the index, rewrites the segment table, and opens the store again.
//!
//! 1. A store on a simulated disk that keeps its history takes writes, all of which a journal has.
//!    After each step the test notes how far the disk was.
//! 2. For each operation of the disk the store is opened on an image that a crash may leave:
//!    unsynced writes are lost, kept or torn. On every other image the power is cut again while the
//!    store is opened, or while it writes afterwards.
//! 3. Each key has a value that it had at some moment from the persisted number on. The journal's
//!    writes are applied again: everything is as in a map then, also after a flush and a collection
//!    of all garbage, and the files are sound.
//!
//! `THERMOCLINE_SEED` chooses the operations and the data that the disk keeps, `THERMOCLINE_CASES`
//! the number of seeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use conformance::Journaled;
use device::{Device, Faults, SimulatedDisk};
use engine::{BlockingWrites, Direction, Engine, KeyRange, Op, Result};
use environment::{Random, Seed};
use rand::RngExt;

use super::stores::{Bench, key, scan, small};

/// Steps of a run.
const STEPS: u64 = 60;
const KEYS: u64 = 40;
/// Operations after which the power is cut again, in rotation.
const AGAIN: u64 = 24;

/// A write, and the disk's operations before it. Its number is its place among all, from 1 on.
struct Write {
    key: u64,
    /// Bytes of the value; `None` for a delete.
    bytes: Option<usize>,
    begun: u64,
}

/// A result, or a description of the defect that was found.
type Judged<T = ()> = std::result::Result<T, String>;

/// The value that the write of this number gives a key.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.extend((0..bytes as u64).map(|at| codec::hash64(number, &at.to_le_bytes()) as u8));
    value
}

/// The number of the write that gave a key its value, which is whole.
fn number_in(found: &[u8]) -> Judged<u64> {
    let number = found.first_chunk().map(|number| u64::from_be_bytes(*number));
    let is_whole = |number: &u64| found == value(*number, found.len() - 8);
    number.filter(is_whole).ok_or_else(|| format!("a value of {} bytes", found.len()))
}

fn open(disk: &Arc<SimulatedDisk>) -> Result<Bench> {
    let device: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(disk);
    Bench::with(device, Arc::new(Journaled), small())
}

fn write(bench: &Bench, write: &Write) -> Result<u64> {
    let (key, next) = (key(write.key), bench.sequence.last().get() + 1);
    let number = match write.bytes {
        Some(bytes) => {
            let value = value(next, bytes);
            bench.store.write_next(&[Op::Put { key: &key, value: &value }], &bench.sequence)
        }
        None => bench.store.write_next(&[Op::Delete { key: &key }], &bench.sequence),
    };
    number.map(|number| number.get())
}

#[derive(Default)]
struct Run {
    writes: Vec<Write>,
}

impl Run {
    fn of(disk: &Arc<SimulatedDisk>, random: &mut Random) -> Self {
        let mut run = Self::default();
        let mut bench = open(disk).expect("an honest disk");
        for _ in 0..STEPS {
            match random.random_range(0..23) {
                0..11 => {
                    for _ in 0..random.random_range(1..25) {
                        // Lengths on both sides of the separation; a few records are longer than
                        // half a segment.
                        let bytes = match random.random_range(0..40) {
                            0..5 => None,
                            5..15 => Some(random.random_range(0..40)),
                            15..39 => Some(random.random_range(100..1500)),
                            _ => Some(random.random_range(30_000..80_000)),
                        };
                        let key = random.random_range(0..KEYS);
                        let begun = disk.operations();
                        run.writes.push(Write { key, bytes, begun });
                        let number = write(&bench, &run.writes[run.writes.len() - 1]);
                        assert_eq!(number, Ok(run.writes.len() as u64));
                    }
                }
                11..13 => bench.write_buffers().expect("an honest disk"),
                13..17 => drop(bench.crank.run_one()),
                17 => drop(bench.crank.run_all()),
                18 => bench.store.flush().expect("an honest disk"),
                19..22 => bench.collect_once().map(|_| ()).expect("an honest disk"),
                _ => {
                    // Without the journal's replay only what is persisted is there again.
                    bench.store.flush().expect("an honest disk");
                    bench.store.close().expect("an honest disk");
                    bench = open(disk).expect("an honest disk");
                }
            }
        }
        run
    }

    /// The numbers of the writes that gave the keys their values, after the first writes.
    fn after(&self, count: usize) -> BTreeMap<u64, u64> {
        let mut map = BTreeMap::new();
        for (write, number) in self.writes[..count].iter().zip(1..) {
            match write.bytes {
                Some(_) => _ = map.insert(write.key, number),
                None => _ = map.remove(&write.key),
            }
        }
        map
    }

    /// Checks each key of a store that was just opened against its values from `persisted` on.
    fn judge_as_found(&self, bench: &Bench, persisted: usize, made: usize) -> Judged {
        let (base, found) = (self.after(persisted), numbers_by_gets(bench)?);
        for at in 0..KEYS {
            let (found, base) = (found.get(&at).copied(), base.get(&at).copied());
            let later = self.writes[persisted..made].iter().zip(persisted as u64 + 1..);
            let mut later = later.filter(|(write, _)| write.key == at);
            let gave = |(write, number): (&Write, u64)| write.bytes.map(|_| number) == found;
            if found != base && !later.any(gave) {
                return Err(format!("key {at} is of {found:?}, not of {base:?} or later"));
            }
        }
        Ok(())
    }

    /// Opens the files that a crash has left after an operation, applies the journal's writes
    /// again, and continues.
    fn judge(&self, image: &Arc<SimulatedDisk>, operation: u64) -> Judged {
        let made = self.writes.partition_point(|write| write.begun <= operation);
        let bench = open(image).map_err(|error| format!("opening: {error}"))?;
        let persisted = bench.store.persisted().get() as usize;
        if persisted > made {
            return Err(format!("{persisted} writes are persisted, of {made}"));
        }
        self.judge_as_found(&bench, persisted, made)?;
        self.replay(&bench, persisted, made)?;
        let expected = self.after(made);
        for step in ["", "a flush", "a collection"] {
            match step {
                "a flush" => bench.store.flush().map_err(|error| format!("flushing: {error}"))?,
                "a collection" => {
                    bench.end_segments();
                    bench.collect_all();
                }
                _ => {}
            }
            let found = numbers_of(&bench)?;
            if found != expected {
                return Err(format!("{found:?} instead of {expected:?}, after {step}"));
            }
        }
        let last = bench.sequence.visible();
        if bench.store.persisted() != last {
            return Err(format!("of {last} only {} is persisted", bench.store.persisted()));
        }
        bench.store.close().map_err(|error| format!("closing: {error}"))?;
        let report = crate::check(&bench.device).map_err(|error| error.to_string())?;
        match report.is_sound() && report.pairs == expected.len() as u64 {
            true => Ok(()),
            false => Err(format!("{report:?}")),
        }
    }

    /// Applies the journal's writes above a number.
    fn replay(&self, bench: &Bench, from: usize, to: usize) -> Judged {
        for (at, again) in self.writes[..to].iter().enumerate().skip(from) {
            let number = write(bench, again).map_err(|error| format!("again: {error}"))?;
            assert_eq!(number, at as u64 + 1, "the number of what comes again");
        }
        Ok(())
    }

    /// Opens a disk whose power goes soon, and writes there what the journal has.
    fn recover_until_it_breaks(&self, image: &Arc<SimulatedDisk>, operation: u64) {
        image.power_cut_at(1 + operation % AGAIN);
        let made = self.writes.partition_point(|write| write.begun <= operation);
        let Ok(bench) = open(image) else { return };
        let persisted = bench.store.persisted().get() as usize;
        if self.replay(&bench, persisted, made).is_ok() {
            let _ = bench.store.flush();
            let _ = bench.collect_once();
            bench.crank.run_all();
        }
    }
}

fn numbers_by_gets(bench: &Bench) -> Judged<BTreeMap<u64, u64>> {
    let found = (0..KEYS).filter_map(|number| Some((number, bench.get(&key(number))?)));
    found.map(|(number, value)| Ok((number, number_in(&value)?))).collect()
}

/// The same by scans, which gets are held to.
fn numbers_of(bench: &Bench) -> Judged<BTreeMap<u64, u64>> {
    let numbers = numbers_by_gets(bench)?;
    let expected = numbers.iter().map(|(at, number)| (key(*at), *number)).collect::<Vec<_>>();
    let pairs = scan(&bench.view(), KeyRange::all(), Direction::Forward).into_iter();
    let pairs = pairs.map(|(key, value)| Ok((key, number_in(&value)?)));
    match pairs.collect::<Judged<Vec<_>>>()? {
        pairs if pairs == expected => Ok(numbers),
        pairs => Err(format!("gets find {expected:?}, a scan {pairs:?}")),
    }
}

/// Returns the number of power cuts.
fn crashes_of_a_seed(seed: u64) -> u64 {
    let mut random = Seed::from(seed).stream("hashkv crash");
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let run = Run::of(&disk, &mut random);
    let history = disk.history();
    let mut replay = history.replay();
    for operation in 0..=history.last_operation() {
        replay.advance_to(operation);
        let image = replay.crash(seed ^ (operation << 8));
        if operation % 2 == 1 {
            run.recover_until_it_breaks(&image, operation);
        }
        let image = if operation % 2 == 1 { image.crash(seed ^ operation) } else { image };
        if let Err(what) = run.judge(&image, operation) {
            panic!(
                "seed {seed}, power cut after operation {operation}: {what}\n\
                 replay: THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 \
                 cargo test -p thermocline-hashkv --lib crash"
            );
        }
    }
    history.last_operation() + 1
}

#[test]
fn h2_no_power_cut_loses_what_the_journal_or_the_store_has() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = setting("THERMOCLINE_SEED").unwrap_or(1);
    let cases = setting("THERMOCLINE_CASES").unwrap_or(2);
    for seed in first..first + cases {
        println!("seed {seed}: {} power cuts", crashes_of_a_seed(seed));
    }
}
