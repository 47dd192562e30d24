//! Salvage of damaged snapshots.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use device::{Device, Mode};
use engine::{Engine, Op, Salvaged};

use super::stores::Bench;

const KEYS: u32 = 2000;

fn value(number: u32) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[7; 60]].concat()
}

/// A store of one snapshot of many blocks, closed; and the snapshot's file.
fn fill() -> (Arc<dyn Device>, String) {
    let device = device::memory();
    let bench = Bench::on(Arc::clone(&device)).unwrap();
    for number in 0..KEYS {
        bench.put(&number.to_be_bytes(), &value(number));
    }
    bench.store.flush().unwrap();
    bench.store.close().unwrap();
    let mut names = device.list("").unwrap().into_iter().map(|entry| entry.name);
    let name = names.find(|name| name.starts_with("snapshot-")).unwrap();
    (device, name)
}

fn salvaged(device: &Arc<dyn Device>) -> (Salvaged, BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut told = BTreeMap::new();
    let salvaged = crate::salvage(&**device, &mut |op| {
        let Op::Put { key, value } = op else { panic!("{op:?}") };
        assert_eq!(told.insert(key.to_vec(), value.to_vec()), None, "a key is told once");
        ControlFlow::Continue(())
    });
    (salvaged.unwrap(), told)
}

/// Checks that all keys outside of the lost ranges were reported with their values; returns how
/// many are within them.
fn must_be_named(salvaged: &Salvaged, told: &BTreeMap<Vec<u8>, Vec<u8>>) -> u32 {
    let is_lost = |key: &[u8]| {
        salvaged.lost.iter().any(|lost| {
            let keys = lost.keys.as_ref().unwrap();
            keys.from.as_slice() < key && keys.to.as_deref().is_none_or(|to| key < to)
        })
    };
    let mut lost = 0;
    for number in 0..KEYS {
        let (key, found) = (number.to_be_bytes(), told.get(&number.to_be_bytes()[..]));
        if is_lost(&key) {
            lost += 1;
            assert_eq!(found, None, "{number}");
        } else {
            assert_eq!(found, Some(&value(number)), "{number}");
        }
    }
    lost
}

#[test]
fn a_whole_store_is_told_whole() {
    let (salvaged, told) = salvaged(&fill().0);
    assert_eq!((salvaged.lost.len(), salvaged.may_be_outdated), (0, false));
    assert_eq!(must_be_named(&salvaged, &told), 0);
    assert_eq!(salvaged.persisted.get(), u64::from(KEYS));
}

#[test]
fn of_damaged_blocks_the_keys_are_lost_and_named() {
    let (device, name) = fill();
    let file = device.open(&name, Mode::Write).unwrap();
    let units = file.len().unwrap() / 4096;
    for unit in [units / 3, units / 2, units / 2 + 1] {
        file.write_at(unit * 4096 + 9, &[0xff]).unwrap();
    }
    let (salvaged, told) = salvaged(&device);
    assert_eq!(salvaged.lost.len(), 2, "two neighbours are one piece: {:?}", salvaged.lost);
    assert_eq!(salvaged.lost[0].damage.offset, units / 3 * 4096);
    assert!((1..KEYS / 4).contains(&must_be_named(&salvaged, &told)));
}

#[test]
fn a_snapshot_that_is_cut_short_is_told_up_to_there() {
    let (device, name) = fill();
    let file = device.open(&name, Mode::Write).unwrap();
    file.set_len(file.len().unwrap() / 2 + 100).unwrap();
    let (salvaged, told) = salvaged(&device);
    assert_eq!(salvaged.lost.len(), 1);
    assert!((KEYS / 4..KEYS * 3 / 4).contains(&must_be_named(&salvaged, &told)));
}

#[test]
fn without_its_superblock_a_store_is_told_from_the_snapshot() {
    let (device, _) = fill();
    device.remove("superblock").unwrap();
    let (salvaged, told) = salvaged(&device);
    assert_eq!(salvaged.lost.len(), 1);
    assert_eq!((told.len() as u32, salvaged.persisted.get()), (KEYS, 0));
}
