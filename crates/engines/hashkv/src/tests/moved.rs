//! Records that jobs move: which segments are victims, and what readers find meanwhile.

use std::sync::{Arc, Weak};

use device::{Device, FaultDevice, OperationKind};
use engine::{At, Engine, NoJournal};

use super::stores::{Bench, key, small};
use crate::index_value::{Handle, IndexValue};
use crate::store::Shared;
use crate::{Options, Policy};

/// A value of this length is not cached.
const BYTES: usize = 5000;
const KEYS: u64 = 24;

/// A store with one group.
fn on(device: Arc<dyn Device>) -> Bench {
    let options = Options { groups_max: 1, ..small() };
    Bench::with(device, Arc::new(NoJournal), options).expect("an empty device opens")
}

fn put(bench: &Bench, number: u64, value: u8) {
    bench.put(&key(number), &[value; BYTES]);
    bench.crank.run_all();
}

/// Puts all keys, and then three quarters of them twice again. Each time the segments end.
fn fill(bench: &Bench) {
    for round in 1..=3 {
        for number in (0..KEYS).filter(|number| round == 1 || number % 4 > 0) {
            put(bench, number, round);
        }
        bench.end_segments();
    }
}

fn value_of(shared: &Arc<Shared>, number: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let lookup = shared.lookup(&key(number), At::Newest, &mut value).expect("memory reads");
    let found = shared.reads.complete(lookup, &mut value).expect("memory reads");
    found.then_some(value)
}

fn must_have_all(shared: &Arc<Shared>) {
    for number in 0..KEYS {
        let round = if number % 4 > 0 { 3 } else { 1 };
        assert_eq!(value_of(shared, number), Some(vec![round; BYTES]), "key {number}");
    }
}

fn handle_of(bench: &Bench, number: u64) -> Handle {
    let mut value = Vec::new();
    let shared = &bench.store.shared;
    let lookup = shared.index.lookup(&key(number), At::Newest, &mut value).expect("memory reads");
    assert_eq!(shared.reads.complete(lookup, &mut value), Ok(true));
    match IndexValue::decode(&value) {
        Ok(IndexValue::Handle(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

/// Reads all keys before each operation that returns room to the device.
fn read_before_each_release(faults: &Arc<FaultDevice>, shared: &Arc<Shared>) {
    let (again, shared): (Weak<FaultDevice>, _) = (Arc::downgrade(faults), Arc::clone(shared));
    faults.interpose_anywhere(OperationKind::Resize, move || {
        must_have_all(&shared);
        if let Some(faults) = again.upgrade() {
            read_before_each_release(&faults, &shared);
        }
    });
}

/// Law H1: readers have the outputs of a job before its victims go.
#[test]
fn h1_a_record_is_found_while_its_segment_goes() {
    let faults = FaultDevice::new(device::memory());
    let bench = on(Arc::clone(&faults) as Arc<dyn Device>);
    fill(&bench);
    let copied = bench.detail("copied_bytes");
    read_before_each_release(&faults, &bench.store.shared);
    bench.collect_all();
    assert!(bench.detail("copied_bytes") > copied);
    must_have_all(&bench.store.shared);
    bench.end_sound();
}

/// A group may have two moved records of one key: one that a snapshot sees, and a newer one.
#[test]
fn moved_records_of_one_key_are_of_different_writes() {
    let bench = on(device::memory());
    let mut views = Vec::new();
    let mut handles = Vec::new();
    for round in 1..=3 {
        // No snapshot sees the first eight of these, so most of the segment is garbage.
        (0..9).for_each(|_| put(&bench, 1, round));
        put(&bench, 0, round);
        handles.push(handle_of(&bench, 0));
        views.push(bench.view());
        bench.end_segments();
    }
    let newest = views.pop();
    drop(newest);
    bench.end_segments();
    bench.collect_all();
    let is_moved = |handle: &Handle| bench.store.shared.values.segment(handle.segment).is_none();
    assert!(handles.iter().filter(|handle| is_moved(handle)).count() >= 2, "{handles:?}");
    let mut value = Vec::new();
    for (view, round) in views.iter().zip(1..) {
        assert_eq!(view.get(&key(0), &mut value), Ok(true));
        assert_eq!(value, [round; BYTES]);
    }
    assert_eq!(bench.get(&key(0)), Some(vec![3; BYTES]));
    drop(views);
    bench.end_sound();
}

/// A base segment never has a record that a crash makes void.
#[test]
fn a_segment_with_a_record_above_the_durable_number_is_no_victim() {
    let options = Options { groups_max: 1, policy: Policy::Greedy, ..small() };
    let opened = Bench::with(device::memory(), Arc::new(NoJournal), options);
    let bench = opened.expect("an empty device opens");
    (0..4).for_each(|round| put(&bench, 0, round));
    (1..5).for_each(|number| put(&bench, number, 1));
    bench.end_segments();
    // The second segment has fewer live records, so it is the better victim. It ends with one that
    // is not durable in the index.
    (0..8).for_each(|round| put(&bench, 5, round));
    bench.store.flush().expect("memory takes it");
    bench.put(&key(6), &[1; BYTES]);
    let second = handle_of(&bench, 6).segment;
    for group in &bench.store.shared.values.groups {
        bench.store.shared.values.try_end_open(group);
    }
    bench.write_buffers().expect("memory takes it");
    assert!(bench.store.persisted() < bench.sequence.last());
    bench.collect_once().expect("memory takes it");
    assert_eq!(bench.detail("collected_segments"), 1);
    assert!(bench.store.shared.values.segment(second).is_some());
    bench.store.flush().expect("memory takes it");
    bench.collect_all();
    assert!(bench.store.shared.values.segment(second).is_none());
    bench.end_sound();
}

/// A job that ran while a checkpoint copies segments would take away what the copy needs.
#[test]
fn no_job_runs_while_a_checkpoint_copies() {
    let bench = on(device::memory());
    fill(&bench);
    let before = bench.detail("collected_segments");
    let copy = device::memory();
    let go_on = || {
        assert_eq!(bench.collect_once(), Ok(false), "a job ran");
        Ok(())
    };
    bench.store.checkpoint(Arc::clone(&copy), &go_on).expect("memory takes it");
    assert_eq!(bench.detail("collected_segments"), before);
    must_have_all(&on(copy).store.shared);
    bench.collect_all();
    assert!(bench.detail("collected_segments") > before);
    bench.end_sound();
}
