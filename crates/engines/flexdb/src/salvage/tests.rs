//! The data that are reported of damaged stores.

use std::sync::Arc;

use conformance::salvaged;
use device::{Device, Mode};
use engine::{Engine, Salvaged};

use super::salvage;
use crate::tests::stores::{Bench, key};

const KEYS: u64 = 2000;

fn value(number: u64, version: u8) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[version; 60]].concat()
}

fn expected(number: u64) -> Option<Vec<u8>> {
    salvaged::expected(number, value)
}

fn fill() -> Arc<dyn Device> {
    let bench = Bench::new();
    salvaged::fill(&bench, KEYS, value);
    bench.store.flush().unwrap();
    bench.0.end()
}

fn salvaged(device: &Arc<dyn Device>) -> (Salvaged, salvaged::Found) {
    salvaged::salvaged(device, salvage, false)
}

#[test]
fn all_of_a_whole_store_is_salvaged() {
    salvaged::check_whole(&fill(), salvage, (KEYS, expected), false);
}

#[test]
fn of_damaged_bytes_the_keys_up_to_the_next_interval_are_lost_and_named() {
    let device = fill();
    let file = device.open("data", Mode::Write).unwrap();
    let len = file.len().unwrap() as usize;
    let mut bytes = vec![0; len];
    file.read_at(0, &mut bytes).unwrap();
    let wanted = value(1001, 1);
    let places: Vec<usize> = bytes
        .windows(wanted.len())
        .enumerate()
        .filter(|(_, at)| *at == wanted)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty());
    for at in places {
        file.write_at(at as u64, &[!bytes[at]]).unwrap();
    }
    let (salvaged, told) = salvaged(&device);
    assert!(!salvaged.lost.is_empty());
    let is_lost = |key: &[u8]| {
        salvaged.lost.iter().any(|lost| {
            let keys = lost.keys.as_ref().unwrap();
            assert_eq!(lost.damage.file, "data");
            keys.from.as_slice() <= key && key <= keys.to.as_deref().unwrap()
        })
    };
    let mut within = 0;
    for number in 0..KEYS {
        if is_lost(&key(number)) {
            within += 1;
        } else {
            assert_eq!(told.get(&key(number)).cloned(), expected(number), "{number}");
        }
    }
    assert!(is_lost(&key(1001)));
    assert!((1..KEYS / 4).contains(&within), "{within} keys");
}

/// A store that was being made has no data; one that has was made.
#[test]
fn a_store_whose_superblock_is_missing_is_damaged_and_not_made_again() {
    let device = fill();
    device.remove("superblock").unwrap();
    let len = || device.open("data", Mode::Read).unwrap().len().unwrap();
    let before = len();
    assert_eq!(crate::check(&device).unwrap().damage.len(), 1);
    let opened = Bench::on(Arc::clone(&device)).err().expect("it is refused");
    assert!(matches!(opened, engine::Error::Corruption(_)), "{opened}");
    assert_eq!(len(), before);
    let device = fill();
    device.remove("tree").unwrap();
    assert_eq!(crate::check(&device).unwrap().damage.len(), 1);
    let opened = Bench::on(Arc::clone(&device)).err().expect("it is refused");
    assert!(matches!(opened, engine::Error::Corruption(_)), "{opened}");
}
