//! Tests of places in volumes.

use std::sync::Arc;

use device::{Device, Faults, Mode, SimulatedDisk};

use super::{HEADER_BYTES, PLACES, Place, Volumes, check_headers, file_name, file_number};

const PLACE_BYTES: u32 = 8192;

fn volumes(device: &Arc<dyn Device>) -> Volumes {
    Volumes::new(Arc::clone(device), PLACE_BYTES)
}

#[test]
fn a_place_is_taken_once_until_it_is_released() {
    let device = device::memory();
    let volumes = volumes(&device);
    let all: Vec<Place> = (0..PLACES).map(|_| volumes.take(1).0).collect();
    assert!(all.iter().all(|place| place.volume == 0));
    assert_eq!(all.iter().map(|place| place.first).collect::<Vec<_>>(), Vec::from_iter(0..PLACES));
    assert_eq!(volumes.take(1).0.volume, 1);
    // Places that follow one another, if there are any, and a volume of its own beyond that.
    volumes.write(all[3], 0, &[1; 4096]).expect("memory takes it");
    for place in &all[3..6] {
        volumes.release(*place).expect("memory takes it");
    }
    assert_eq!(volumes.take(4).0, Place { volume: 1, first: 1, count: 4 });
    assert_eq!(volumes.take(3).0, Place { volume: 0, first: 3, count: 3 });
    assert_eq!(volumes.take(PLACES + 1).0, Place { volume: 2, first: 0, count: PLACES + 1 });
}

/// The table refuses a segment that begins beyond the first place and ends beyond the last one.
#[test]
fn places_of_a_longer_volume_are_reused_within_the_limit() {
    let volumes = volumes(&device::memory());
    let long = volumes.take(2 * PLACES).0;
    volumes.write(long, 0, &[1; 4096]).expect("memory takes it");
    volumes.release(long).expect("punches");
    let again: Vec<Place> = (0..2 * PLACES).map(|_| volumes.take(1).0).collect();
    assert!(again.iter().all(|place| place.first < PLACES), "{again:?}");
    assert_eq!(again.iter().filter(|place| place.volume == long.volume).count(), PLACES as usize);
}

/// A crash after a later commit must not bring the bytes of a released place back.
#[test]
fn a_released_place_is_synced() {
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.keep_history();
    let device: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(&disk);
    let volumes = volumes(&device);
    let place = volumes.take(1).0;
    volumes.write(place, 0, &[1; 4096]).expect("an honest disk");
    volumes.sync().expect("an honest disk");
    volumes.release(place).expect("punches");
    volumes.sync().expect("an honest disk");
    let history = disk.history();
    let mut replay = history.replay();
    replay.advance_to(history.last_operation());
    let after: Arc<dyn Device> = replay.crash_losing_all();
    let volumes = Volumes::new(after, PLACE_BYTES);
    volumes.claim(place).expect("it is free");
    assert_eq!(volumes.read(place, 0, 1).expect("reads")[0], 0);
}

#[test]
fn a_place_of_two_segments_is_damage() {
    let volumes = volumes(&device::memory());
    let place = Place { volume: 3, first: 7, count: 2 };
    volumes.claim(place).expect("it is free");
    for first in [6, 7, 8] {
        assert!(volumes.claim(Place { first, ..place }).is_err(), "{first}");
    }
    volumes.claim(Place { first: 9, ..place }).expect("it is free");
    assert_eq!(volumes.take(1).0, Place { volume: 3, first: 0, count: 1 });
}

#[test]
fn released_bytes_do_not_come_back() {
    let device = device::memory();
    let volumes = volumes(&device);
    let place = volumes.take(1).0;
    volumes.write(place, 4096, &[5; 4096]).expect("memory takes it");
    assert_eq!(volumes.read(place, 4096, 3).expect("reads")[..], [5; 3]);
    assert_eq!(volumes.read(place, 0, 3).expect("reads")[..], [0; 3]);
    // Beyond the end of the file there are zeros.
    let beyond = volumes.take(1).0;
    assert_eq!(volumes.read(beyond, 0, 3).expect("reads")[..], [0; 3]);
    volumes.release(place).expect("punches");
    assert_eq!(volumes.read(place, 4096, 3).expect("reads")[..], [0; 3]);
}

#[test]
fn places_and_volumes_that_no_segment_has_are_discarded() {
    let device = device::memory();
    let before = volumes(&device);
    let places: Vec<Place> = (0..4).map(|_| before.take(1).0).collect();
    for place in &places {
        before.write(*place, 0, &[9; 4096]).expect("memory takes it");
    }
    let long = before.take(PLACES + 1).0;
    before.write(long, 0, &[9; 4096]).expect("memory takes it");
    let after = volumes(&device);
    after.claim(places[2]).expect("it is free");
    after.discard_all_but(&[places[2]]).expect("punches");
    for (at, place) in places.iter().enumerate() {
        let expected = if at == 2 { 9 } else { 0 };
        assert_eq!(after.read(*place, 0, 1).expect("reads")[0], expected, "place {at}");
    }
    assert!(!device.exists(&file_name(long.volume)).expect("memory lists"));
}

/// An older file of its name may be removed before its first write.
#[test]
fn the_file_of_a_volume_that_is_not_made_is_not_opened() {
    let device = device::memory();
    let volumes = volumes(&device);
    let place = volumes.take(1).0;
    volumes.release(place).expect("there is nothing to release");
    volumes.sync().expect("there is nothing to sync");
    assert!(!device.exists(&file_name(0)).expect("memory lists"));
}

#[test]
fn a_volume_has_a_header() {
    let device = device::memory();
    let volumes = volumes(&device);
    let place = volumes.take(1).0;
    assert!(check_headers(&*device, [0].into_iter()).is_err(), "there is no file");
    volumes.write(place, 0, &[1; 4096]).expect("memory takes it");
    volumes.sync().expect("syncs");
    check_headers(&*device, [0].into_iter()).expect("a header");
    let file = device.open(&file_name(0), Mode::Write).expect("it is there");
    assert_eq!(file.len().expect("has one"), HEADER_BYTES + 4096);
    file.write_at(9, &[7]).expect("writes");
    assert!(check_headers(&*device, [0].into_iter()).is_err());
}

#[test]
fn only_names_of_volumes_are_volumes() {
    assert_eq!(file_number(&file_name(17)), Some(17));
    for name in ["volume-", "volume-017", "volume-x", "volume-99999999999", "superblock"] {
        assert_eq!(file_number(name), None, "{name}");
    }
}
