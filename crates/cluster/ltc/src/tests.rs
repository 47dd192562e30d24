//! The local cluster on a device in memory: starts, losses of StoCs, and refusals.

mod choice;
mod crash;
mod faults;
mod modes;
mod remote;
mod results;
mod serving;
mod world;

use std::sync::Arc;

use device::{Device, Mode, SyncKind};
use environment::Environment;
use thermocline::{Durability, EngineKind, Keyspace, KeyspaceOptions};

use crate::{Error, LocalCluster, Options};

fn options() -> Options {
    let database = thermocline::Options {
        background_threads: 1,
        environment: Environment::real(),
        ..thermocline::Options::default()
    };
    Options { memory_bytes: 256 << 20, database, ..Options::default() }
}

fn try_open(device: &Arc<dyn Device>) -> crate::Result<LocalCluster> {
    LocalCluster::open_on(Arc::clone(device), "cluster", options())
}

fn open(device: &Arc<dyn Device>) -> LocalCluster {
    try_open(device).expect("enough StoCs can be opened")
}

fn keyspace(cluster: &LocalCluster, name: &str) -> Keyspace {
    let db = cluster.keyspace(name).expect("there is memory for it");
    let options = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("data", options).expect("the range is open");
    keyspace.durability(Durability::Flushed)
}

fn value(key: u32) -> Vec<u8> {
    key.to_le_bytes().repeat(30)
}

fn put(keyspace: &Keyspace, keys: std::ops::Range<u32>) {
    for key in keys {
        keyspace.put(&key.to_be_bytes(), &value(key)).expect("the range is open");
    }
}

fn check(keyspace: &Keyspace, keys: std::ops::Range<u32>) {
    for key in keys {
        let found = keyspace.get(&key.to_be_bytes()).expect("the range is open");
        assert_eq!(found, Some(value(key)), "{key}");
    }
}

/// R1: what was acknowledged is found after a close, and after an end without one.
#[test]
fn acknowledged_writes_survive_each_end() {
    let device = device::memory();
    for round in 0..4_u32 {
        let cluster = open(&device);
        assert!(cluster.warnings().is_empty());
        for name in ["first", "second"] {
            let data = keyspace(&cluster, name);
            check(&data, 0..round * 100);
            put(&data, round * 100..(round + 1) * 100);
            if round == 1 {
                data.flush().expect("all StoCs are up");
            }
        }
        if round % 2 == 0 {
            cluster.close().expect("all StoCs are up");
        }
    }
    let cluster = open(&device);
    check(&keyspace(&cluster, "first"), 0..400);
    check(&keyspace(&cluster, "second"), 0..400);
    let names: Vec<String> = cluster.keyspaces().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["first", "second"]);
}

/// The directories of all StoCs are lost, one after another. Between two losses the cluster is up
/// until all tables have two copies again.
#[test]
fn each_stoc_in_turn_can_be_lost() {
    let device = device::memory();
    let mut keys = 0;
    for lost in [3, 1, 2] {
        let cluster = open(&device);
        let data = keyspace(&cluster, "data");
        for _ in 0..3 {
            put(&data, keys..keys + 300);
            keys += 300;
            data.flush().expect("enough StoCs are up");
        }
        put(&data, keys..keys + 50);
        keys += 50;
        drop((data, cluster));
        device.remove_dir(&format!("stoc-{lost}")).expect("it is there");
        let cluster = open(&device);
        assert_eq!(cluster.warnings().len(), 1, "{:?}", cluster.warnings());
        let data = keyspace(&cluster, "data");
        check(&data, 0..keys);
        put(&data, keys..keys + 50);
        keys += 50;
        check(&data, 0..keys);
        data.flush().expect("enough StoCs are up");
        cluster.repair().expect("two StoCs have each table");
        cluster.close().expect("enough StoCs are up");
    }
    let cluster = open(&device);
    assert!(cluster.warnings().is_empty());
    check(&keyspace(&cluster, "data"), 0..keys);
}

/// Returns the names of all files below a directory.
fn files_below(device: &dyn Device, dir: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in device.list(dir).expect("it is there") {
        let path = format!("{dir}/{}", entry.name);
        if entry.is_dir {
            files.extend(files_below(device, &path));
        } else {
            files.push(path);
        }
    }
    files
}

/// Each file of a StoC is damaged in turn, at its beginning, in its middle and at its end.
#[test]
fn a_damaged_file_of_one_stoc_loses_nothing() {
    let original = device::memory();
    {
        let cluster = open(&original);
        let data = keyspace(&cluster, "data");
        put(&data, 0..300);
        data.flush().expect("all StoCs are up");
        put(&data, 300..350);
        drop(data);
        cluster.close().expect("all StoCs are up");
    }
    let files = files_below(&*original, "stoc-2");
    assert!(files.len() > 4, "{files:?}");
    for name in files {
        for part in 0..3 {
            let device = copy(&original);
            let file = device.open(&name, Mode::Write).expect("it is there");
            let length = file.len().expect("it has a length");
            if length == 0 {
                continue;
            }
            let at = part * (length - 1) / 2;
            let mut byte = [0];
            file.read_at(at, &mut byte).expect("it is there");
            file.write_at(at, &byte.map(|byte| byte ^ 0x21)).expect("memory takes it");
            drop(file);
            let cluster = open(&device);
            let data = keyspace(&cluster, "data");
            check(&data, 0..350);
            put(&data, 350..360);
            check(&data, 350..360);
        }
    }
}

