//! A power cut of a store without a journal leaves every write that a flush had made durable, and
//! of each key a value that it had at some moment since.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use engine::{Engine, NoJournal};
use environment::Seed;
use rand::RngExt;

use super::stores::{Bench, key, small};

const KEYS: u64 = 30;
const WRITES: u64 = 250;

fn open(device: Arc<dyn Device>) -> Bench {
    let opened = Bench::with(device, Arc::new(NoJournal), small());
    opened.expect("what a crash leaves is sound")
}

/// Returns the value that a write gives a key, on one side of the separation or the other.
fn value(number: u64) -> Vec<u8> {
    [number.to_be_bytes().as_slice(), &[7; 500][..if number.is_multiple_of(3) { 20 } else { 500 }]]
        .concat()
}

/// A write: its key, whether it is a put, and the disk's operations before it.
type Write = (u64, bool, u64);

/// Returns the writes of a run, and after how many of them each flush had ended, with the disk's
/// operation.
fn run(disk: &Arc<SimulatedDisk>, seed: u64) -> (Vec<Write>, Vec<(u64, usize)>) {
    let mut random = Seed::from(seed).stream("hashkv unjournaled");
    let (mut writes, mut flushes) = (Vec::new(), vec![(0, 0)]);
    let bench = open(Arc::<SimulatedDisk>::clone(disk));
    for number in 1..=WRITES {
        let at = random.random_range(0..KEYS);
        let is_put = random.random_bool(0.8);
        writes.push((at, is_put, disk.operations()));
        let applied = match is_put {
            true => bench.put(&key(at), &value(number)),
            false => bench.delete(&key(at)),
        };
        assert_eq!(applied.get(), number);
        match random.random_range(0..40) {
            0 => {
                bench.store.flush().expect("an honest disk");
                flushes.push((disk.operations(), number as usize));
            }
            1..10 => drop(bench.crank.run_one()),
            10..12 => bench.write_buffers().expect("an honest disk"),
            _ => {}
        }
    }
    (writes, flushes)
}

/// The number of the write that gave each key its value, after these writes.
fn after(writes: &[Write]) -> BTreeMap<u64, u64> {
    let mut map = BTreeMap::new();
    for ((key, is_put, _), number) in writes.iter().zip(1..) {
        match is_put {
            true => _ = map.insert(*key, number),
            false => _ = map.remove(key),
        }
    }
    map
}

#[test]
fn a_crash_without_a_journal_leaves_each_key_as_it_was_since_the_last_flush() {
    for seed in 1..=2 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let (writes, flushes) = run(&disk, seed);
        let history = disk.history();
        let mut replay = history.replay();
        for operation in 0..=history.last_operation() {
            replay.advance_to(operation);
            let image: Arc<dyn Device> = replay.crash(seed ^ (operation << 8));
            let newest = crate::check(&image).expect("an honest disk").newest;
            let bench = open(image);
            let made = writes.partition_point(|(.., begun)| *begun <= operation);
            let flushed = flushes.iter().rev().find(|(ended, _)| *ended <= operation);
            let flushed = flushed.map_or(0, |(_, count)| *count);
            let base = after(&writes[..flushed]);
            for at in 0..KEYS {
                let stored = bench.get(&key(at));
                let found = stored.as_ref().map(|stored| {
                    let number = u64::from_be_bytes(*stored.first_chunk().expect("a number"));
                    assert_eq!(stored, &value(number), "a whole value");
                    number
                });
                let later = writes[flushed..made].iter().zip(flushed as u64 + 1..);
                let mut later = later.filter(|((key, ..), _)| *key == at);
                let is_so = found == base.get(&at).copied()
                    || later.any(|((_, is_put, _), number)| is_put.then_some(number) == found);
                assert!(is_so, "seed {seed}, operation {operation}: key {at} is of {found:?}");
            }
            // A later write has a number that no record has.
            let number = bench.put(&key(0), &[1; 600]);
            assert!(number > newest, "seed {seed}, operation {operation}: {number} after {newest}");
            bench.store.flush().expect("an honest disk");
            assert_eq!(bench.get(&key(0)), Some(vec![1; 600]));
        }
    }
}
