//! Markers, and the filters of groups that make most of them unnecessary. (F1, H6)

use std::ops::Range;
use std::sync::Arc;

use device::{Device, Mode};
use engine::Engine;

use super::stores::{Bench, key, small};

const LONG: [u8; 300] = [7; 300];

fn records(bench: &Bench) -> u64 {
    bench.store.shared.values.records_on_device().1
}

/// Returns a bench of a store with a value of 300 bytes for each of the keys below `keys`, which
/// was closed and opened again: no filter is in memory.
fn reopened(keys: u64) -> Bench {
    let bench = Bench::new();
    put_all(&bench, 0..keys, &LONG);
    bench.store.flush().expect("memory takes it");
    let bench = bench.reopen();
    assert_eq!(bench.detail("filter_bytes"), 0);
    bench
}

fn put_all(bench: &Bench, keys: Range<u64>, value: &[u8]) {
    for number in keys {
        bench.put(&key(number), value);
        bench.crank.run_all();
    }
}

/// Appends a marker to each group, and has the filters made.
fn make_filters(bench: &Bench, from: u64) {
    put_all(bench, from..from + 20, b"small");
}

#[test]
fn pairs_that_were_never_large_leave_no_records() {
    let bench = Bench::new();
    for number in 0..2_000 {
        bench.put(&key(number), b"small");
        bench.put(&key(number), b"other");
        if number % 3 == 0 {
            bench.delete(&key(number));
        }
        bench.crank.run_all();
    }
    assert_eq!(bench.detail("buffered_bytes"), 0);
    assert_eq!(bench.detail("segments"), 0);
    assert_eq!(bench.detail("omitted_markers"), 2 * 2_000 + 667);
    assert_eq!(bench.get(&key(3)), None);
    assert_eq!(bench.get(&key(4)), Some(b"other".to_vec()));
    bench.end_sound();
}

/// Without a marker the group would count the old value as live for ever. (H6)
#[test]
fn pairs_that_were_large_leave_markers() {
    let bench = Bench::new();
    put_all(&bench, 0..500, &LONG);
    for number in 0..500 {
        match number % 2 {
            0 => bench.put(&key(number), b"small"),
            _ => bench.delete(&key(number)),
        };
        bench.crank.run_all();
    }
    assert_eq!(bench.detail("omitted_markers"), 0);
    bench.end_segments();
    bench.collect_all();
    // Markers go with the job after the one that drops the values.
    bench.collect_all();
    assert_eq!(records(&bench), 0, "neither values nor markers are left");
    assert_eq!(bench.get(&key(0)), Some(b"small".to_vec()));
    assert_eq!(bench.get(&key(1)), None);
    bench.end_sound();
}

/// Records in write buffers count as well as records on the device.
#[test]
fn a_filter_has_the_keys_of_buffers() {
    let bench = Bench::new();
    bench.put(b"k", &LONG);
    let before = bench.detail("buffered_bytes");
    bench.put(b"k", b"small");
    assert!(bench.detail("buffered_bytes") > before);
    bench.end_sound();
}

/// A store that is opened leaves markers until a task has read the footers.
#[test]
fn an_opened_store_learns_its_keys_from_footers() {
    let bench = reopened(300);
    bench.put(b"other", b"small");
    let after_first = bench.detail("buffered_bytes");
    assert!(after_first > 0, "the keys of its group are not known yet");
    make_filters(&bench, 10_000);
    assert!(bench.detail("filter_bytes") > 0);
    let omitted = bench.detail("omitted_markers");
    put_all(&bench, 20_000..20_100, b"small");
    let after = bench.detail("omitted_markers") - omitted;
    assert!(after > 90, "{after} of 100");
    let omitted = bench.detail("omitted_markers");
    put_all(&bench, 0..300, b"small");
    assert_eq!(bench.detail("omitted_markers"), omitted, "each was large");
    bench.end_segments();
    bench.collect_all();
    bench.collect_all();
    assert_eq!(records(&bench), 0);
    assert_eq!(bench.get(&key(7)), Some(b"small".to_vec()));
    bench.end_sound();
}

