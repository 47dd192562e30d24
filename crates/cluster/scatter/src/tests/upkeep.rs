//! Orphans and repair (F5, F6), and the order of changes between threads (F1).

use std::sync::Arc;
use std::thread;

use device::{Device, Error as DeviceError, Mode, SyncKind};
use logc::testing::{Behaviour, RANGE, World, options as stoc_options};
use stoc::{Kind, Stoc};

use super::{content, device_of};
use crate::RangeDevice;

const BYTES: [u8; 1_000] = [7; 1_000];

fn put_table(device: &RangeDevice, name: &str) {
    let table = device.open_blocks(name, Mode::CreateNew).expect("it is new");
    table.write_at(0, &BYTES).expect("it is on its way");
    table.sync(SyncKind::All).expect("enough StoCs are up");
    device.sync_dir("").expect("enough StoCs are up");
}

/// The StoCs that have files of tables, each as often as it has one.
fn holders(world: &World, stocs: u32) -> Vec<u32> {
    let files = |node: u32| {
        let files = world.stoc(node).list(RANGE).into_iter();
        files.filter(|file| file.name.kind == Kind::Data).map(move |_| node)
    };
    (1..=stocs).flat_map(files).collect()
}

/// Files that no table has are released at the next opening, others never.
#[test]
fn f5_an_opening_releases_orphans_alone() {
    let world = World::new(3);
    let old = device_of(&world, 1);
    put_table(&old, "kept");
    let kept = holders(&world, 3);
    assert_eq!(kept.len(), 2);
    // One is finished and has a name, and another is half written.
    let unnamed = old.open_blocks("unnamed", Mode::CreateNew).expect("it is new");
    unnamed.write_at(0, &BYTES).expect("it is on its way");
    let second = old.open_blocks("second", Mode::CreateNew).expect("it is new");
    second.write_at(0, &BYTES).expect("it is on its way");
    assert_eq!(holders(&world, 3).len(), 6);
    let new = device_of(&world, 2);
    assert_eq!(holders(&world, 3), kept);
    assert_eq!(content(&new, "kept"), BYTES);
    // A table that is half written is no orphan. It becomes one with its removal.
    let half = new.open_blocks("half", Mode::CreateNew).expect("it is new");
    half.write_at(0, &BYTES).expect("it is on its way");
    assert_eq!(new.files().release_orphans(), 0);
    let given_up = new.open_blocks("given-up", Mode::CreateNew).expect("it is new");
    given_up.write_at(0, &BYTES).expect("it is on its way");
    drop(given_up);
    assert_eq!(holders(&world, 3).len(), 6);
    new.remove("given-up").expect("it is there");
    new.sync_dir("").expect("all StoCs are up");
    assert_eq!(holders(&world, 3).len(), 4);
    half.sync(SyncKind::All).expect("all StoCs are up");
    assert_eq!(content(&new, "half"), BYTES);
}

/// A repair releases the log files that no record names, and no others.
#[test]
fn f5_a_repair_releases_log_files_without_a_segment() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    // The StoC makes files of the manifest log, and its replies are lost.
    world.set(1, Behaviour::Mute);
    let large = device.open("large", Mode::CreateNew).expect("it is new");
    for round in 0..100_u8 {
        large.write_at(0, &vec![round; 50_000]).expect("it is in memory");
        large.sync(SyncKind::All).expect("two StoCs are up");
    }
    world.set(1, Behaviour::Up);
    let unregistered = || {
        let record = world.registry.record(Kind::Manifest);
        let names = record.segments.iter().map(|segment| segment.name(RANGE, Kind::Manifest));
        let names: Vec<_> = names.collect();
        let files = world.stoc(1).list(RANGE).into_iter();
        let logs = files.filter(|file| file.name.kind == Kind::Manifest);
        logs.filter(|file| !names.contains(&file.name)).count()
    };
    assert_ne!(unregistered(), 0);
    assert_eq!(device.repair(), Ok(0));
    assert_eq!(unregistered(), 0);
    drop(device);
    let device = device_of(&world, 2);
    assert_eq!(content(&device, "large"), vec![99; 50_000]);
}

/// A table has two copies again after a StoC is lost, and the next owner finds them.
#[test]
fn f6_a_repair_makes_up_for_a_lost_stoc() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    put_table(&device, "table");
    assert_eq!(device.repair(), Ok(0));
    let [lost, other] = <[u32; 2]>::try_from(holders(&world, 3)).expect("it has two copies");
    world.replace(lost);
    assert_eq!(holders(&world, 3), [other]);
    assert_eq!(device.repair(), Ok(1));
    assert_eq!(device.repair(), Ok(0));
    assert_eq!(holders(&world, 3).len(), 2);
    world.set(other, Behaviour::Away);
    assert_eq!(content(&device, "table"), BYTES);
    world.set(other, Behaviour::Up);
    drop(device);
    let device = device_of(&world, 2);
    world.set(other, Behaviour::Away);
    assert_eq!(content(&device, "table"), BYTES);
}

