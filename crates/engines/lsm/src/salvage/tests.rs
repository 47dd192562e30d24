//! The content that salvage finds in damaged stores.

use std::sync::Arc;

use conformance::salvaged;
use device::{Device, Mode};
use engine::{Engine, KeyRange, Op, Salvaged};

use super::salvage;
use crate::tests::stores::{Bench, key};

const KEYS: u64 = 600;

fn value(number: u64, version: u8) -> Vec<u8> {
    vec![version; 20 + number as usize % 30]
}

fn expected(number: u64) -> Option<Vec<u8>> {
    if (200..220).contains(&number) { None } else { salvaged::expected(number, value) }
}

/// Several tables on several levels, closed.
fn fill() -> Arc<dyn Device> {
    let bench = Bench::new();
    salvaged::fill(&bench, KEYS, value);
    let (start, end) = (key(200), key(220));
    bench.apply(&[Op::DeleteRange { start: &start, end: Some(&end) }]);
    bench.store.flush().unwrap();
    bench.0.end()
}

fn salvaged(device: &Arc<dyn Device>) -> (Salvaged, salvaged::Found) {
    salvaged::salvaged(device, salvage, true)
}

fn flip(device: &Arc<dyn Device>, name: &str, at: u64) {
    let file = device.open(name, Mode::Write).unwrap();
    let mut byte = [0];
    file.read_at(at, &mut byte).unwrap();
    file.write_at(at, &[byte[0] ^ 1]).unwrap();
}

fn tables(device: &Arc<dyn Device>) -> Vec<String> {
    let names = device.list("").unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.starts_with("table-")).collect()
}

#[test]
fn all_of_a_whole_store_is_salvaged() {
    salvaged::check_whole(&fill(), salvage, (KEYS, expected), true);
}

#[test]
fn of_a_damaged_block_its_keys_are_lost_and_named() {
    let device = fill();
    for name in tables(&device) {
        let device = fill();
        flip(&device, &name, 100);
        let (salvaged, told) = salvaged(&device);
        let [lost] = &*salvaged.lost else { panic!("{:?}", salvaged.lost) };
        assert_eq!(lost.damage.file, name);
        let keys = lost.keys.clone().unwrap();
        let range = KeyRange::of(keys.from..=keys.to.unwrap());
        let mut within = 0;
        for number in 0..KEYS {
            if range.contains(&key(number)) {
                within += 1;
            } else {
                assert_eq!(told.get(&key(number)).cloned(), expected(number), "{number}");
            }
        }
        assert!((1..KEYS / 4).contains(&within), "{within} keys in {name}");
    }
}

#[test]
fn without_its_manifest_a_store_is_told_from_the_tables() {
    let device = fill();
    flip(&device, "superblock", 4096 + 30);
    let (salvaged, told) = salvaged(&device);
    assert!(salvaged.may_be_outdated);
    assert_eq!(salvaged.lost.len(), 1);
    for number in (0..KEYS).filter(|number| !(200..220).contains(number)) {
        assert_eq!(told.get(&key(number)).cloned(), expected(number), "{number}");
    }
}
