//! Operations that salvage reports of stores, whole and damaged.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use device::{Device, Mode};
use engine::{Engine, Op};

use super::checked::{change_record, closed, records_of, rot};
use super::stores::{Bench, key, value};
use super::two_logs::{KEYS, cold_store, push_out, small_cold};
use crate::check::{SalvageReport, salvage};
use crate::cold_index::CHUNKS;
use crate::open::{COLD_LOG, HOT_LOG};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Salvages a store. Returns the report, and the pairs after all reported operations were applied
/// in their order.
fn told(device: &Arc<dyn Device>) -> (SalvageReport, Pairs) {
    let mut pairs = Pairs::new();
    let salvaged = salvage(device, &mut |op| {
        match op {
            Op::Put { key, value } => pairs.insert(key.to_vec(), value.to_vec()),
            Op::Delete { key } => pairs.remove(key),
            Op::DeleteRange { .. } => unreachable!("it keeps no order"),
        };
        ControlFlow::Continue(())
    });
    (salvaged.expect("is read"), pairs)
}

/// Opens a store whose keys were written several times, some of them deleted and put again, while
/// both logs were compacted; returns the store and its pairs.
fn written() -> (Bench, Pairs) {
    let bench = cold_store(small_cold());
    let mut pairs = Pairs::new();
    for version in 1..6 {
        for number in (0..KEYS).filter(|number| !(number + version).is_multiple_of(4)) {
            let key = key(number);
            if (number + version).is_multiple_of(7) {
                bench.delete(&key);
                pairs.remove(&key);
            } else {
                bench.put(&key, &value(number, version, 8));
                pairs.insert(key, value(number, version, 8));
            }
        }
        if version == 3 {
            push_out(&bench);
        }
    }
    assert!(bench.figure("cold_compactions") > 0);
    assert!(bench.figure("cold_index_covered_entries") > 0, "chunks have older versions");
    (bench, pairs)
}

/// Returns the pairs without the keys that only made room.
fn without_fillers(pairs: Pairs) -> Pairs {
    pairs.into_iter().filter(|(key, _)| !key.starts_with(b"filler")).collect()
}

/// Returns the keys whose values differ from `before`.
fn changed(pairs: Pairs, before: &Pairs) -> Vec<Vec<u8>> {
    let pairs = without_fillers(pairs);
    let keys = pairs.keys().chain(before.keys().filter(|key| !pairs.contains_key(*key)));
    keys.filter(|key| pairs.get(*key) != before.get(*key)).cloned().collect()
}

#[test]
fn of_a_whole_store_all_is_reported() {
    let (bench, pairs) = written();
    let (salvaged, told) = told(&closed(&bench));
    assert_eq!((salvaged.report.damage, salvaged.has_lost_chunks), (Vec::new(), false));
    assert_eq!(salvaged.report.persisted, bench.store.persisted());
    assert_eq!(without_fillers(told), pairs);
}

#[test]
fn a_damaged_hot_record_costs_its_own_key_alone() {
    let (bench, before) = written();
    let device = closed(&bench);
    let (log, records) = records_of(&device, HOT_LOG);
    let (at, bytes, _) = records[records.len() / 2];
    let place = change_record(&device, &log, (at, bytes), rot);
    let (salvaged, told) = told(&device);
    let found = salvaged.report.damage;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].file.clone(), found[0].offset), place);
    assert!(!salvaged.has_lost_chunks);
    let changed = changed(told, &before);
    assert!(changed.len() <= 1, "{changed:?}");
}

#[test]
fn a_cold_segment_that_is_missing_costs_what_lay_in_it() {
    let (bench, before) = written();
    let device = closed(&bench);
    let (log, records) = records_of(&device, COLD_LOG);
    let lost = log.geometry.segment(records[0].0);
    let in_it = records.iter().filter(|(at, ..)| log.geometry.segment(*at) == lost).count();
    let whole = told(&device).0.report.records;
    device.remove(&log.segments.file_name(lost)).expect("is removed");
    let (salvaged, told) = told(&device);
    assert!(!salvaged.report.damage.is_empty());
    let missing = whole - salvaged.report.records;
    assert!(missing >= in_it as u64 && missing < whole / 2, "{missing} of {whole}, {in_it} linked");
    let changed = changed(told, &before);
    assert!(changed.len() <= in_it, "{} of {in_it}", changed.len());
}

#[test]
fn a_damaged_chunk_costs_no_key_and_what_later_chunks_say_holds() {
    let (bench, before) = written();
    let device = closed(&bench);
    let (log, records) = records_of(&device, CHUNKS);
    let (at, bytes, _) = records[records.len() / 2];
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("there are two logs");
    let is_later =
        |key: &[u8]| cold.index.chunk_address(shared.hot.index.position(shared.hash(key))) > at;
    let later: Vec<Vec<u8>> = (0..KEYS).map(key).filter(|key| is_later(key)).collect();
    assert!(later.len() > 10 && later.len() < KEYS as usize - 10, "{}", later.len());
    change_record(&device, &log, (at, bytes), rot);
    let (salvaged, told) = told(&device);
    assert!(salvaged.has_lost_chunks);
    assert_eq!(salvaged.report.damage.len(), 1);
    assert!(before.keys().all(|key| told.contains_key(key)), "a key is missing");
    for key in &later {
        assert_eq!(told.get(key), before.get(key), "{}", key.escape_ascii());
    }
}

#[test]
fn who_wants_no_more_is_told_no_more() {
    let (bench, _) = written();
    let mut count = 0;
    let salvaged = salvage(&closed(&bench), &mut |_| {
        count += 1;
        if count == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    salvaged.expect("is read");
    assert_eq!(count, 10);
}

#[test]
fn with_no_superblock_nothing_is_reported() {
    let (bench, _) = written();
    let device = closed(&bench);
    let file = device.open(crate::checkpoint::SUPERBLOCK, Mode::Write).expect("opens");
    let zeros = vec![0; file.len().expect("has a length") as usize];
    file.write_at(0, &zeros).expect("writes");
    let (salvaged, told) = told(&device);
    assert_eq!(salvaged.report.damage.len(), 1);
    assert!(told.is_empty());
}
