//! An index that has less and less room: neighbours become one if no writes change them.

use super::stores::{Bench, key, small};
use crate::Options;
use crate::index;

const LIMIT: u64 = 1 << 20;

/// Pairs that are put in the order of their keys: no interval is written to once the next one has
/// begun, so no existing interval grows.
#[test]
fn an_index_that_is_only_added_to_keeps_near_its_share() {
    let options = Options { interval_bytes: 256, segment_bytes_max: 8 << 10, ..small() };
    let bench = Bench::of(LIMIT, options);
    let (pairs, old) = (40_000, 8_000);
    let put = |number: u64| _ = bench.put(&key(number), &number.to_le_bytes());
    (0..old).for_each(put);
    bench.flush();
    // Intervals of the pairs that were there first.
    let of_old = || {
        let index = bench.store.shared.committer.lock().index().now().clone();
        let end = index::find(&index, &key(old)).expect("there are pairs").offset;
        index.range(0..end).count()
    };
    let many = of_old();
    (old..pairs).for_each(put);
    bench.flush();
    let (heads, nodes) = {
        let shared = &bench.store.shared;
        (shared.index_memory.heads.bytes(), shared.committer.lock().index().node_bytes())
    };
    let share = bench.store.shared.memory_split().index_bytes();
    println!("{} bytes of {share}, {} intervals", heads + nodes, bench.intervals());
    let few = of_old();
    assert!(2 * few < many, "{few} intervals of old pairs, of {many}");
    assert!(bench.detail("intervals_coarsened") > 0);
    // Twice its share, and the bytes that it may grow by before it is checked again.
    assert!(heads + nodes <= share * 5 / 2, "{} bytes of {share}", heads + nodes);
    for number in (0..pairs).step_by(101) {
        assert_eq!(bench.get(&key(number)), Some(number.to_le_bytes().to_vec()));
    }
    assert_eq!(bench.pairs().len() as u64, pairs);
}
