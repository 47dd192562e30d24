//! The device of a range, alone and beneath a database.

mod crash;
mod format;
mod fragments;
mod slow;
mod suite;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use device::{Device, Error as DeviceError, Mode, SyncKind};
use environment::Environment;
use logc::testing::{Behaviour, RANGE, World};
use logc::{Closing, Setup};
use stoc::{Epoch, Kind};
use thermocline::{Batch, Db, Durability, EngineKind, KeyspaceOptions};

use crate::{Error, Options, RangeDevice, open};

/// Opens the device of the range under an epoch.
fn try_device_of(world: &World, epoch: u64, closing: &Closing) -> Result<RangeDevice, Error> {
    world.registry.raise(epoch);
    let logs = Setup {
        range: RANGE,
        epoch: Epoch(epoch),
        registry: Arc::clone(&world.registry) as _,
        stocs: Arc::new(world.clone()),
        ensemble: 3,
        quorum: 2,
        mode: logc::Mode::Durable,
        slow: Duration::from_millis(100),
        backlog_bytes: 16 << 20,
        gives_up_log: false,
        environment: Environment::seeded(epoch),
        closing: closing.clone(),
    };
    let options = Options { logs, copies: 2, rho: 3 };
    open(&options)
}

/// The same, with enough StoCs up.
fn device_of(world: &World, epoch: u64) -> RangeDevice {
    try_device_of(world, epoch, &Closing::default()).expect("enough StoCs are up")
}

fn content(device: &dyn Device, name: &str) -> Vec<u8> {
    let file = device.open(name, Mode::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it has a length") as usize];
    file.read_at(0, &mut bytes).expect("enough StoCs are up");
    bytes
}

/// F1 to F3: synced files of each kind are found by the next owner, and others need not be.
#[test]
fn synced_files_are_found_by_the_next_owner() {
    let world = World::new(4);
    let device = device_of(&world, 1);
    device.create_dir("journal").expect("it is in memory");
    device.create_dir("dir/below").expect("it is in memory");
    device.sync_dir("").expect("all StoCs are up");
    let small = device.open("dir/small", Mode::CreateNew).expect("it is new");
    small.write_at(3, b"small").expect("it is in memory");
    small.sync(SyncKind::All).expect("all StoCs are up");
    let journal = device.open("journal/1.new", Mode::CreateNew).expect("it is new");
    journal.write_at(0, b"header").expect("all StoCs are up");
    device.rename("journal/1.new", "journal/1.journal").expect("it is there");
    device.sync_dir("journal").expect("all StoCs are up");
    // Without a sync.
    journal.write_at(6, b"group").expect("all StoCs are up");
    let table = device.open_blocks("dir/below/table", Mode::CreateNew).expect("it is new");
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at / 7) as u8).collect();
    for (offset, part) in (0..).step_by(70_000).zip(bytes.chunks(70_000)) {
        table.write_at(offset, part).expect("all StoCs are up");
    }
    let mut read = [0; 4];
    table.read_at(69_998, &mut read).expect("it is in memory");
    assert_eq!(read.as_slice(), bytes.get(69_998..70_002).unwrap_or_default());
    table.sync(SyncKind::All).expect("all StoCs are up");
    device.sync_dir("dir/below").expect("all StoCs are up");
    let lost = device.open("unsynced", Mode::CreateNew).expect("it is new");
    lost.write_at(0, b"lost").expect("it is in memory");
    drop((small, journal, table, lost, device));
    for epoch in 2..5 {
        let device = device_of(&world, epoch);
        assert_eq!(content(&device, "dir/small"), b"\0\0\0small");
        assert_eq!(content(&device, "journal/1.journal"), b"headergroup");
        assert_eq!(content(&device, "dir/below/table"), bytes);
        let found = device.exists("unsynced").expect("it is in memory");
        assert!(!found || content(&device, "unsynced").is_empty());
        // A table never changes.
        let table = device.open_blocks("dir/below/table", Mode::Write).expect("it is there");
        assert!(matches!(table.write_at(0, b"x"), Err(DeviceError::Io { .. })));
    }
}

/// F4: the files of a table are released with its last name and reader.
#[test]
fn f4_files_of_a_removed_table_are_released() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    let tables = || {
        let lists = (1..=3).map(|node| world.stoc(node).list(RANGE));
        lists.flatten().filter(|file| file.name.kind == Kind::Data).count()
    };
    let table = device.open_blocks("table", Mode::CreateNew).expect("it is new");
    table.write_at(0, b"bytes").expect("all StoCs are up");
    table.sync(SyncKind::All).expect("all StoCs are up");
    device.link("table", "second").expect("it is there");
    device.sync_dir("").expect("all StoCs are up");
    assert_eq!(tables(), 2);
    device.remove("table").expect("it is there");
    device.sync_dir("").expect("all StoCs are up");
    assert_eq!(tables(), 2);
    device.remove("second").expect("it is there");
    drop(table);
    assert_eq!(tables(), 2, "the removal is not in the log yet");
    let reader = device.open("second", Mode::Read);
    assert!(reader.is_err());
    device.sync_dir("").expect("all StoCs are up");
    assert_eq!(tables(), 0);
}

