//! The versions that salvage takes for the newest.

use conformance::salvaged;
use engine::{BlockingWrites, Engine, Op};

use super::stores::Bench;
use crate::salvage::salvage;

/// A write that is replayed after a crash may be in two tables. The entry that a lookup finds
/// counts.
#[test]
fn of_two_entries_with_one_number_the_newer_table_has_the_right_one() {
    let bench = Bench::new();
    let unfinished = bench.sequence.begin();
    let number = bench.put(b"k", b"before");
    bench.store.flush().unwrap();
    assert!(bench.store.persisted() < number);
    drop(unfinished);
    let bench = Bench::on(bench.0.end()).unwrap();
    bench.store.replay(&[Op::Put { key: b"k", value: b"replayed" }], number).unwrap();
    bench.store.flush().unwrap();
    assert_eq!(bench.get(b"k"), Some(b"replayed".to_vec()));
    let (salvaged, told) = salvaged::salvaged(&bench.0.end(), salvage, true);
    assert!(salvaged.lost.is_empty());
    assert_eq!(told.get(b"k".as_slice()), Some(&b"replayed".to_vec()));
}
