//! The cost of large groups: a collection reads the footers of its whole group.

use std::sync::Arc;

use engine::{BlockingWrites, NoJournal, Op};
use environment::Environment;
use rand::RngExt;

use super::stores::{Bench, key, small};
use crate::Options;

const KEYS: u64 = 3_000;
const VALUE_BYTES: usize = 1_000;
/// Figures of the work of the collector.
const FIGURES: [&str; 3] = ["judged_bytes", "copied_bytes", "collected_segments"];

/// Updates random keys of a store of 6 MiB with this number of groups. Returns the bytes of footers
/// that the collector read, the bytes of records that it copied, and the segments that it freed.
fn cost(groups_max: u32) -> [u64; 3] {
    let options = Options { groups_max, disk_bytes_max: Some(6 << 20), ..small() };
    let (device, journal) = (device::memory(), Arc::new(NoJournal));
    let bench = Bench::with_memory(device, journal, options, 16 << 20).expect("it opens");
    let put = |number: u64| {
        let (key, value) = (key(number), [number as u8; VALUE_BYTES]);
        let put = Op::Put { key: &key, value: &value };
        bench.store.write_next(&[put], &bench.sequence).expect("there is space");
        bench.crank.run_all();
    };
    (0..KEYS).for_each(put);
    assert_eq!(bench.detail("groups"), u64::from(groups_max));
    let before = FIGURES.map(|figure| bench.detail(figure));
    let mut random = Environment::seeded(7).random("updates");
    for _ in 0..4 * KEYS {
        put(random.random_range(0..KEYS));
    }
    let after = FIGURES.map(|figure| bench.detail(figure));
    std::array::from_fn(|at| after[at] - before[at])
}

/// A collection of one large group reads more footers than those of eight small groups, and copies
/// fewer records. It reads fewer bytes of footers than it frees. So a group is not halved when it
/// grows.
#[test]
fn a_large_group_costs_less_than_eight_small_ones() {
    let [one, eight] = [1, 8].map(cost);
    let [judged, copied, segments] = one;
    assert!(judged < segments * (64 << 10), "{one:?}");
    assert!(judged + copied < eight[0] + eight[1], "{one:?} {eight:?}");
    assert!(copied < eight[1] / 2, "{one:?} {eight:?}");
}
