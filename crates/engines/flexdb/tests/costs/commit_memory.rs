//! Memory that a commit takes at any time from the allocator, in addition to counted memory.
//!
//! It is for reads, plans, the bytes that are written, and the records of the space's log.

use std::sync::Arc;

use conformance::{Bench, Journaled};
use engine::Engine;
use thermocline_flexdb::{Options, Store};

use super::{PAIR_BYTES, VALUE_BYTES, key};

const BUDGET: u64 = 16 << 20;
/// Three times the budget.
const KEYS: u64 = 3 * BUDGET / PAIR_BYTES;
const ROUNDS: u64 = 6;
/// Part of the budget (one in this many) that a commit takes at most: some chunks with the data
/// read for them, the records, copies of nodes, and the buffers of writes. There are no more
/// copies before readers get another base.
const PARTS: u64 = 16;

fn put(bench: &Bench<Store>, number: u64, byte: u8) {
    bench.put(&key(number), &[byte; VALUE_BYTES]);
}

#[test]
fn a_commit_takes_a_small_part_of_the_budget_beside_what_is_counted() {
    // On a device of the system: the content of one in memory would be allocated, too.
    let directory = tempfile::tempdir().expect("a directory");
    let device = device::open(directory.path(), device::Options::default()).expect("it opens");
    let open = |host| Store::open(host, Options::default());
    let (bench, crank) = Bench::cranked(device, Arc::new(Journaled), BUDGET, open);
    (0..KEYS).for_each(|number| put(&bench, number, 1));
    bench.store.flush().expect("the device takes it");
    let mut number = 0_u64;
    for round in 0..ROUNDS {
        let (mut puts, commits) = (0, bench.detail("commits"));
        while puts % 64 > 0 || bench.detail("memtables") < 4 {
            number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
            put(&bench, number % KEYS, round as u8);
            puts += 1;
        }
        assert_eq!(bench.detail("commits"), commits, "nobody has run one");
        let (pairs, index) = (bench.detail("committed_pairs"), bench.detail("index_bytes"));
        let taken = allocation_counter::measure(|| _ = crank.run_all());
        assert!(bench.detail("commits") > commits, "one was due");
        let pairs = bench.detail("committed_pairs") - pairs;
        let grown = bench.detail("index_bytes") as i64 - index as i64;
        println!(
            "{pairs} pairs: {} KiB at most, {} KiB left, index {} KiB and {} more, {} allocations",
            taken.bytes_max >> 10,
            taken.bytes_current >> 10,
            index >> 10,
            grown >> 10,
            taken.count_total,
        );
        assert!(taken.bytes_max < BUDGET / PARTS, "{} bytes at once", taken.bytes_max);
    }
    bench.end();
}
