//! Replacement: a put takes the place of an earlier value of its key in the write buffer.

use std::sync::Arc;

use conformance::Journaled;
use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use engine::{At, BlockingWrites, Engine, Lookup, NoJournal, Op, SeqNo};

use super::stores::{Bench, key, small};
use crate::Options;
use crate::index_value::{Handle, IndexValue};
use crate::segment::record::record_bytes;

/// A store with a journal, on a device.
fn on(device: Arc<dyn Device>) -> Bench {
    Bench::with(device, Arc::new(Journaled), small()).expect("an empty device opens")
}

/// Bytes of a record with a key of one byte.
fn record(value: usize) -> u64 {
    record_bytes(1, value) as u64
}

/// Returns the handle that the index has.
fn handle(bench: &Bench, key: &[u8]) -> Handle {
    let mut value = Vec::new();
    let found = bench.store.shared.index.lookup(key, At::Newest, &mut value);
    assert!(matches!(found, Ok(Lookup::Found)), "the memtable has it");
    match IndexValue::decode(&value) {
        Ok(IndexValue::Handle(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

/// Returns whether a put of this value replaces the record that the key `k` has.
fn is_replaced_by(bench: &Bench, value: &[u8]) -> bool {
    let before = handle(bench, b"k");
    bench.put(b"k", value);
    assert_eq!(bench.get(b"k"), Some(value.to_vec()));
    let after = handle(bench, b"k");
    (before.segment, before.offset) == (after.segment, after.offset)
}

#[test]
fn a_hot_key_takes_one_record_of_the_buffer() {
    let bench = on(device::memory());
    bench.put(b"a", &[1; 300]);
    (0..100_u8).for_each(|round| _ = bench.put(b"k", &[round; 500]));
    bench.put(b"z", &[1; 300]);
    assert_eq!(bench.detail("buffered_bytes"), 2 * record(300) + record(500));
    assert_eq!(bench.detail("absorbed_bytes"), 99 * record(500));
    assert_eq!(bench.store.stats().reserved, 0, "what a replaced record had reserved is free");
    assert_eq!(bench.store.shared.values.bound.promised(), 0);
    assert_eq!(bench.get(b"k"), Some(vec![99; 500]));
    bench.end_segments();
    assert_eq!(bench.store.shared.values.records_on_device().1, 3);
    let bench = on(bench.end_sound());
    for (key, expected) in [(b"a", vec![1; 300]), (b"k", vec![99; 500]), (b"z", vec![1; 300])] {
        assert_eq!(bench.get(key), Some(expected));
    }
}

#[test]
fn only_a_value_of_the_same_length_is_replaced() {
    let bench = on(device::memory());
    bench.put(b"k", &[1; 500]);
    assert!(is_replaced_by(&bench, &[2; 500]));
    assert!(!is_replaced_by(&bench, &[3; 501]));
    assert!(is_replaced_by(&bench, &[4; 501]));
    // A delete, and a small value, are records of their own. The next value replaces the one before
    // them.
    bench.delete(b"k");
    assert_eq!(bench.get(b"k"), None);
    let buffered = bench.detail("buffered_bytes");
    bench.put(b"k", &[5; 501]);
    bench.put(b"k", b"small");
    bench.put(b"k", &[6; 501]);
    assert_eq!(bench.detail("buffered_bytes"), buffered + record(0));
    assert_eq!(bench.get(b"k"), Some(vec![6; 501]));
    let bench = on(bench.end_sound());
    assert_eq!(bench.get(b"k"), Some(vec![6; 501]));
    bench.collect_all();
    assert_eq!(bench.get(b"k"), Some(vec![6; 501]));
    bench.end_sound();
}

/// A snapshot keeps the record that it sees.
#[test]
fn a_record_that_a_snapshot_sees_is_not_replaced() {
    let bench = on(device::memory());
    bench.put(b"k", &[1; 500]);
    let view = bench.view();
    assert!(!is_replaced_by(&bench, &[2; 500]));
    assert!(is_replaced_by(&bench, &[3; 500]), "no snapshot sees the second record");
    let mut value = Vec::new();
    for _ in 0..2 {
        assert_eq!(view.get(b"k", &mut value), Ok(true));
        assert_eq!(value, [1; 500]);
        bench.store.flush().expect("memory takes it");
    }
    drop(view);
    bench.end_sound();
}

/// If the index refused a write of several steps after two replacements, readers would see half of
/// it.
#[test]
fn a_batch_replaces_nothing() {
    let bench = on(device::memory());
    let batch = [1, 2].map(|round| {
        bench.apply(&[
            Op::Put { key: b"a", value: &[round; 500] },
            Op::Put { key: b"k", value: &[round; 500] },
        ]);
        handle(&bench, b"k")
    });
    assert_ne!(batch[0].offset, batch[1].offset);
    assert_eq!(bench.detail("absorbed_bytes"), 0);
    assert!(is_replaced_by(&bench, &[3; 500]), "a later put replaces a record of a batch");
    assert_eq!(bench.get(b"a"), Some(vec![2; 500]));
    bench.end_sound();
}

/// Frozen bytes are being written, and the journal may not have the later write.
#[test]
fn a_frozen_record_is_not_replaced() {
    let faults = FaultDevice::new(device::memory());
    let bench = on(Arc::clone(&faults) as Arc<dyn Device>);
    bench.put(b"a", &[1; 500]);
    bench.write_buffers().expect("memory takes it");
    bench.put(b"k", &[1; 500]);
    let (kind, failure, lasting) = (OperationKind::Write, Failure::NoSpace, Lasting::Once);
    let nth = faults.count(Some(kind)) + 1;
    faults.fail(Fault { kind: Some(kind), nth, failure, lasting });
    assert!(bench.write_buffers().is_err());
    assert!(!is_replaced_by(&bench, &[2; 500]), "the first record is frozen");
    assert!(is_replaced_by(&bench, &[3; 500]));
    bench.write_buffers().expect("memory takes it");
    assert!(!is_replaced_by(&bench, &[4; 500]), "the third record is on the device");
    bench.end_sound();
}

/// After a crash the index may have the handle of the earlier write. Only a replay brings the later
/// one.
#[test]
fn without_a_journal_nothing_is_replaced() {
    let bench = Bench::with(device::memory(), Arc::new(NoJournal), small()).expect("opens");
    bench.put(b"k", &[1; 500]);
    assert!(!is_replaced_by(&bench, &[2; 500]));
    assert_eq!(bench.detail("absorbed_bytes"), 0);
}

/// An older write that comes later does not replace a newer one.
#[test]
fn an_older_write_does_not_replace_a_newer_one() {
    let bench = on(device::memory());
    let older = bench.sequence.begin();
    bench.put(b"k", &[2; 500]);
    let put = [Op::Put { key: b"k", value: &[1; 500] }];
    bench.store.replay(&put, older.seqno()).expect("memory takes it");
    drop(older);
    assert_eq!(bench.detail("absorbed_bytes"), 0);
    assert_eq!(bench.get(b"k"), Some(vec![2; 500]));
    bench.end_sound();
}

/// A reader that has the handle of an earlier write finds the later record: in the buffer, on the
/// device, and after jobs have moved it by a look at the index.
#[test]
fn an_earlier_handle_leads_to_the_later_record() {
    let options = Options { groups_max: 1, ..small() };
    let opened = Bench::with(device::memory(), Arc::new(Journaled), options);
    let bench = opened.expect("an empty device opens");
    bench.put(b"k", &[1; 500]);
    let earlier = handle(&bench, b"k");
    assert!(is_replaced_by(&bench, &[2; 500]));
    let shared = &bench.store.shared;
    let mut found = Vec::new();
    let mut take = |value: &[u8]| found = value.to_vec();
    assert_eq!(shared.values.try_read(b"k", earlier, &mut take), Ok(Some(())));
    assert_eq!(found, [2; 500]);
    bench.end_segments();
    let read = |handle: Handle| {
        let pending = shared.value_at_pin(b"k", handle)?;
        let mut value = Vec::new();
        let found = shared.reads.complete(Lookup::Pending(pending), &mut value)?;
        Ok::<_, engine::Error>(found.then_some(value))
    };
    assert_eq!(read(earlier), Ok(Some(vec![2; 500])));
    // A job moves the record. Then only the later handle leads to it, and a reader that has the
    // earlier one begins again at the index.
    (0..20).for_each(|number| _ = bench.put(&key(number), &[3; 500]));
    bench.put(b"k", &[4; 500]);
    let (earlier, view) = (handle(&bench, b"k"), bench.view());
    bench.end_segments();
    (0..20).for_each(|number| _ = bench.put(&key(number), &[5; 500]));
    bench.end_segments();
    bench.collect_all();
    assert!(shared.values.segment(earlier.segment).is_none(), "the record has moved");
    assert_eq!(bench.get(b"k"), Some(vec![4; 500]));
    assert_eq!(read(earlier), Ok(Some(vec![4; 500])));
    let before = Handle { number: SeqNo::new(earlier.number.get() - 1), ..earlier };
    assert!(matches!(read(before), Err(engine::Error::Corruption(_))), "at a pin it is missing");
    drop(view);
    bench.end_sound();
}
