//! Faults of the device beneath a whole cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use device::{Device, FaultDevice, Mode, OperationKind, Recorder, RoomDevice};
use environment::Environment;

use super::{check, copy, files_below, keyspace, open, put, try_open, value};
use crate::Error;

fn tables(device: &dyn Device, node: u32) -> Vec<String> {
    let files = files_below(device, &format!("stoc-{node}")).into_iter();
    files.filter(|name| name.contains("/data-")).collect()
}

/// The number of a table in the path of one of its copies.
fn number_of(path: &str) -> &str {
    path.rsplit('/').next().and_then(|name| name.split('-').nth(1)).unwrap_or_default()
}

/// The files of two tables are cut short, one on each of two StoCs. Each table has another copy,
/// and both StoCs can write.
#[test]
fn reads_that_fail_stop_no_stoc() {
    let device = device::memory();
    let cluster = open(&device);
    let data = keyspace(&cluster, "data");
    for part in 0..6 {
        put(&data, part * 300..(part + 1) * 300);
        data.flush().expect("all StoCs are up");
    }
    drop(data);
    cluster.close().expect("all StoCs are up");
    drop(cluster);
    let first = tables(&*device, 1);
    let on_first: Vec<&str> = first.iter().map(|path| number_of(path)).collect();
    let second = tables(&*device, 2);
    let other = second.iter().filter(|path| !on_first.contains(&number_of(path)));
    let cluster = open(&device);
    for name in first.iter().chain(other) {
        let file = device.open(name, Mode::Write).expect("it is there");
        file.set_len(8_192).expect("memory takes it");
    }
    let data = keyspace(&cluster, "data");
    check(&data, 0..1_800);
    put(&data, 1_800..1_810);
    cluster.repair().expect("each table has a copy");
    assert_eq!(cluster.damaged_copies(), 0);
    check(&data, 0..1_810);
}

/// Writes to a full device fail, reads succeed, a close ends, and no acknowledged write is lost.
#[test]
fn a_full_device_is_reported() {
    let below = device::memory();
    let room = RoomDevice::new(Arc::clone(&below), 512 << 20).expect("memory takes it");
    let cluster = open(&(Arc::clone(&room) as Arc<dyn Device>));
    let data = keyspace(&cluster, "data");
    put(&data, 0..100);
    room.fill();
    let mut key = 100_u32;
    let refused = loop {
        match data.put(&key.to_be_bytes(), &value(key)) {
            Ok(_) => key += 1,
            Err(error) => break error.to_string(),
        }
        assert!(key < 100_000, "the device is full");
    };
    assert!(refused.contains("no space left"), "{refused}");
    check(&data, 0..key);
    assert!(cluster.stopped_stocs().len() >= 2);
    drop(data);
    let _refused = cluster.close();
    drop(cluster);
    let cluster = open(&below);
    check(&keyspace(&cluster, "data"), 0..key);
}

/// Waits until `flag` is set, `limit` at most.
fn await_flag(limit: Duration, flag: &AtomicBool) {
    let pause = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    while waited < limit && !flag.load(SeqCst) {
        Environment::real().sleep(pause);
        waited += pause;
    }
}

/// A StoC is slow when the cluster is closed: nothing is written once the lock is released.
#[test]
fn nothing_is_written_after_a_close() {
    let recorder = Recorder::new(device::memory());
    let faults = FaultDevice::new(Arc::clone(&recorder) as _);
    let cluster = open(&(Arc::clone(&faults) as Arc<dyn Device>));
    let data = keyspace(&cluster, "data");
    put(&data, 0..50);
    let (closes, is_closed) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (begun, ended) = (Arc::clone(&closes), Arc::clone(&is_closed));
    faults.interpose_anywhere(OperationKind::Write, move || {
        await_flag(Duration::from_secs(10), &begun);
        await_flag(Duration::from_secs(1), &ended);
    });
    put(&data, 50..100);
    data.flush().expect("two StoCs are fast");
    drop(data);
    closes.store(true, SeqCst);
    cluster.close().expect("two StoCs are fast");
    drop(cluster);
    let before = recorder.recording().operations().len();
    is_closed.store(true, SeqCst);
    Environment::real().sleep(Duration::from_millis(500));
    let late = recorder.recording().operations().len() - before;
    assert_eq!(late, 0);
}

/// Repairs run while a database writes, flushes and trims its journal.
#[test]
fn repairs_and_writes_do_not_wait_for_each_other() {
    let device = device::memory();
    let mut options = super::options();
    options.database.journal_bytes = 4 << 20;
    let cluster = crate::LocalCluster::open_on(device, "cluster", options);
    let cluster = cluster.expect("memory takes it");
    let data = keyspace(&cluster, "data");
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(SeqCst) {
                cluster.repair().expect("all StoCs are up");
            }
        });
        let large = vec![5; 200_000];
        for key in 0..400_u32 {
            data.put(&(key % 40).to_be_bytes(), &large).expect("all StoCs are up");
        }
        has_ended.store(true, SeqCst);
    });
    cluster.close().expect("all StoCs are up");
}

/// A start with too few StoCs changes nothing: the cluster starts when they are back.
#[test]
fn a_start_that_is_refused_changes_nothing() {
    let device = device::memory();
    let cluster = open(&device);
    put(&keyspace(&cluster, "data"), 0..10);
    cluster.close().expect("all StoCs are up");
    drop(cluster);
    let whole = copy(&device);
    for node in [1, 2] {
        device.remove_dir(&format!("stoc-{node}")).expect("it is there");
    }
    let refused = try_open(&device).expect_err("one StoC has the logs");
    assert!(
        matches!(&refused, Error::TooFewStocs { opened: 1, cause, .. } if cause.contains("missing")),
        "{refused}"
    );
    assert_eq!(device.exists("stoc-1"), Ok(false));
    // They come back.
    for name in ["stoc-1", "stoc-2"].iter().flat_map(|dir| files_below(&*whole, dir)) {
        let (dir, _) = name.rsplit_once('/').expect("it is in a directory");
        device.create_dir(dir).expect("memory takes it");
        let file = whole.open(&name, Mode::Read).expect("it is there");
        let mut bytes = vec![0; file.len().expect("it has a length") as usize];
        file.read_at(0, &mut bytes).expect("it is there");
        let back = device.open(&name, Mode::CreateNew).expect("it is new");
        back.write_at(0, &bytes).expect("memory takes it");
    }
    let cluster = open(&device);
    assert!(cluster.warnings().is_empty());
    check(&keyspace(&cluster, "data"), 0..10);
    cluster.close().expect("all StoCs are up");
    drop(cluster);
    device.remove_dir("coordinator").expect("it is there");
    let refused = try_open(&device).expect_err("nothing names the ranges");
    assert!(matches!(refused, Error::NoCoordinator { .. }), "{refused}");
}
