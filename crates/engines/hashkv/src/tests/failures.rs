//! Devices that are full or broken, and files that are missing: nothing counts too much.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, OperationKind, SimulatedDisk};
use engine::{Barrier, Engine, Error, NoJournal, SeqNo};

use super::stores::{Bench, key, small};
use crate::Options;
use crate::segment_table::State;

/// Has all operations of a kind fail from now on, but for those of the index.
fn fail_for_good(faults: &FaultDevice, kind: OperationKind, failure: Failure) {
    let kind = Some(kind);
    let nth = faults.count(kind) + 1;
    faults.fail(Fault { kind, nth, failure, lasting: Lasting::ForGood });
}

fn bench_on(faults: &Arc<FaultDevice>) -> Bench {
    let device = Arc::clone(faults) as Arc<dyn Device>;
    Bench::on(device).expect("it opens")
}

/// While flushes fail, no writer makes more of them than one for each pause.
#[test]
fn a_failing_flush_begins_a_pause() {
    let faults = FaultDevice::new(device::memory());
    let bench = bench_on(&faults);
    fail_for_good(&faults, OperationKind::Write, Failure::NoSpace);
    let mut failed = Vec::new();
    for number in 0..40 {
        // Above the mark of 16 KiB from the 27th on, and below the limit.
        bench.put(&key(number), &[1; 600]);
        bench.crank.run_all();
        failed.push(faults.failed());
    }
    assert_eq!(failed.last(), Some(&1), "{failed:?}");
    // After the pause of 50 ms the next writer has the flush tried again.
    bench.clock.advance(Duration::from_millis(51));
    bench.put(b"later", &[1; 600]);
    bench.crank.run_all();
    assert_eq!(faults.failed(), 2);
    let errors = bench.store.background_errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    // The barrier of the index writes them, too.
    faults.heal();
    bench.store.flush().expect("memory takes it");
    assert_eq!(bench.store.background_errors(), []);
    assert_eq!(bench.detail("buffered_bytes"), 0);
    bench.end_sound();
}

/// A flush that fails cuts no further parts, so that paddings do not pile up.
#[test]
fn a_flush_that_fails_cuts_no_more_parts() {
    let faults = FaultDevice::new(device::memory());
    let options = Options { groups_max: 1, ..small() };
    let device = Arc::clone(&faults) as Arc<dyn Device>;
    let bench = Bench::with(device, Arc::new(NoJournal), options).expect("it opens");
    fail_for_good(&faults, OperationKind::Write, Failure::NoSpace);
    for number in 0..20 {
        bench.put(&key(number), &[1; 100]);
        assert!(bench.write_buffers().is_err());
    }
    faults.heal();
    bench.write_buffers().expect("memory takes it");
    // The part of the first write, and one of all others.
    assert_eq!(bench.detail("flushed_bytes"), 2 * 4096);
    assert_eq!(bench.get(&key(19)), Some(vec![1; 100]));
    bench.end_sound();
}

/// Law L5: after a failure that does not pass, nothing is called durable.
#[test]
fn nothing_becomes_durable_after_a_failed_sync() {
    let faults = FaultDevice::new(device::memory());
    let bench = bench_on(&faults);
    bench.put(b"a", &[1; 600]);
    bench.store.flush().expect("memory takes it");
    let persisted = bench.store.persisted();
    bench.put(b"b", &[2; 600]);
    bench.write_buffers().expect("memory takes it");
    fail_for_good(&faults, OperationKind::Sync, Failure::Io);
    let values = &bench.store.shared.values;
    assert!(values.reach(SeqNo::new(2)).is_err());
    faults.heal();
    for _ in 0..2 {
        let refused = bench.store.flush();
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    }
    assert!(values.reach(SeqNo::new(2)).is_err());
    assert!(values.flush_down_to(0, u64::MAX).is_err());
    assert!(bench.store.checkpoint(device::memory(), &|| Ok(())).is_err());
    assert_eq!(bench.store.persisted(), persisted);
    assert_eq!(bench.get(b"b"), Some(vec![2; 600]));
}