/// A StoC that does not reply has not lost its copies. A table keeps them as long as there are no
/// others.
#[test]
fn f6_a_copy_counts_until_others_replace_it() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    put_table(&device, "table");
    let [first, second] = <[u32; 2]>::try_from(holders(&world, 3)).expect("it has two copies");
    world.set(first, Behaviour::Away);
    assert_eq!(device.repair(), Ok(0));
    assert_eq!(content(&device, "table"), BYTES);
    // One is lost, and the other one cannot be read now.
    world.replace(first);
    world.set(first, Behaviour::Up);
    world.set(second, Behaviour::Away);
    assert!(matches!(device.repair(), Err(DeviceError::Unavailable { .. })));
    world.set(second, Behaviour::Up);
    assert_eq!(device.repair(), Ok(1));
    assert_eq!(holders(&world, 3).len(), 2);
    assert_eq!(content(&device, "table"), BYTES);
}

/// A damaged copy is never read, and a repair replaces it, on the same StoC if there is no other.
#[test]
fn f6_a_damaged_copy_is_replaced() {
    let devices = [(); 2].map(|()| device::memory());
    let open = |(node, device): (u32, &Arc<dyn Device>)| {
        let stoc = Stoc::open(Arc::clone(device), &stoc_options(node, 1));
        Arc::new(stoc.expect("memory takes it"))
    };
    let world = World::of((1..).zip(&devices).map(open).collect(), Arc::default());
    let device = device_of(&world, 1);
    put_table(&device, "table");
    for (node, disk) in (1..).zip(&devices) {
        let files = world.stoc(node).list(RANGE).into_iter();
        let mut tables = files.filter(|file| file.name.kind == Kind::Data);
        let name = tables.next().expect("it has a copy").name;
        let file = disk.open(&name.path(), Mode::Write).expect("it is there");
        let mut bytes = vec![0; file.len().expect("it has a length") as usize];
        file.read_at(0, &mut bytes).expect("it is there");
        let at = bytes.windows(8).position(|window| window == [7; 8]);
        file.write_at(at.expect("it has the bytes") as u64, b"x").expect("memory takes it");
        assert_eq!(content(&device, "table"), BYTES);
        assert_eq!(content(&device, "table"), BYTES);
        assert_eq!(device.repair(), Ok(1), "{node}");
    }
}

/// The next owner finds the names that several threads have changed during a rewrite of the log.
#[test]
fn f1_changes_keep_their_order_while_the_log_is_written_again() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    thread::scope(|scope| {
        let device = &device;
        scope.spawn(move || {
            let large = device.open("large", Mode::CreateNew).expect("it is new");
            for round in 0..200_u8 {
                large.write_at(0, &vec![round; 50_000]).expect("it is in memory");
                large.sync(SyncKind::All).expect("all StoCs are up");
            }
        });
        for worker in 0..2 {
            scope.spawn(move || {
                for round in 0..2_000 {
                    let (new, old) = (format!("{worker}.new"), format!("{worker}.old"));
                    let file = device.open(&new, Mode::CreateNew).expect("it is new");
                    file.write_at(0, format!("{round}").as_bytes()).expect("it is in memory");
                    device.rename(&new, &old).expect("it is there");
                    if round % 3 == 0 {
                        device.remove(&old).expect("it is there");
                    }
                    file.sync(SyncKind::All).expect("all StoCs are up");
                }
            });
        }
    });
    device.sync_dir("").expect("all StoCs are up");
    drop(device);
    let device = device_of(&world, 2);
    assert_eq!(content(&device, "large"), vec![199; 50_000]);
    for worker in 0..2 {
        assert_eq!(content(&device, &format!("{worker}.old")), b"1999");
        assert_eq!(device.exists(&format!("{worker}.new")), Ok(false));
    }
}

/// A change during the begin of a file of the log is in the first frame of the file alone.
#[test]
fn f1_the_first_frame_has_the_changes_before_it() {
    let world = World::new(3);
    let device = device_of(&world, 1);
    put_table(&device, "before");
    let large = device.open("large", Mode::CreateNew).expect("it is new");
    let renaming = device.clone();
    world.registry.on_change(move |_, _| {
        let _is_first = renaming.rename("before", "after");
    });
    while device.exists("before") == Ok(true) {
        large.write_at(0, &[1; 100_000]).expect("it is in memory");
        large.sync(SyncKind::All).expect("all StoCs are up");
    }
    device.sync_dir("").expect("all StoCs are up");
    drop(device);
    let device = device_of(&world, 2);
    assert_eq!(content(&device, "after"), BYTES);
    assert_eq!(device.exists("before"), Ok(false));
}