/// Values that are appended while a task reads footers are in the new filter, also if a flush seals
/// them.
#[test]
fn a_new_filter_has_the_keys_that_were_written_meanwhile() {
    let bench = reopened(300);
    (1_000..1_010).for_each(|number| _ = bench.put(&key(number), &LONG));
    // This has a task queued for one of the groups. The other one follows below.
    bench.put(&key(2_000), b"small");
    (1_010..1_020).for_each(|number| _ = bench.put(&key(number), &LONG));
    bench.store.flush().expect("memory takes it");
    bench.crank.run_all();
    make_filters(&bench, 10_000);
    let omitted = bench.detail("omitted_markers");
    put_all(&bench, 1_000..1_020, b"small");
    assert_eq!(bench.detail("omitted_markers"), omitted);
    bench.end_sound();
}

/// A group that may have void records, or has damage, gets no filter.
#[test]
fn a_barred_group_leaves_all_markers() {
    let bench = reopened(300);
    for group in &bench.store.shared.values.groups {
        group.state.lock().is_barred = true;
    }
    make_filters(&bench, 10_000);
    assert_eq!(bench.detail("filter_bytes"), 0);
    assert_eq!(bench.detail("omitted_markers"), 0);
}

/// A filter that cannot be made changes nothing but the number of markers.
#[test]
fn a_group_with_damage_leaves_all_markers() {
    let bench = reopened(300);
    let device: Arc<dyn Device> = bench.0.end();
    let volume = crate::volumes::file_name(0);
    let file = device.open(&volume, Mode::Write).expect("it is there");
    let bytes = file.len().expect("memory has lengths");
    // The footers, and some records.
    for at in (0..bytes).step_by(64 << 10).skip(1) {
        for place in (at.saturating_sub(24 << 10)..at).step_by(4 << 10) {
            file.write_at(place, &[0x5a; 64]).expect("memory takes it");
        }
    }
    drop(file);
    let bench = Bench::with(device, Arc::new(engine::NoJournal), small()).expect("opens");
    make_filters(&bench, 10_000);
    let before = bench.detail("omitted_markers");
    put_all(&bench, 0..300, b"small");
    assert_eq!(bench.detail("omitted_markers"), before);
}

/// Filters keep to their share. Without one, all deletes and small pairs leave markers.
#[test]
fn filters_above_their_share_are_dropped() {
    let bench = Bench::new();
    put_all(&bench, 0..300, &LONG);
    assert!(bench.detail("filter_bytes") > 0);
    bench.store.shared.values.fit_filters(0);
    assert_eq!(bench.detail("filter_bytes"), 0);
    put_all(&bench, 400..700, &LONG);
    make_filters(&bench, 10_000);
    assert_eq!(bench.detail("filter_bytes"), 0, "no task makes what has no room");
    assert_eq!(bench.detail("omitted_markers"), 0);
    bench.store.shared.values.fit_filters(1 << 20);
    put_all(&bench, 10_000..13_000, b"small");
    bench.crank.run_all();
    make_filters(&bench, 20_000);
    assert!(bench.detail("filter_bytes") > 0);
    let omitted = bench.detail("omitted_markers");
    put_all(&bench, 0..300, b"small");
    assert_eq!(bench.detail("omitted_markers"), omitted);
    bench.end_sound();
}

/// Keys whose records are all gone do not stay in the filter for ever.
#[test]
fn a_filter_of_deleted_keys_is_made_again() {
    let bench = Bench::new();
    for number in 0..20_000 {
        bench.put(&key(number), &LONG[..80]);
        bench.crank.run_all();
    }
    let full = bench.detail("filter_bytes");
    for number in 0..20_000 {
        bench.delete(&key(number));
        bench.crank.run_all();
    }
    bench.end_segments();
    bench.collect_all();
    bench.collect_all();
    make_filters(&bench, 30_000);
    make_filters(&bench, 40_000);
    let after = bench.detail("filter_bytes");
    assert!(after < full / 2, "{after} of {full} bytes");
    bench.end_sound();
}
