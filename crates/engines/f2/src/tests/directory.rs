//! The directory's snapshot in a store: one file that its checkpoint names, also in a copy.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, Mode, OperationKind};
use engine::Engine;

use super::stores::{Bench, key, value};
use super::two_logs::{KEYS, push_out, small_hot};

fn snapshots(device: &Arc<dyn Device>) -> Vec<String> {
    let entries = device.list("").expect("lists").into_iter();
    entries.map(|entry| entry.name).filter(|name| name.starts_with("directory-")).collect()
}

fn must_be_whole(bench: &Bench, version: u64) {
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, version, 8)), "{number}");
    }
}

#[test]
fn a_store_keeps_one_snapshot_and_opens_from_it() {
    const VERSIONS: u64 = 5;
    let bench = Bench::open(small_hot());
    let cold = |bench: &Bench| {
        let cold = bench.store.shared.cold.as_ref();
        cold.expect("a store of two logs").index.snapshot_always();
    };
    cold(&bench);
    for version in 0..VERSIONS {
        for number in 0..KEYS {
            bench.put(&key(number), &value(number, version, 8));
        }
        bench.store.flush().expect("flushes");
        assert_eq!(snapshots(&bench.device).len(), 1, "the one before is removed");
    }
    push_out(&bench);
    let copy = device::memory();
    bench.store.checkpoint(Arc::clone(&copy), &engine::go_on).expect("is copied");
    // The store itself may have made the next snapshot already.
    assert_eq!(snapshots(&copy).len(), 1);
    // A file that a crash leaves.
    bench.device.open("directory-0000000000999999", Mode::CreateNew).expect("is made");
    let bench = bench.reopen(small_hot());
    assert_eq!(snapshots(&bench.device).len(), 1);
    must_be_whole(&bench, VERSIONS - 1);
    // The copy's snapshot is damaged.
    let [name] = &snapshots(&copy)[..] else { panic!("one") };
    let file = copy.open(name, Mode::Write).expect("opens");
    file.write_at(1_000, &[0xff; 8]).expect("writes");
    let bench = Bench::open_on(copy, small_hot());
    must_be_whole(&bench, VERSIONS - 1);
    let (entries, covered) =
        (bench.figure("cold_index_entries"), bench.figure("cold_index_covered_entries"));
    assert!(entries >= KEYS && covered < entries, "{entries} entries, {covered} covered");
}

#[test]
fn one_that_cannot_be_written_or_removed_stops_nothing() {
    let device = FaultDevice::new(device::memory());
    let bench = Bench::open_by_hand(Arc::clone(&device) as Arc<dyn Device>, small_hot(), 7);
    let cold = bench.store.shared.cold.as_ref().expect("a store of two logs");
    cold.index.snapshot_always();
    let write = |version| {
        for number in 0..KEYS {
            bench.put(&key(number), &value(number, version, 8));
            if number % 20 == 0 {
                bench.advance();
            }
        }
    };
    write(0);
    bench.store.flush().expect("flushes");
    let flush_with = |kind| {
        let (before, failed) = (snapshots(&bench.device), device.failed());
        assert_eq!(before.len(), 1);
        let (kind, nth) = (Some(kind), device.count(Some(kind)) + 1);
        device.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::Once });
        bench.store.flush().expect("nothing depends on it");
        assert_eq!(device.failed(), failed + 1);
        device.heal();
        (before, snapshots(&bench.device))
    };
    write(1);
    let (before, after) = flush_with(OperationKind::Open);
    assert_eq!(after, before, "the one before is named");
    write(2);
    let (before, after) = flush_with(OperationKind::Remove);
    assert!(after.len() == 2 && after.contains(&before[0]), "{after:?}");
    write(3);
    bench.store.flush().expect("flushes");
    let bench = bench.reopen(small_hot());
    assert_eq!(snapshots(&bench.device).len(), 1);
    must_be_whole(&bench, 3);
}