/// Copies all files of a device to another one.
fn copy(from: &Arc<dyn Device>) -> Arc<dyn Device> {
    let to = device::memory();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in from.list(&dir).expect("it is there") {
            let path =
                if dir.is_empty() { entry.name.clone() } else { format!("{dir}/{}", entry.name) };
            if entry.is_dir {
                to.create_dir(&path).expect("memory takes it");
                dirs.push(path);
            } else {
                let file = from.open(&path, Mode::Read).expect("it is there");
                let mut bytes = vec![0; file.len().expect("it has a length") as usize];
                file.read_at(0, &mut bytes).expect("it is there");
                let copy = to.open(&path, Mode::Create).expect("memory takes it");
                copy.write_at(0, &bytes).expect("memory takes it");
                copy.sync(SyncKind::All).expect("memory takes it");
            }
        }
    }
    to
}

/// The bytes of the page docs/formats/cluster.md.
#[test]
fn the_marker_has_the_bytes_of_its_page() {
    let device = device::memory();
    drop(open(&device));
    let file = device.open("CLUSTER", Mode::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it has a length") as usize];
    file.read_at(0, &mut bytes).expect("it is there");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let page = include_str!("../../../../docs/formats/cluster.md");
    let stated = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(stated.unwrap_or_default().split_whitespace().collect::<String>(), hex);
    assert!(crate::decode_marker(&bytes).is_ok());
}

/// A write fails, and a close returns, when too few StoCs are left.
#[test]
fn writes_fail_when_two_stocs_have_stopped() {
    let disk = device::SimulatedDisk::new(7, device::Faults::none());
    let cluster = open(&(Arc::clone(&disk) as Arc<dyn Device>));
    let data = keyspace(&cluster, "data");
    put(&data, 0..10);
    disk.power_cut_at(disk.operations() + 30);
    let mut key = 10_u32;
    while data.put(&key.to_be_bytes(), &value(key)).is_ok() {
        key += 1;
        assert!(key < 1_000, "the power is off");
    }
    cluster.close().expect_err("the StoCs have stopped");
}

#[test]
fn other_directories_are_refused() {
    // A database.
    let device = device::memory();
    let db = thermocline::Db::open_on(Arc::clone(&device), "db", options().database);
    db.and_then(|db| db.close()).expect("memory takes it");
    let refused = try_open(&device).expect_err("it is a database");
    assert!(
        matches!(&refused, Error::NotACluster { place, .. } if place == "cluster"),
        "{refused}"
    );
    // A cluster that is open, one of a newer release, and a damaged marker.
    let device = device::memory();
    let cluster = open(&device);
    let refused = try_open(&device).expect_err("it is open");
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    cluster.close().expect("all StoCs are up");
    drop(cluster);
    let write = |bytes: &[u8]| {
        let file = device.open("CLUSTER", Mode::Write).expect("it is there");
        file.write_at(0, bytes).expect("memory takes it");
    };
    write(&codec::Format::new(*b"TCLUSTER", 2, 0).header(0).encode());
    let refused = try_open(&device).expect_err("it is newer");
    assert!(matches!(refused, Error::Newer { .. }), "{refused}");
    write(b"TCLUSTEX");
    let refused = try_open(&device).expect_err("it is damaged");
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
    // A cluster is no database.
    write(&codec::Format::new(*b"TCLUSTER", 1, 0).header(0).encode());
    let refused = thermocline::Db::open_on(Arc::clone(&device), "db", options().database);
    let refused = refused.map(|_| ()).expect_err("it is a cluster");
    assert!(matches!(refused, thermocline::Error::NotADatabase { .. }), "{refused}");
    drop(open(&device));
}

#[test]
fn memory_for_too_many_keyspaces_is_refused() {
    let device = device::memory();
    let open = || {
        let options = Options { memory_bytes: 20 << 20, ..options() };
        LocalCluster::open_on(Arc::clone(&device), "cluster", options)
    };
    let cluster = open().expect("memory takes it");
    let lsm = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
    // Later ones get their memory from those before.
    for number in 0..5 {
        let db = cluster.keyspace(&format!("{number}")).expect("there is memory for five");
        let made = db.keyspace("data", lsm).expect("there is memory for five");
        made.put(b"key", b"value").expect("there is memory for five");
    }
    let refused = cluster.keyspace("more").expect_err("there is no memory");
    assert!(matches!(refused, Error::NoMemory { .. }), "{refused}");
    cluster.close().expect("memory takes it");
    drop(cluster);
    let cluster = open().expect("there is memory for five");
    assert_eq!(cluster.keyspaces().len(), 5);
    for (_, db) in cluster.keyspaces() {
        let found = db.existing_keyspace("data").expect("it was made").get(b"key");
        assert_eq!(found.expect("memory takes it").as_deref(), Some(&b"value"[..]));
    }
    let (used, limit) = cluster.shared().memory.as_ref().expect("it is shared").bytes();
    assert!(used <= limit, "{used} of {limit}");
}