/// F3: a table has two copies, whichever StoC fails while it is written or afterwards.
#[test]
fn f3_a_table_survives_the_loss_of_a_stoc() {
    for failing in 1..=4 {
        let world = World::new(4);
        let device = device_of(&world, 1);
        let table = device.open_blocks("table", Mode::CreateNew).expect("it is new");
        table.write_at(0, &[1; 1_000]).expect("it is on its way");
        world.set(failing, Behaviour::Away);
        table.write_at(1_000, &[2; 1_000]).expect("it is on its way");
        table.sync(SyncKind::All).expect("three StoCs are up");
        device.sync_dir("").expect("three StoCs are up");
        let bytes = [[1; 1_000], [2; 1_000]].concat();
        assert_eq!(content(&device, "table"), bytes);
        world.set(failing, Behaviour::Up);
        for away in 1..=4 {
            world.set(away, Behaviour::Away);
            assert_eq!(content(&device, "table"), bytes, "{failing} {away}");
            world.set(away, Behaviour::Up);
        }
    }
}

/// The owner before changes nothing.
#[test]
fn an_old_owner_changes_nothing() {
    let world = World::new(3);
    let old = device_of(&world, 1);
    let file = old.open("file", Mode::CreateNew).expect("it is new");
    file.write_at(0, b"old").expect("it is in memory");
    file.sync(SyncKind::All).expect("all StoCs are up");
    let new = device_of(&world, 2);
    file.write_at(0, b"late").expect("it is in memory");
    assert!(matches!(file.sync(SyncKind::All), Err(DeviceError::Io { .. })));
    let table = old.open_blocks("table", Mode::CreateNew).expect("it is new");
    table.write_at(0, b"late").expect("it is on its way");
    assert!(matches!(table.sync(SyncKind::All), Err(DeviceError::Io { .. })));
    assert_eq!(content(&new, "file"), b"old");
    assert_eq!(new.exists("table"), Ok(false));
}

/// The log of changes is written again before it grows too long.
#[test]
fn the_manifest_log_stays_short() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    let file = device.open("file", Mode::CreateNew).expect("it is new");
    for round in 0..60_u8 {
        file.write_at(0, &vec![round; 100_000]).expect("it is in memory");
        file.sync(SyncKind::All).expect("all StoCs are up");
    }
    let logs = world.stoc(1).list(RANGE).into_iter();
    let logs = logs.filter(|file| file.name.kind == Kind::Manifest);
    let bytes: u64 = logs.filter_map(|file| file.length).sum();
    assert!(bytes < 2_500_000, "{bytes}");
    drop((file, device));
    assert_eq!(content(&device_of(&world, 2), "file"), vec![59; 100_000]);
}

fn db_options() -> thermocline::Options {
    thermocline::Options { memory_bytes: 64 << 20, ..thermocline::Options::default() }
}

/// A database on the device: after its process has ended and a StoC is lost, a
/// reader finds all writes.
#[test]
fn a_database_survives_its_process_and_a_stoc() {
    for engine in [EngineKind::Lsm, EngineKind::Memory] {
        let world = World::new(4);
        let mut epoch = 1;
        let mut keys = 0_u32;
        for round in 0..4 {
            let device = device_of(&world, epoch);
            epoch += 1;
            let db = Db::open_on(Arc::new(device.clone()), "range", db_options());
            let db = db.expect("enough StoCs are up");
            let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
            let space = db.keyspace("data", options).expect("enough StoCs are up");
            for key in (0..keys).step_by(7) {
                let value = space.get(&key.to_be_bytes()).expect("enough StoCs are up");
                assert_eq!(value, Some(key.to_le_bytes().repeat(25)), "{engine}, {round}: {key}");
            }
            let flushed = space.durability(Durability::Flushed);
            for _ in 0..30 {
                let mut batch = Batch::new();
                for key in keys..keys + 100 {
                    batch.put(&flushed, &key.to_be_bytes(), &key.to_le_bytes().repeat(25));
                }
                keys += 100;
                db.durability(Durability::Flushed).write(&batch).expect("enough StoCs are up");
            }
            if round == 1 {
                space.flush().expect("enough StoCs are up");
            }
            // The process ends without a close: the logs accept nothing more.
            device.close();
            drop((space, flushed));
            let _is_refused = db.close();
            world.replace(1 + round);
            // Three StoCs are left. Only files that are made from now on have all their copies.
            if round == 1 {
                let device = device_of(&world, epoch);
                epoch += 1;
                let db = Db::open_on(Arc::new(device), "range", db_options());
                db.and_then(|db| db.close()).expect("enough StoCs are up");
            }
        }
    }
}
