//! Power cuts at every operation of a backup, of a restoring, and of the database that is copied.
//!
//! - The directory of backups: every image holds each earlier backup, whole. The backup under way
//!   is there whole or not at all, and another one can be made.
//! - The directory that is restored to, or that a checkpoint is made in: Every image is either the
//!   whole database or none.
//! - The database: Every image holds all earlier writes.
//!
//! `THERMOCLINE_SEED` chooses the images.

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use thermocline::{Backups, Db, Error, Options, Progress};

use super::database::{Content, content, open, options, restored, write};

/// Images taken at each operation. An image of a seed is another at each operation.
const IMAGES: u64 = 1;

fn seed() -> u64 {
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(1);
    println!("THERMOCLINE_SEED={seed}");
    seed
}

/// Passes each image after each operation of `disk` from `first` on to `judge`, with the operation
/// and whether it is the first image there. Returns the number of images.
fn each_image(
    disk: &SimulatedDisk,
    first: u64,
    mut judge: impl FnMut(Arc<SimulatedDisk>, u64, bool),
) -> u64 {
    let (seed, history) = (seed(), disk.history());
    let mut replay = history.replay();
    let mut images = 0;
    for operation in first..=history.last_operation() {
        replay.advance_to(operation);
        for image in 0..IMAGES {
            judge(replay.crash(seed ^ (operation << 8) ^ image), operation, image == 0);
            images += 1;
        }
    }
    images
}

fn on(disk: &Arc<SimulatedDisk>) -> Backups {
    Backups::open_on(Arc::clone(disk) as Arc<dyn Device>, "backups").unwrap()
}

#[test]
fn a_power_cut_leaves_each_backup_whole_or_refused() {
    let db = open(device::memory());
    let disk = SimulatedDisk::new(seed(), Faults::none());
    disk.keep_history();
    let backups = on(&disk);
    // The content of each backup, and the operation from which on it must be there.
    let (mut expected, mut made_at) = (Vec::new(), Vec::new());
    for round in 0..3 {
        write(&db, round * 20..round * 20 + 40, &[round as u8; 3000]);
        db.flush().unwrap();
        if round == 2 {
            // The removal of a backup is cut off at each operation, too.
            backups.keep(1).unwrap();
        }
        db.backup(&backups, &Progress::default()).unwrap();
        expected.push(content(&db));
        made_at.push(disk.operations());
    }
    let now = content(&db);
    let (mut whole, mut cut_off) = (0, 0);
    let images = each_image(&disk, 0, |image, operation, is_first| {
        let backups = on(&image);
        let listed: Vec<u64> = backups.list().unwrap().iter().map(|one| one.number).collect();
        let made = made_at.iter().filter(|at| **at <= operation).count();
        let newest = listed.last().copied().unwrap_or(0) as usize;
        assert!(newest == made || newest == made + 1, "{made} made, {listed:?} at {operation}");
        for number in &listed {
            let found = restored(&backups, *number);
            assert!(found == expected[*number as usize - 1], "backup {number} at {operation}");
            whole += 1;
        }
        let unfinished = image.list("").unwrap();
        let unfinished = unfinished.iter().filter(|one| one.name.ends_with(".unfinished")).count();
        if listed.is_empty() {
            let target = device::memory();
            let refused = backups.restore_on(None, &target, "target", &Progress::default());
            let refused = refused.unwrap_err();
            let tells = matches!(&refused, Error::NoBackup { number: None, cut_off, .. }
                if cut_off.is_some() == (unfinished > 0));
            assert!(tells, "{refused} at {operation}, {unfinished} unfinished");
            cut_off += 1;
        }
        if is_first {
            let next = db.backup(&backups, &Progress::default()).unwrap();
            assert_eq!(next.number as usize, newest + 1);
            assert!(restored(&backups, next.number) == now, "made again at {operation}");
            let left = image.list("").unwrap();
            assert!(!left.iter().any(|one| one.name.ends_with(".unfinished")), "{left:?}");
        }
    });
    assert!(whole > 0 && cut_off > 0);
    println!("{images} power cuts, {whole} backups restored, {cut_off} times none was there");
}

#[test]
fn a_power_cut_leaves_a_whole_restored_database_or_none() {
    let (db, backups) =
        (open(device::memory()), Backups::open_on(device::memory(), "backups").unwrap());
    write(&db, 0..40, &[1; 3000]);
    db.flush().unwrap();
    write(&db, 20..60, &[2; 300]);
    db.backup(&backups, &Progress::default()).unwrap();
    let expected = content(&db);
    let disk = SimulatedDisk::new(seed(), Faults::none());
    disk.keep_history();
    let target: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(&disk);
    backups.restore_on(None, &target, "target", &Progress::default()).unwrap();
    are_whole_or_none(&disk, &expected);
}

#[test]
fn a_power_cut_leaves_a_whole_checkpoint_or_none() {
    let db = open(device::memory());
    write(&db, 0..40, &[1; 3000]);
    db.flush().unwrap();
    write(&db, 20..60, &[2; 300]);
    let disk = SimulatedDisk::new(seed(), Faults::none());
    disk.keep_history();
    db.checkpoint_on(Arc::<SimulatedDisk>::clone(&disk), "target").unwrap();
    are_whole_or_none(&disk, &content(&db));
}

/// Compares the images of power cuts of a new database with its content.
fn are_whole_or_none(disk: &SimulatedDisk, expected: &Content) {
    let last = disk.history().last_operation();
    let (mut whole, mut none) = (0, 0);
    let images = each_image(disk, 0, |image, operation, _| {
        let existing = Options { create_if_missing: false, ..options() };
        match Db::open_on(Arc::<SimulatedDisk>::clone(&image), "image", existing) {
            Ok(db) => {
                assert!(content(&db) == *expected, "at {operation}");
                whole += 1;
            }
            Err(Error::NotADatabase { .. }) => {
                assert!(operation < last, "it was acknowledged");
                none += 1;
            }
            Err(error) => panic!("at {operation}: {error}"),
        }
    });
    assert!(whole > 0 && none > 0);
    println!("{images} power cuts, {whole} whole databases, {none} times none");
}

#[test]
fn a_power_cut_during_a_backup_costs_the_database_nothing() {
    let disk = SimulatedDisk::new(seed(), Faults::none());
    disk.keep_history();
    let db = open(Arc::<SimulatedDisk>::clone(&disk));
    write(&db, 0..40, &[1; 3000]);
    db.flush().unwrap();
    write(&db, 20..60, &[2; 300]);
    // A keyspace without a journal is durable once it is flushed.
    db.existing_keyspace("checkpointed").unwrap().flush().unwrap();
    let (first, expected) = (disk.operations(), content(&db));
    let backups = Backups::open_on(device::memory(), "backups").unwrap();
    db.backup(&backups, &Progress::default()).unwrap();
    let images = each_image(&disk, first, |image, operation, _| {
        let db = Db::open_on(image, "image", options()).unwrap();
        assert!(content(&db) == expected, "at {operation}");
    });
    println!("{images} power cuts");
}