/// An opening that finds the device full leaves segments unsealed. A later one seals them.
#[test]
fn a_store_opens_on_a_full_device() {
    let device = device::memory();
    let bench = Bench::on(Arc::clone(&device)).expect("it opens");
    for number in 0..20 {
        bench.put(&key(number), &[3; 500]);
    }
    bench.store.flush().expect("memory takes it");
    for number in 10..30 {
        bench.put(&key(number), &[4; 500]);
    }
    bench.store.shared.values.reach(SeqNo::new(40)).expect("memory takes it");
    drop(bench.0.end());
    let states = |bench: &Bench| {
        let all = bench.store.shared.values.with_table(|table| Ok(table.all.segments.clone()));
        let all = all.expect("the store is open").into_values();
        all.map(|segment| matches!(segment.state, State::Sealed { .. })).collect::<Vec<_>>()
    };
    let has_all = |bench: &Bench| {
        for number in 0..30 {
            assert_eq!(bench.get(&key(number)), (number < 20).then(|| vec![3; 500]), "{number}");
        }
    };
    // The writes of the opening itself, beginning with any of them.
    let mut left = 0;
    for nth in 1.. {
        let faults = FaultDevice::new(Arc::clone(&device));
        let (kind, failure) = (Some(OperationKind::Write), Failure::NoSpace);
        faults.fail(Fault { kind, nth, failure, lasting: Lasting::ForGood });
        let opened = Bench::on(Arc::clone(&faults) as Arc<dyn Device>);
        let bench = opened.unwrap_or_else(|error| panic!("write {nth}: {error}"));
        has_all(&bench);
        let failed = faults.failed();
        let is_whole = states(&bench).iter().all(|is_sealed| *is_sealed);
        assert!(failed > 0 || is_whole, "write {nth}: all was written");
        left += u64::from(!is_whole);
        drop(bench.0.end());
        let report = crate::check(&device).expect("memory reads");
        assert!(report.is_sound(), "write {nth}: {report:?}");
        if failed == 0 {
            assert!(left > 0, "an opening writes footers");
            break;
        }
    }
}

/// Without the index there are no keys. A check and a salvage name it, and make nothing.
#[test]
fn a_missing_index_is_named() {
    let bench = Bench::new();
    bench.put(b"k", &[1; 400]);
    bench.put(b"k", &[2; 300]);
    bench.put(b"gone", &[3; 300]);
    bench.delete(b"gone");
    let device = bench.end_sound();
    device.remove_dir("index").expect("memory removes it");
    let before = device.list("").expect("memory lists");
    let report = crate::check(&device).expect("memory reads");
    assert_eq!(report.damage[0].file, "index/superblock");
    // The newest record of each key is salvaged.
    let mut found = Vec::new();
    let salvaged = crate::salvage(&device, &mut |op| {
        found.push((op.key().to_vec(), op.value().map(<[u8]>::to_vec)));
        ControlFlow::Continue(())
    });
    let salvaged = salvaged.expect("memory reads");
    assert_eq!(salvaged.lost[0].damage.file, "index/superblock");
    assert!(salvaged.may_be_outdated);
    assert_eq!(found, [(b"k".to_vec(), Some(vec![2; 300]))]);
    assert_eq!(device.list("").expect("memory lists"), before);
}

/// A store of small pairs has no segment. It has an index.
#[test]
fn a_missing_index_is_noticed_without_segments() {
    let bench = Bench::new();
    bench.put(b"k", b"small");
    bench.store.flush().expect("memory takes it");
    assert_eq!(bench.detail("segments"), 0);
    let device = bench.end_sound();
    device.remove_dir("index").expect("memory removes it");
    let refused = Bench::on(Arc::clone(&device)).err();
    assert!(matches!(refused, Some(Error::Corruption(_))), "{refused:?}");
    assert!(!crate::check(&device).expect("memory reads").is_sound());
}

