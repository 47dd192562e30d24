//! Power cuts of all StoCs at each operation of a run, each followed by another one during the
//! opening.

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use stoc::{Kind, Stoc};
use sync::locks::Mutex;

use crate::testing::{MemoryRegistry, World};
use crate::{Log, LogRecord};

const STOCS: u32 = 3;

/// Moments by the operations of the disk before them, and the files of the last one.
type Noted = (Vec<(u64, Moment)>, Vec<(u64, u64)>);

/// The facts of a moment.
#[derive(Clone, Debug, Default)]
struct Moment {
    /// The files with their acknowledged lengths.
    files: Vec<(u64, u64)>,
    epoch: u64,
    record: LogRecord,
}

/// Bytes of a file.
fn stream(file: u64, length: u64) -> Vec<u8> {
    (0..length).map(|at| codec::hash64(file, &at.to_le_bytes()) as u8).collect()
}

/// Opens the StoCs of a disk, each in its directory.
fn open_stocs(disk: &Arc<SimulatedDisk>, incarnation: u64) -> Option<Vec<Arc<Stoc>>> {
    let open = |node: u32| {
        let dir = format!("stoc-{node}");
        disk.create_dir(&dir).ok()?;
        disk.sync_dir("").ok()?;
        let device = disk.subdevice(&dir).ok()?;
        let options = crate::testing::options(node, incarnation);
        Stoc::open(device, &options).ok().map(Arc::new)
    };
    (1..=STOCS).map(open).collect()
}

/// Appends to some files under two owners. `note` gets the files that are acknowledged.
fn run(world: &World, note: impl Fn(&[(u64, u64)])) {
    let mut files: Vec<(u64, u64)> = Vec::new();
    for epoch in [1, 2] {
        let log = world.open(epoch);
        for file in [2 * epoch, 2 * epoch + 1] {
            log.begin_file(file).expect("no fault is set");
            files.push((file, 0));
            for bytes in [10_u64, 5_000, 1] {
                append(&log, file, bytes);
                if let Some((_, length)) = files.last_mut() {
                    *length += bytes;
                }
                note(&files);
            }
        }
        if epoch == 2 {
            // From here on they may be gone.
            files.retain(|(file, _)| *file >= 4);
            note(&files);
            log.remove_before(4).expect("no fault is set");
        }
    }
}

fn append(log: &Log, file: u64, bytes: u64) {
    let (_, length) = log.files().last().copied().expect("a file was begun");
    let whole = stream(file, length + bytes);
    let part = whole.get(length as usize..).unwrap_or_default();
    log.append(file, length, part).expect("no fault is set");
}

fn compare(log: &Log, moment: &Moment, at: &str) {
    let found = log.files();
    for (file, length) in &moment.files {
        let found = found.iter().find(|(number, _)| number == file).map_or(0, |(_, found)| *found);
        assert!(found >= *length, "{at}: file {file} has {found} bytes, not {length}");
    }
    for (file, length) in found {
        let read = log.read(file, 0, length);
        assert_eq!(read.as_ref(), Ok(&stream(file, length)), "{at}: file {file}");
    }
}

#[test]
fn acknowledged_appends_survive_a_power_cut_at_each_operation() {
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.keep_history();
    let stocs = open_stocs(&disk, 1).expect("no fault is set");
    let world = World::of(stocs, Arc::default());
    // The record of the coordinator and the acknowledged bytes, by the operations of the disk.
    let noted: Arc<Mutex<Noted>> = Arc::default();
    let (disk_below, noted_there) = (Arc::clone(&disk), Arc::clone(&noted));
    world.registry.on_change(move |epoch, record| {
        let (moments, files) = &mut *noted_there.lock();
        let moment = Moment { files: files.clone(), epoch, record };
        moments.push((disk_below.operations(), moment));
    });
    run(&world, |found| {
        let (epoch, record) = world.registry.state_of(Kind::Log);
        let (moments, files) = &mut *noted.lock();
        *files = found.to_vec();
        moments.push((disk.operations(), Moment { files: files.clone(), epoch, record }));
    });
    let (last, history, moments) = (disk.operations(), disk.history(), noted.lock().0.clone());
    assert!(last > 100, "{last} operations");
    for seed in 0..2 {
        let mut replay = history.replay();
        for cut in 0..=last {
            replay.advance_to(cut);
            let before = moments.iter().rev().find(|(at, _)| *at <= cut);
            let moment = before.map(|(_, moment)| moment.clone()).unwrap_or_default();
            let registry = Arc::new(MemoryRegistry::default());
            registry.set_record(Kind::Log, moment.record.clone());
            let image = replay.crash(seed * 1_000 + cut);
            // The power is cut again while the log is opened.
            image.power_cut_at(image.operations() + cut * 7 % 60);
            if let Some(stocs) = open_stocs(&image, 10 + 2 * cut) {
                let world = World::of(stocs, Arc::clone(&registry));
                let _may_be_cut = world.try_open(moment.epoch + 1);
            }
            let image = image.crash(seed);
            let at = format!("seed {seed}, operation {cut} of {last}");
            let stocs = open_stocs(&image, 11 + 2 * cut).expect("no fault is set");
            let log = World::of(stocs, registry).try_open(moment.epoch + 2);
            let log = log.unwrap_or_else(|error| panic!("{at}: {error}"));
            compare(&log, &moment, &at);
        }
    }
}

#[test]
fn a_damaged_replica_does_not_count() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let world = World::of(open_stocs(&disk, 1).expect("no fault is set"), Arc::default());
    let log = world.open(1);
    log.begin_file(1).expect("no fault is set");
    append(&log, 1, 5_000);
    append(&log, 1, 100);
    let segment = log.lock().record.open_segments().next().cloned();
    let name = segment.map(|segment| segment.name(crate::testing::RANGE, Kind::Log));
    drop(log);
    let path = format!("stoc-1/{}", name.expect("the log has an open segment"));
    disk.flip_bit(&path, 4_096 + 200, 3).expect("there is such a byte");
    let stocs = open_stocs(&disk, 2).expect("no fault is set");
    let next = World::of(stocs, Arc::clone(&world.registry));
    let log = next.open(2);
    assert_eq!(log.read(1, 0, 5_100), Ok(stream(1, 5_100)));
    let sealed = next.registry.record(Kind::Log).segments.first().cloned();
    let nodes: Vec<u32> = sealed.iter().flat_map(|sealed| sealed.nodes()).collect();
    assert_eq!(nodes, [2, 3]);
}
