//! An index that has less and less room: neighbours become one where nobody writes.

use super::stores::{Bench, key, small};
use crate::Options;

const LIMIT: u64 = 1 << 20;

/// Pairs that come in the order of their keys: no interval is written to once the next one has begun, so none
/// that is there grows.
#[test]
fn an_index_that_is_only_added_to_keeps_near_its_share() {
    let options = Options { interval_bytes: 256, segment_bytes_max: 8 << 10, ..small() };
    let bench = Bench::of(LIMIT, options);
    let pairs = 40_000;
    for number in 0..pairs {
        bench.put(&key(number), &number.to_le_bytes());
    }
    bench.flush();
    let (heads, nodes) = {
        let shared = &bench.store.shared;
        (shared.heads.bytes(), shared.committer.lock().index().node_bytes())
    };
    let share = bench.store.shared.memory_split().index_bytes();
    println!("{} bytes of {share}, {} intervals", heads + nodes, bench.intervals());
    assert!(bench.detail("intervals_joined") > 0);
    // Twice its share, and what it may grow by before it is looked at again.
    assert!(heads + nodes <= share * 5 / 2, "{} bytes of {share}", heads + nodes);
    for number in (0..pairs).step_by(101) {
        assert_eq!(bench.get(&key(number)), Some(number.to_le_bytes().to_vec()));
    }
    assert_eq!(bench.pairs().len() as u64, pairs);
}