/// A group with damage is left alone and reported, and others are collected.
#[test]
fn damage_keeps_no_other_group_from_being_collected() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let bench = Bench::on(disk.clone()).expect("an empty device opens");
    for round in 0..3_u8 {
        for number in 0..60 {
            bench.put(&key(number), &[round; 700]);
        }
        bench.end_segments();
    }
    let values = &bench.store.shared.values;
    assert_eq!(values.groups.len(), 2);
    let sealed = values.groups[0].state.lock().sealed.values().next().copied();
    let sealed = sealed.expect("a sealed segment");
    // In the footer, which each judgement reads.
    let at = values.volumes.offset(sealed.place) + sealed.end() as u64 - 100;
    disk.flip_bit("volume-0", at, 3).expect("it is there");
    bench.collect_all();
    let errors = bench.store.background_errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(matches!(&errors[0].cause, Error::Corruption(damage) if damage.file == "volume-0"));
    assert!(!errors[0].refuses_writes);
    assert!(bench.detail("collected_segments") > 0);
    for number in 0..60 {
        assert_eq!(bench.get(&key(number)), Some(vec![2; 700]));
    }
}

/// Bytes of a footer or a record that cannot be read are like damage. The outputs of the job are
/// removed, and its group is not collected any more. Other groups are, and writes are not slowed
/// down.
#[test]
fn unreadable_bytes_keep_no_other_group_from_being_collected() {
    for later in 1..8 {
        let faults = FaultDevice::new(device::memory());
        let bench = bench_on(&faults);
        for round in 0..3_u8 {
            for number in 0..120 {
                if round == 0 || number % 3 != 0 {
                    bench.put(&key(number), &[round; 700]);
                }
            }
            bench.end_segments();
        }
        let nth = faults.count(Some(OperationKind::Read)) + later;
        let (kind, failure) = (Some(OperationKind::Read), Failure::Io);
        faults.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
        let before = bench.detail("segments");
        assert!(bench.collect_once().expect("a read is no reason to stop"), "read {later}");
        if faults.failed() == 0 {
            assert!(later > 4, "a job reads footers and records");
            return;
        }
        assert!(bench.detail("segments") <= before, "read {later}: outputs are left");
        bench.collect_all();
        assert!(bench.detail("collected_segments") > 0, "read {later}");
        assert_eq!(bench.store.background_errors().len(), 1, "read {later}");
        assert_eq!(bench.detail("garbage_bytes"), 0, "read {later}: of a group that is left");
        for number in 0..120 {
            let round = if number % 3 == 0 { 0 } else { 2 };
            assert_eq!(bench.get(&key(number)), Some(vec![round; 700]));
        }
        bench.end_sound();
    }
}

/// A job whose edit fails leaves nothing behind that a table may name, and nothing is lost.
#[test]
fn a_job_that_fails_loses_nothing() {
    for (kind, failure) in [
        (OperationKind::Write, Failure::NoSpace),
        (OperationKind::Write, Failure::Io),
        (OperationKind::Sync, Failure::Io),
    ] {
        for later in 1..12 {
            let faults = FaultDevice::new(device::memory());
            let bench = bench_on(&faults);
            for number in 0..120 {
                bench.put(&key(number % 60), &[number as u8; 700]);
            }
            bench.end_segments();
            let nth = faults.count(Some(kind)) + later;
            faults.fail(Fault { kind: Some(kind), nth, failure, lasting: Lasting::ForGood });
            let failed = bench.collect_once();
            let has_all = |bench: &Bench| {
                for number in 60..120 {
                    let found = bench.get(&key(number % 60));
                    assert_eq!(found, Some(vec![number as u8; 700]), "{kind:?} {later}");
                }
            };
            has_all(&bench);
            faults.heal();
            let is_over = failed.is_ok();
            let bench = Bench::on(bench.0.end()).expect("opens again");
            has_all(&bench);
            bench.end_segments();
            bench.collect_all();
            has_all(&bench);
            bench.end_sound();
            if is_over {
                assert!(later > 2, "a job writes");
                break;
            }
        }
    }
}

