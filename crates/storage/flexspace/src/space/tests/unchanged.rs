//! An opening that changes nothing, until the first change.

use device::{Device, Faults, SimulatedDisk};

use super::{FlexSpace, create, open, small};

/// Returns a space that was closed, and how many lives it had.
fn closed() -> (std::sync::Arc<dyn Device>, u64) {
    let device = device::memory();
    let space = create(device.clone());
    space.append(&[7; 30_000]).expect("room");
    space.collapse(100, 9000).expect("bytes");
    space.close().expect("a device");
    (device, space.life())
}

#[test]
fn it_makes_no_write_and_no_sync() {
    let (device, life) = closed();
    let before = device.accounting().counts();
    for _ in 0..3 {
        let space = FlexSpace::open_unchanged(device.clone(), small()).expect("a space");
        assert!(!space.has_begun());
        assert_eq!((space.life(), space.len()), (life, 21_000));
        assert_eq!(space.read(0, 21_000), Ok(vec![7; 21_000]));
        assert_eq!(space.collect().expect("nothing to do").segments, 0);
        space.check().expect("whole");
        space.close().expect("nothing to store");
    }
    let after = device.accounting().counts();
    assert_eq!((after.syncs, after.write_ops), (before.syncs, before.write_ops));
    // Another way of opening has all the syncs.
    open(device.clone()).close().expect("a device");
    assert!(device.accounting().counts().syncs >= after.syncs + 8);
}

#[test]
fn the_first_change_begins_a_life() {
    let (device, life) = closed();
    let changes: [fn(&FlexSpace); 6] = [
        |space| space.append(b"more").expect("room"),
        |space| space.set_tag(3, 1).expect("a byte"),
        |space| space.defrag(0, 10).expect("bytes"),
        |space| space.sync().expect("a device"),
        |space| space.checkpoint().expect("a device"),
        |space| assert_eq!(space.try_begin(), Ok(true)),
    ];
    for (number, change) in (1..).zip(changes) {
        let space = FlexSpace::open_unchanged(device.clone(), small()).expect("a space");
        change(&space);
        assert!(space.has_begun(), "change {number}");
        assert_eq!(space.life(), life + number, "change {number}");
        space.close().expect("a device");
    }
    let space = open(device);
    assert_eq!(space.read(21_000, 4), Ok(b"more".to_vec()));
    assert_eq!(space.life(), life + 7);
}

/// The state that is found after a failed sync may be in the page cache alone. Once the life has
/// begun it is durable.
#[test]
fn a_life_makes_durable_what_the_opening_has_found() {
    let mut lost = 0;
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let space = create(disk.clone());
        space.append(&[1; 500]).expect("room");
        space.sync().expect("an honest disk");
        space.append(&[2; 500]).expect("room");
        disk.set_faults(Faults { sync_error_ppm: 700_000, ..Faults::none() });
        let _ = space.checkpoint();
        disk.set_faults(Faults::none());
        drop(space);
        let space = FlexSpace::open_unchanged(disk.clone(), small()).expect("a space");
        let found = space.read(0, space.len()).expect("whole");
        let lengths = |disk: &SimulatedDisk| -> Vec<u64> {
            (0..5).map(|image| open(disk.crash(image)).len()).collect()
        };
        lost += lengths(&disk).iter().filter(|len| **len != found.len() as u64).count();
        assert_eq!(space.try_begin(), Ok(true));
        assert!(lengths(&disk).iter().all(|len| *len == found.len() as u64), "seed {seed}");
    }
    assert!(lost > 0, "some state was in the page cache alone");
}
