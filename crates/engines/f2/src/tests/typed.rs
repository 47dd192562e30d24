//! Typed stores: a read returns the value that was written, and no update is lost.

use engine::{BlockingWrites, Error, Op, SeqNo};
use reads::BlockingReads;

use super::stores::{Bench, tiny};
use crate::Typed;

#[test]
fn values_come_back_from_memory_and_from_disk() {
    let (store, _pool) = Bench::open(tiny()).into_parts();
    let pairs: Typed<u32, [u8; 12]> = Typed::over(store);
    let value = |number: u32| {
        let mut value = [7; 12];
        value[..4].copy_from_slice(&number.to_be_bytes());
        value
    };
    // Ten times what memory holds.
    for number in 0..8_000 {
        pairs.put(number, value(number)).expect("puts");
    }
    pairs.delete(17).expect("deletes");
    for number in 0..8_000 {
        let wanted = (number != 17).then(|| value(number));
        assert_eq!(pairs.get(number).expect("gets"), wanted, "{number}");
    }
    assert_eq!(pairs.get(9_000).expect("gets"), None);
    pairs.close().expect("closes");
}

#[test]
fn no_update_is_lost() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 4_000;
    const KEYS: u64 = 700;
    let (store, _pool) = Bench::open(tiny()).into_parts();
    let counters: Typed<u64, u64> = Typed::over(store);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let counters = &counters;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = (round * (2 * thread + 1)) % KEYS;
                    counters.update(key, 0, |count| *count += 1).expect("updates");
                }
            });
        }
    });
    let sum: u64 = (0..KEYS).filter_map(|key| counters.get(key).expect("gets")).sum();
    assert_eq!(sum, THREADS * ROUNDS);
    counters.close().expect("closes");
}

#[test]
fn a_value_of_another_type_is_told_and_left_alone() {
    let bench = Bench::open(tiny());
    let key = 5_u64.to_le_bytes();
    bench.store.write(&[Op::Put { key: &key, value: b"text" }], SeqNo::new(1)).expect("puts");
    let (store, _pool) = bench.into_parts();
    let numbers: Typed<u64, u64> = Typed::over(store);
    assert!(matches!(numbers.get(5), Err(Error::Corruption(_))));
    assert!(matches!(numbers.update(5, 0, |count| *count += 1), Err(Error::Corruption(_))));
    let mut value = Vec::new();
    assert!(numbers.store().get(&key, &mut value).expect("gets"));
    assert_eq!(value, b"text");
    numbers.close().expect("closes");
}

#[test]
#[should_panic(expected = "pass the journal by")]
fn a_journaled_store_is_not_typed() {
    let bench =
        Bench::open_with(device::memory(), tiny(), std::sync::Arc::new(conformance::Journaled));
    let (store, _pool) = bench.into_parts();
    let _typed: Typed<u64, u64> = Typed::over(store);
}
