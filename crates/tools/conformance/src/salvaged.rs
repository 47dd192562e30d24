//! Stores for tests of salvage: their content, and the data that salvage finds.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use device::Device;
use engine::{Engine, Op, Result, SalvageSink, Salvaged};

use crate::bench::{Cranked, key};

/// Pairs by key.
pub type Found = BTreeMap<Vec<u8>, Vec<u8>>;

/// Puts `keys` keys, whose values `value` returns for a number and a version, and flushes. Then
/// deletes every fifth key, and puts every third one again.
///
/// # Panics
/// If a call fails.
pub fn fill<S: Engine>(bench: &Cranked<S>, keys: u64, value: fn(u64, u8) -> Vec<u8>) {
    (0..keys).for_each(|number| _ = bench.put(&key(number), &value(number, 1)));
    bench.store.flush().expect("memory takes it");
    bench.crank.run_all();
    for number in 0..keys {
        if number.is_multiple_of(5) {
            bench.delete(&key(number));
        } else if number.is_multiple_of(3) {
            bench.put(&key(number), &value(number, 2));
        }
    }
}

/// Returns the value of a key after [`fill`].
pub fn expected(number: u64, value: fn(u64, u8) -> Vec<u8>) -> Option<Vec<u8>> {
    match number {
        _ if number.is_multiple_of(5) => None,
        _ if number.is_multiple_of(3) => Some(value(number, 2)),
        _ => Some(value(number, 1)),
    }
}

/// The value of a key, by its number.
pub type Expected = fn(u64) -> Option<Vec<u8>>;

/// A function that salvages the store on a device.
pub type Salvage = fn(&Arc<dyn Device>, &mut SalvageSink<'_>) -> Result<Salvaged>;

/// Returns the report and the pairs of a salvage.
///
/// # Panics
/// If it fails, or, if `is_each_once`, if it has a delete or a key twice.
pub fn salvaged(
    device: &Arc<dyn Device>,
    salvage: Salvage,
    is_each_once: bool,
) -> (Salvaged, Found) {
    let mut found = Found::new();
    let report = salvage(device, &mut |op| {
        let before = match op {
            Op::Put { key, value } => found.insert(key.to_vec(), value.to_vec()),
            _ if is_each_once => panic!("a salvage of pairs has {op:?}"),
            op => found.remove(op.key()),
        };
        assert!(!is_each_once || before.is_none(), "{op:?} is of a key that was salvaged before");
        ControlFlow::Continue(())
    });
    (report.expect("something is salvaged"), found)
}

/// Salvages a store that is whole.
///
/// # Panics
/// As [`salvaged`]; if a pair of the first `keys` is missing or wrong, or the report has a loss.
pub fn check_whole(
    device: &Arc<dyn Device>,
    salvage: Salvage,
    (keys, expected): (u64, Expected),
    is_each_once: bool,
) {
    let (report, found) = salvaged(device, salvage, is_each_once);
    assert_eq!((report.lost.len(), report.may_be_outdated), (0, false));
    for number in 0..keys {
        assert_eq!(found.get(&key(number)).cloned(), expected(number), "{number}");
    }
    assert!(report.persisted.get() >= keys);
}