#[test]
fn bad_options_are_refused() {
    for (bad, expected) in [
        (Options { separation_bytes: (64 << 10) + 1, ..small() }, "separation_bytes"),
        (Options { segment_bytes_max: 0, ..small() }, "segment_bytes_max"),
        (Options { segment_bytes_max: 96 << 10, ..small() }, "segment_bytes_max"),
        (Options { groups_max: 3, ..small() }, "groups_max"),
        (Options { groups_max: 0, ..small() }, "groups_max"),
        (Options { reserve_percent: 401, ..small() }, "reserve_percent"),
    ] {
        let device = device::memory();
        let refused = Bench::with(Arc::clone(&device), Arc::new(NoJournal), bad).err();
        assert!(
            matches!(refused, Some(Error::BadOption { option, .. }) if option == expected),
            "{refused:?}"
        );
        assert_eq!(device.list("").expect("memory lists"), []);
    }
}

/// Damage of the index is in a file of the directory `index`.
#[test]
fn damage_of_the_index_is_named_by_its_path() {
    let bench = Bench::new();
    for number in 0..50 {
        bench.put(&key(number), &[1; 400]);
    }
    let device = bench.end_sound();
    let index = device.subdevice("index").expect("it is there");
    for entry in index.list("").expect("memory lists") {
        if entry.name.contains("table") {
            let file = index.open(&entry.name, device::Mode::Write).expect("it is there");
            for block in 0..file.len().expect("it has one") / 64 {
                file.write_at(block * 64, &[0xa5]).expect("memory takes it");
            }
        }
    }
    let opened = Bench::on(Arc::clone(&device));
    let named = |error: Error| match error {
        Error::Corruption(damage) => damage.file,
        other => panic!("{other}"),
    };
    let files = match opened {
        Err(error) => vec![named(error)],
        Ok(bench) => {
            let mut value = Vec::new();
            let got = reads::BlockingReads::get(&bench.store, &key(1), &mut value);
            let pin = bench.sequence.pin();
            let scan = bench.store.scan(engine::KeyRange::all(), engine::Direction::Forward, pin);
            let scanned = scan.and_then(|mut walk| walk.next().map(|_| ()));
            [got.map(|_| ()), scanned].into_iter().filter_map(Result::err).map(named).collect()
        }
    };
    assert!(!files.is_empty(), "the damage is found");
    assert!(files.iter().all(|file| file.starts_with("index/")), "{files:?}");
}

/// A store that is closed says so, also to a reader with a handle.
#[test]
fn a_closed_store_has_no_open_files() {
    let bench = Bench::new();
    bench.put(b"k", &[1; 400]);
    bench.write_buffers().expect("memory takes it");
    let values = Arc::clone(&bench.store.shared.values);
    let place = values.segment(values.segment_count() - 1).expect("the first segment").place;
    assert!(values.volumes.file(place.volume).is_ok());
    bench.store.close().expect("closes");
    assert_eq!(values.volumes.file(place.volume).err(), Some(Error::Closed));
}

/// Segments are sealed early if the memory for their footers shrinks.
#[test]
fn footers_give_their_memory_back() {
    let options = Options { separation_bytes: 0, buffer_bytes_max: 1 << 20, ..small() };
    let opened = Bench::with_memory(device::memory(), Arc::new(NoJournal), options, 64 << 20);
    let bench = opened.expect("it opens");
    for number in 0..100 {
        bench.put(&key(number), &[1; 100]);
    }
    let values = &bench.store.shared.values;
    values.flush_down_to(0, u64::MAX).expect("memory takes it");
    assert!(values.entry_bytes() >= 100 * 40);
    assert_eq!(bench.detail("sealed_segments"), 0);
    values.flush_down_to(0, 1000).expect("memory takes it");
    assert!(values.entry_bytes() <= 1000);
    assert!(bench.detail("sealed_segments") > 0);
    assert_eq!(bench.get(&key(7)), Some(vec![1; 100]));
    bench.end_sound();
}
