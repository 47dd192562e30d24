//! Bits flip and sectors vanish: bytes that are read are right, or an error has the place.

use std::sync::Arc;

use device::{Device, Faults, Mode, SimulatedDisk};

use super::{content, small};
use crate::space::{Error, FlexSpace, Options};

const NAMES: [&str; 4] = ["superblock", "tree", "data", "log"];

/// Returns a space with several nodes, segments and frames.
fn filled() -> (Arc<SimulatedDisk>, Vec<u8>) {
    let disk = SimulatedDisk::new(1, Faults::none());
    let space = FlexSpace::create(disk.clone(), small()).expect("an honest disk");
    let mut bytes = Vec::new();
    for number in 0..600_usize {
        let offset = number * 37 % (bytes.len() + 1);
        let data = [number as u8; 60];
        space.insert(offset as u64, &data).expect("room");
        bytes.splice(offset..offset, data);
        match number {
            300 => space.checkpoint().expect("an honest disk"),
            number if number % 50 == 0 => space.sync().expect("an honest disk"),
            _ => {}
        }
    }
    space.sync().expect("an honest disk");
    (disk, bytes)
}

fn file_named(disk: &SimulatedDisk, kind: &str) -> (String, u64) {
    let entries = disk.list("").expect("a disk");
    let entry = entries.into_iter().rfind(|entry| entry.name.starts_with(kind)).expect("a file");
    let file = disk.open(&entry.name, Mode::Read).expect("a file");
    (entry.name, file.len().expect("a file"))
}

#[test]
fn damage_anywhere_is_found_before_it_is_served() {
    let (disk, bytes) = filled();
    let (mut refused, mut unreadable, mut harmless, mut shortened) = (0, 0, 0, 0);
    for kind in NAMES {
        let (name, len) = file_named(&disk, kind);
        for index in 0..150 {
            let image = disk.crash(index);
            let offset = (index * 7919 + 13) % len;
            if index % 3 == 0 {
                image.zero_sector(&name, offset).expect("a file");
            } else {
                image.flip_bit(&name, offset, (index % 8) as u8).expect("a file");
            }
            let space = match FlexSpace::open(image, small()) {
                Err(Error::Corruption(damage)) => {
                    assert!(!damage.file.is_empty(), "{damage} does not say where");
                    refused += 1;
                    continue;
                }
                opened => opened.unwrap_or_else(|error| panic!("{name} at {offset}: {error}")),
            };
            match content(&space).map(|model| model.plain()) {
                Ok(found) if found == bytes => harmless += 1,
                // The last frame of a log cannot be distinguished from a torn one.
                Ok(_) if kind == "log" => shortened += 1,
                Err(Error::Corruption(damage)) if kind == "data" => {
                    assert_eq!(damage.file, "data");
                    unreadable += 1;
                }
                Ok(found) => panic!("{name} at {offset}: {} other bytes", found.len()),
                Err(error) => panic!("{name} at {offset}: {error}"),
            }
        }
    }
    println!(
        "{refused} refused, {unreadable} unreadable, {shortened} shortened, {harmless} harmless"
    );
    assert!(refused > 100 && unreadable > 50 && harmless > 0, "all kinds of damage");
    assert!(shortened < 30, "{shortened} logs lost their last frame");
}

/// A write that was lost leaves the segment's earlier content: whole blocks, of another generation.
#[test]
fn a_block_of_an_earlier_life_of_its_segment_is_not_served() {
    let device = device::memory();
    let space = FlexSpace::create(device.clone(), small()).expect("a device");
    let fill = |byte: u8| {
        space.pwrite(0, &[byte; 40_000]).expect("room");
        space.sync().expect("a device");
    };
    fill(1);
    let data = device.open("data", Mode::Write).expect("a device");
    let mut old = vec![0; 4096];
    data.read_at(0, &mut old).expect("a device");
    // The segments are used in turn; the first one is in use again.
    let is_used = || {
        let snapshot = space.snapshot().expect("open");
        snapshot.extents(0..40_000).any(|piece| piece.extent.address() == Some(0))
    };
    let again = (2..20).find(|byte| {
        fill(*byte);
        is_used()
    });
    assert!(again.is_some(), "the first segment is used again");
    assert_eq!(space.read(0, 40_000), Ok(vec![again.expect("a byte"); 40_000]));
    data.write_at(0, &old).expect("a device");
    assert!(matches!(space.read(0, 40_000), Err(Error::Corruption(_))));
}

/// Reads are right or an error, also when writes are lost, or go astray, without an error.
#[test]
fn silent_faults_are_never_served() {
    let mut wrong = 0;
    for seed in 0..60 {
        let faults = Faults {
            lost_write_ppm: 20_000,
            misdirected_write_ppm: 20_000,
            bit_rot_ppm: 500,
            ..Faults::none()
        };
        let disk = SimulatedDisk::new(seed, Faults::none());
        let options = Options { log_bytes_max: 2000, ..small() };
        let space = FlexSpace::create(disk.clone(), options.clone()).expect("an honest disk");
        disk.set_faults(faults);
        let mut states = vec![Vec::new()];
        let mut bytes = Vec::new();
        for number in 0..300_usize {
            let offset = number * 37 % (bytes.len() + 1);
            let data = [number as u8; 90];
            if space.insert(offset as u64, &data).is_err() {
                break;
            }
            bytes.splice(offset..offset, data);
            states.push(bytes.clone());
            if number % 20 == 0 && space.sync().is_err() {
                break;
            }
        }
        let mut found = vec![0; bytes.len()];
        if space.pread(0, &mut found).is_ok() {
            assert_eq!(found, bytes, "seed {seed}");
        } else {
            wrong += 1;
        }
        drop(space);
        disk.set_faults(Faults::none());
        let image = disk.crash(seed);
        match FlexSpace::open(image, options).and_then(|space| content(&space)) {
            Ok(model) => assert!(states.contains(&model.plain()), "seed {seed}: a mix is served"),
            Err(_) => wrong += 1,
        }
    }
    assert!(wrong > 10, "the faults were seen {wrong} times");
}

#[test]
fn defragmenting_leaves_what_cannot_be_read_and_rewrites_all_else() {
    let (disk, bytes) = filled();
    let image = disk.crash(1);
    let space = FlexSpace::open(image.clone(), small()).expect("a synced space");
    let extents = |space: &FlexSpace| {
        let snapshot = space.snapshot().expect("open");
        snapshot.extents(0..snapshot.len()).count()
    };
    let before = extents(&space);
    image.flip_bit("data", 5000, 3).expect("a file");
    let unreadable = |space: &FlexSpace| {
        let is_damaged = |at: &u64| matches!(space.read(*at, 1), Err(Error::Corruption(_)));
        (0..space.len()).filter(is_damaged).collect::<Vec<u64>>()
    };
    let damaged = unreadable(&space);
    assert!((1..5000).contains(&damaged.len()), "{} bytes are damaged", damaged.len());
    let done = space.defrag(0, space.len());
    assert!(matches!(done, Err(Error::Corruption(_))), "{done:?}");
    assert_eq!(unreadable(&space), damaged, "nothing else is lost, and nothing is made up");
    for at in (0..space.len()).filter(|at| damaged.binary_search(at).is_err()) {
        assert_eq!(space.read(at, 1), Ok(vec![bytes[at as usize]]), "at {at}");
    }
    let after = extents(&space);
    assert!(2 * after < before, "{before} extents before, {after} after");
    space.close().expect("an honest disk");
}
