//! Power cuts of all StoCs while a database on the device writes, each followed by another one
//! while the database is opened.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use device::{Device, Faults, SimulatedDisk};
use environment::Environment;
use logc::testing::{MemoryRegistry, World, options as stoc_options};
use logc::{Closing, LogRecord};
use stoc::{Kind, Stoc};
use sync::locks::Mutex;
use thermocline::{Db, Durability, EngineKind, Keyspace, KeyspaceOptions};

use super::{db_options, device_of, try_device_of};
use crate::Error;

const STOCS: u32 = 3;

/// The facts of a moment.
#[derive(Clone, Debug, Default)]
struct Moment {
    /// Keys below this one are acknowledged.
    keys: u32,
    epoch: u64,
    records: Vec<(Kind, LogRecord)>,
}

/// The moments so far, by the operations of the disk, and the keys that are acknowledged.
#[derive(Debug, Default)]
struct Noted {
    moments: Vec<(u64, Moment)>,
    keys: u32,
}

/// Opens the StoCs of a disk, each in its directory.
fn open_stocs(disk: &Arc<SimulatedDisk>, incarnation: u64) -> Option<Vec<Arc<Stoc>>> {
    let open = |node: u32| {
        let dir = format!("stoc-{node}");
        disk.create_dir(&dir).ok()?;
        disk.sync_dir("").ok()?;
        let device = disk.subdevice(&dir).ok()?;
        Stoc::open(device, &stoc_options(node, incarnation)).ok().map(Arc::new)
    };
    (1..=STOCS).map(open).collect()
}

fn value(key: u32) -> Vec<u8> {
    key.to_le_bytes().repeat(50)
}

fn keyspace(db: &Db) -> thermocline::Result<Keyspace> {
    let options = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
    Ok(db.keyspace("data", options)?.durability(Durability::Flushed))
}

/// Puts keys under two owners, with flushes.
fn run(world: &World, note: impl Fn(u32)) {
    let mut keys = 0_u32;
    for epoch in [1, 2] {
        let device = device_of(world, epoch);
        let db = Db::open_on(Arc::new(device), "range", db_options()).expect("no fault is set");
        let space = keyspace(&db).expect("no fault is set");
        for round in 0..3 {
            for _ in 0..8 {
                space.put(&keys.to_be_bytes(), &value(keys)).expect("no fault is set");
                keys += 1;
                note(keys);
            }
            if round < 2 {
                space.flush().expect("no fault is set");
            }
        }
        db.close().expect("no fault is set");
    }
}

/// Opens the database on a disk whose power is cut at an operation. A log waits for StoCs, so the
/// device is closed after the cut, as when its process ends.
fn open_until(
    disk: &Arc<SimulatedDisk>,
    cut: u64,
    registry: &Arc<MemoryRegistry>,
    epoch: u64,
    incarnation: u64,
) {
    let Some(stocs) = open_stocs(disk, incarnation) else { return };
    let world = World::of(stocs, Arc::clone(registry));
    let closing = Closing::default();
    thread::scope(|scope| {
        let opening = scope.spawn(|| {
            let device = try_device_of(&world, epoch, &closing)?;
            let _is_cut_off = Db::open_on(Arc::new(device), "range", db_options());
            Ok::<_, Error>(())
        });
        while !opening.is_finished() && disk.operations() < cut {
            Environment::real().sleep(Duration::from_millis(1));
        }
        closing.close();
        let _is_cut_off = opening.join().expect("an opening never panics");
    });
}

#[test]
fn acknowledged_writes_survive_a_power_cut_of_all_stocs() {
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.keep_history();
    let world = World::of(open_stocs(&disk, 1).expect("no fault is set"), Arc::default());
    let noted: Arc<Mutex<Noted>> = Arc::default();
    let state = {
        let (disk, registry) = (Arc::clone(&disk), Arc::clone(&world.registry));
        move |keys: u32| {
            let kinds = [Kind::Log, Kind::Manifest];
            let records = kinds.map(|kind| (kind, registry.record(kind))).to_vec();
            let epoch = registry.state_of(Kind::Log).0;
            (disk.operations(), Moment { keys, epoch, records })
        }
    };
    let (on_change, noted_there) = (state.clone(), Arc::clone(&noted));
    world.registry.on_change(move |_, _| {
        let mut noted = noted_there.lock();
        let moment = on_change(noted.keys);
        noted.moments.push(moment);
    });
    run(&world, |found| {
        let mut noted = noted.lock();
        noted.keys = found;
        noted.moments.push(state(found));
    });
    let (last, history, moments) =
        (disk.operations(), disk.history(), noted.lock().moments.clone());
    assert!(last > 300, "{last} operations");
    let mut replay = history.replay();
    for cut in 0..=last {
        replay.advance_to(cut);
        let before = moments.iter().rev().find(|(at, _)| *at <= cut);
        let moment = before.map(|(_, moment)| moment.clone()).unwrap_or_default();
        let registry = Arc::new(MemoryRegistry::default());
        moment.records.iter().for_each(|(kind, record)| registry.set_record(*kind, record.clone()));
        let image = replay.crash(cut);
        // The power is cut again while the database is opened.
        let second = image.operations() + cut * 7 % 150;
        image.power_cut_at(second);
        open_until(&image, second, &registry, moment.epoch + 1, 10 + 2 * cut);
        let at = format!("operation {cut} of {last}");
        let image = image.crash(cut + 1);
        let stocs = open_stocs(&image, 11 + 2 * cut).expect("no fault is set");
        let world = World::of(stocs, registry);
        let device = try_device_of(&world, moment.epoch + 2, &Closing::default());
        let device = device.unwrap_or_else(|error| panic!("{at}: {error}"));
        let db = Db::open_on(Arc::new(device), "range", db_options());
        let db = db.unwrap_or_else(|error| panic!("{at}: {error}"));
        let space = keyspace(&db).unwrap_or_else(|error| panic!("{at}: {error}"));
        for key in 0..moment.keys {
            let found = space.get(&key.to_be_bytes()).expect("no fault is set");
            assert_eq!(found, Some(value(key)), "{at}: {key} of {}", moment.keys);
        }
        db.close().expect("no fault is set");
    }
}
