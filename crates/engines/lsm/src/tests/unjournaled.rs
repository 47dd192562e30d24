//! A power cut of a store without a journal (guarantee 2) leaves every write that a flush had made
//! durable, and of each key a value that it had at some moment since. Different keys may be of
//! different moments, since each Drange is flushed when its own memtable is full.
//!
//! A store on a simulated disk that keeps its history takes puts, deletes and batches. The store is
//! opened on an image of each operation, and each key is compared with its values from the last
//! flush on.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use engine::{Engine, NoJournal, Op};
use environment::Seed;
use rand::RngExt;

use super::stores::{Bench, key, small};
use crate::Options;

const KEYS: u64 = 60;
const WRITES: u64 = 900;

/// A write: keys with their values or without.
struct Write {
    begun: u64,
    ops: Vec<(u64, bool)>,
}

fn open(disk: &Arc<SimulatedDisk>, seed: u64) -> Bench {
    let device: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(disk);
    let options = Options {
        memtable_bytes_max: 2 << 10,
        slots_max: 6,
        merging: seed.is_multiple_of(2),
        ..small()
    };
    let opened = Bench::with_options(device, Arc::new(NoJournal), 1 << 20, options);
    opened.expect("what a crash leaves is sound")
}

/// The value that write `number` gives a key.
fn value(number: u64) -> Vec<u8> {
    [number.to_be_bytes().as_slice(), &[7; 40]].concat()
}

/// The writes of a run, and after how many of them each flush had ended, with the disk's operation.
fn run(disk: &Arc<SimulatedDisk>, seed: u64) -> (Vec<Write>, Vec<(u64, usize)>) {
    let mut random = Seed::from(seed).stream("lsm unjournaled");
    let (mut writes, mut flushes) = (Vec::new(), vec![(0, 0)]);
    let bench = open(disk, seed);
    for number in 1..=WRITES {
        let count = if random.random_bool(0.2) { 4 } else { 1 };
        // Some keys take most writes, so that Dranges differ.
        let at = |any: u64| if any.is_multiple_of(4) { any % KEYS } else { any % 6 };
        let ops: Vec<(u64, bool)> = (0..count)
            .map(|_| (at(random.random_range(0..u64::MAX)), random.random_bool(0.8)))
            .collect();
        writes.push(Write { begun: disk.operations(), ops: ops.clone() });
        let stored = value(number);
        let keys: Vec<_> = ops.iter().map(|(number, _)| key(*number)).collect();
        let ops: Vec<_> = ops
            .iter()
            .zip(&keys)
            .map(|((_, is_put), key)| match is_put {
                true => Op::Put { key, value: &stored },
                false => Op::Delete { key },
            })
            .collect();
        assert_eq!(bench.apply(&ops).get(), number);
        match random.random_range(0..60) {
            0 => {
                bench.store.flush().expect("an honest disk");
                flushes.push((disk.operations(), number as usize));
            }
            1..20 => drop(bench.crank.run_one()),
            _ => {}
        }
    }
    (writes, flushes)
}

/// The number of the write that gave each key its value, after these writes.
fn after(writes: &[Write]) -> BTreeMap<u64, u64> {
    let mut map = BTreeMap::new();
    for (write, number) in writes.iter().zip(1..) {
        for (key, is_put) in &write.ops {
            match is_put {
                true => _ = map.insert(*key, number),
                false => _ = map.remove(key),
            }
        }
    }
    map
}

#[test]
fn a_crash_without_a_journal_leaves_each_key_as_it_was_since_the_last_flush() {
    let mut are_mixed = 0;
    for seed in 1..=2 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let (writes, flushes) = run(&disk, seed);
        let history = disk.history();
        let mut replay = history.replay();
        for operation in 0..=history.last_operation() {
            replay.advance_to(operation);
            let bench = open(&replay.crash(seed ^ (operation << 8)), seed);
            let made = writes.partition_point(|write| write.begun <= operation);
            let flushed = flushes.iter().rev().find(|(ended, _)| *ended <= operation);
            let flushed = flushed.map_or(0, |(_, count)| *count);
            let number = |stored: Vec<u8>| {
                stored.first_chunk().map_or(0, |number| u64::from_be_bytes(*number))
            };
            let found: BTreeMap<u64, u64> =
                (0..KEYS).filter_map(|at| Some((at, number(bench.get(&key(at))?)))).collect();
            let base = after(&writes[..flushed]);
            for at in 0..KEYS {
                let later = writes[flushed..made].iter().zip(flushed as u64 + 1..);
                let mut later = later.flat_map(|(write, number)| {
                    write.ops.iter().map(move |(key, is_put)| (*key, is_put.then_some(number)))
                });
                let found = found.get(&at).copied();
                let is_so = found == base.get(&at).copied() || later.any(|one| one == (at, found));
                assert!(
                    is_so,
                    "seed {seed}, operation {operation}: key {at} is of {found:?}, not of {:?} or later",
                    base.get(&at)
                );
            }
            let is_prefix = (flushed..=made).any(|count| after(&writes[..count]) == found);
            are_mixed += u64::from(!is_prefix);
        }
    }
    assert!(are_mixed > 0, "keys of different moments are what the documentation warns of");
}
