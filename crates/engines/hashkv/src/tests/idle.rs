//! Space that is freed without a request or by a compaction, and files that a close leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use device::{Device, Mode};
use engine::{Engine, KeyRange, Ranges};

use super::stores::{Bench, key};

const KEYS: u64 = 1500;
const VALUE_BYTES: usize = 2000;

/// Returns a bench with values on the device. They are more than the waiting deletes of a small
/// store have to cover.
fn loaded() -> Bench {
    let bench = Bench::new();
    for number in 0..KEYS {
        bench.put(&key(number), &[number as u8; VALUE_BYTES]);
        bench.crank.run_all();
    }
    bench.store.flush().expect("memory takes it");
    bench.crank.run_all();
    bench
}

/// Lets seconds pass.
fn pass(bench: &Bench, seconds: u32) {
    for _ in 0..seconds {
        bench.clock.advance(Duration::from_secs(1));
        bench.crank.run_all();
    }
}

fn bytes(bench: &Bench) -> u64 {
    bench.store.shared.values.records_on_device().0
}

#[test]
fn an_idle_store_frees_the_space_of_deletes() {
    let bench = loaded();
    let full = bytes(&bench);
    assert!(full > KEYS * VALUE_BYTES as u64);
    (0..KEYS).for_each(|number| _ = bench.delete(&key(number)));
    bench.crank.run_all();
    assert!(bytes(&bench) > full / 3, "compactions of the index find only a part of them");
    pass(&bench, 6);
    assert!(bytes(&bench) < full / 20, "{} of {full} bytes", bytes(&bench));
    // The task has ended: nothing is left to do.
    let collections = bench.detail("collections");
    pass(&bench, 10);
    assert_eq!(bench.detail("collections"), collections);
    assert_eq!(bench.crank.next_due(), None, "no task is periodic any more");
    // A write begins it again.
    bench.put(b"key", &[1; VALUE_BYTES]);
    assert!(bench.crank.next_due().is_some());
    bench.end_sound();
}

/// Garbage that a snapshot holds is freed after the snapshot.
#[test]
fn an_idle_store_waits_for_a_snapshot() {
    let bench = loaded();
    let full = bytes(&bench);
    let view = bench.view();
    (0..KEYS).for_each(|number| _ = bench.delete(&key(number)));
    pass(&bench, 6);
    assert!(bytes(&bench) >= full);
    let mut value = Vec::new();
    assert_eq!(view.get(&key(3), &mut value), Ok(true));
    drop(view);
    pass(&bench, 6);
    assert!(bytes(&bench) < full / 20, "{} of {full} bytes", bytes(&bench));
}

/// Few deletes are not worth a flush.
#[test]
fn few_deletes_flush_nothing() {
    let bench = loaded();
    (0..KEYS / 50).for_each(|number| _ = bench.delete(&key(number)));
    let persisted = bench.store.persisted();
    pass(&bench, 20);
    assert_eq!(bench.store.persisted(), persisted);
}

#[test]
fn a_compaction_frees_all_garbage_and_sizes_follow_the_keys() {
    let bench = loaded();
    let full = bytes(&bench);
    let size = |range: &KeyRange| bench.store.approximate_bytes(range).expect("a size");
    let (all, upper) = (size(&KeyRange::all()), size(&KeyRange::of(key(KEYS / 2)..)));
    assert!(all >= full && all < full * 5 / 4, "{all} of {full}");
    assert!((all * 2 / 5..all * 3 / 5).contains(&upper), "{upper} of {all}");
    assert_eq!(size(&KeyRange::of(key(9)..key(3))), 0);
    // Less garbage than the marks of collections.
    for number in (0..KEYS).step_by(3) {
        bench.put(&key(number), &[1; 400]);
    }
    bench.store.compact(&KeyRange::all()).expect("memory takes it");
    let live = KEYS / 3 * 2 * VALUE_BYTES as u64 + KEYS / 3 * 400;
    assert!(bytes(&bench) < live * 6 / 5, "{} of {live} live bytes", bytes(&bench));
    for number in 0..KEYS {
        let expected = match number % 3 {
            0 => vec![1; 400],
            _ => vec![number as u8; VALUE_BYTES],
        };
        assert_eq!(bench.get(&key(number)), Some(expected), "{number}");
    }
    bench.end_sound();
}

/// The bytes of all files.
fn files(device: &dyn Device, dir: &str, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in device.list(dir).expect("memory lists") {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            files(device, &name, into);
            continue;
        }
        let file = device.open(&name, Mode::Read).expect("it is there");
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_at(0, &mut bytes).expect("memory reads");
        into.insert(name, bytes);
    }
}

/// After a close an opening finds nothing to examine, and changes no file.
#[test]
fn an_opening_after_a_close_examines_nothing() {
    let bench = loaded();
    // In buffers alone, so the journal has it.
    bench.put(b"key", &[1; 400]);
    let device = bench.0.end();
    let of = |device: &dyn Device| {
        let mut all = BTreeMap::new();
        files(device, "", &mut all);
        all
    };
    let before = of(&*device);
    let bench = Bench::on(device).expect("opens again");
    assert_eq!(bench.get(b"key"), None);
    assert_eq!(bench.get(&key(7)), Some(vec![7; VALUE_BYTES]));
    let syncs = bench.device.accounting().counts().syncs;
    let device = bench.0.end();
    assert_eq!(device.accounting().counts().syncs, syncs, "a close that has nothing to seal");
    let after = of(&*device);
    let changed = after.iter().filter(|(name, bytes)| before.get(*name) != Some(bytes));
    let changed: Vec<&str> = changed.map(|(name, _)| name.as_str()).collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert!(before.keys().eq(after.keys()));
}
