//! Reads: their counts of device reads, and walks over pairs on both sides of the separation.

use std::sync::Arc;

use device::{Device, FaultDevice, Faults, OperationKind, SimulatedDisk};
use engine::{Direction, Engine, Error, KeyRange, Result, TryNext};
use reads::BlockingReads;

use super::stores::{Bench, key, scan};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns pairs whose values are small, long, or longer than a block, and the bench with them.
fn filled(device: Arc<dyn Device>) -> (Bench, Pairs) {
    let bench = Bench::on(device).expect("an empty device opens");
    let pair =
        |number: u64| (key(number), vec![number as u8; [10, 300, 6000][number as usize % 3]]);
    let pairs: Vec<_> = (0..60).map(pair).collect();
    for (key, value) in &pairs {
        bench.put(key, value);
    }
    (bench, pairs)
}

fn backward(pairs: &Pairs) -> Pairs {
    pairs.iter().rev().cloned().collect()
}

#[test]
fn scans_return_all_pairs_in_both_directions() {
    let (bench, pairs) = filled(device::memory());
    let is_whole = |bench: &Bench| {
        assert_eq!(scan(&bench.view(), KeyRange::all(), Direction::Forward), pairs);
        assert_eq!(scan(&bench.view(), KeyRange::all(), Direction::Backward), backward(&pairs));
        let some = scan(&bench.view(), KeyRange::of(key(10)..key(20)), Direction::Forward);
        assert_eq!(some, pairs[10..20]);
    };
    is_whole(&bench);
    bench.write_buffers().expect("memory takes it");
    is_whole(&bench);
    is_whole(&Bench::on(bench.end_sound()).expect("opens again"));
}

/// A view shows the moment of its pin, on both sides of the separation.
#[test]
fn a_view_shows_its_moment() {
    let (bench, pairs) = filled(device::memory());
    let view = bench.view();
    for (number, (key, _)) in pairs.iter().enumerate() {
        match number % 4 {
            0 => drop(bench.delete(key)),
            1 => drop(bench.put(key, b"small")),
            _ => drop(bench.put(key, &[9; 500])),
        }
    }
    for _ in 0..2 {
        assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), pairs);
        let mut value = Vec::new();
        for (key, expected) in &pairs {
            assert_eq!(view.get(key, &mut value), Ok(true));
            assert_eq!(&value, expected);
        }
        bench.store.flush().expect("memory takes it");
        bench.crank.run_all();
    }
}

/// A value that is not in memory is one read, of the blocks that have it.
#[test]
fn a_value_is_one_read() {
    let faults = FaultDevice::new(device::memory());
    let device = Arc::clone(&faults) as Arc<dyn Device>;
    let (bench, pairs) = filled(device);
    // The index keeps its entries in its memtable.
    bench.write_buffers().expect("memory takes it");
    let reads = || faults.count(Some(OperationKind::Read));
    for (number, (key, value)) in pairs.iter().enumerate() {
        let before = reads();
        assert_eq!(bench.get(key).as_ref(), Some(value));
        let is_inline = number % 3 == 0;
        assert_eq!(reads() - before, u64::from(!is_inline), "key {number}");
    }
    let before = reads();
    assert_eq!(bench.get(b"absent"), None);
    assert_eq!(reads(), before);
    // Many keys, one read each. Values of 300 bytes are cached now, and longer ones are not.
    let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| key.as_slice()).collect();
    let mut found = 0;
    let take = &mut |number: usize, value: Option<&[u8]>| {
        assert_eq!(value, Some(pairs[number].1.as_slice()));
        found += 1;
    };
    bench.store.multi_get(&keys, take).expect("memory reads");
    assert_eq!((found, reads() - before), (60, 20));
}

/// A walk that must not wait stays where it is, and a step that may reads the same pair.
#[test]
fn a_walk_that_must_not_wait_stays_where_it_is() -> Result<()> {
    let (bench, pairs) = filled(device::memory());
    bench.write_buffers()?;
    let mut cursor = bench.store.scan(KeyRange::all(), Direction::Forward, bench.sequence.pin())?;
    let mut waited = 0;
    for (number, (key, value)) in pairs.iter().enumerate() {
        let expected = (key.as_slice(), value.as_slice());
        let known = match cursor.try_next()? {
            TryNext::Pair(key, value) => Some((key.to_vec(), value.to_vec())),
            TryNext::WouldBlock => None,
            TryNext::End => panic!("the walk ends at pair {number}"),
        };
        if let Some((key, value)) = known {
            assert_eq!((key.as_slice(), value.as_slice()), expected);
            continue;
        }
        waited += 1;
        assert_eq!(cursor.try_next()?, TryNext::WouldBlock);
        assert_eq!(cursor.next()?, Some(expected), "pair {number}");
    }
    assert_eq!(cursor.try_next()?, TryNext::End);
    // The walk has read 4, 8, 16 and 32 pairs together.
    assert_eq!(waited, 4);
    for number in [57, 3, 58] {
        cursor.seek(&key(number));
        assert_eq!(cursor.next()?.map(|(key, _)| key.to_vec()), Some(key(number)));
    }
    Ok(())
}

/// A walk reads no value twice, and a short walk few values that it does not return.
#[test]
fn a_walk_reads_each_value_once() {
    let faults = FaultDevice::new(device::memory());
    let (bench, pairs) = filled(Arc::clone(&faults) as Arc<dyn Device>);
    bench.write_buffers().expect("memory takes it");
    let reads = || faults.count(Some(OperationKind::Read));
    let before = reads();
    assert_eq!(scan(&bench.view(), KeyRange::all(), Direction::Forward), pairs);
    assert_eq!(reads() - before, 40);
    let before = reads();
    let pin = bench.sequence.pin();
    let mut cursor =
        bench.store.scan(KeyRange::all(), Direction::Backward, pin).expect("the walk begins");
    assert!(cursor.next().expect("memory reads").is_some());
    assert!((1..=4).contains(&(reads() - before)), "{} reads", reads() - before);
}

/// A damaged value ends a walk at its pair, also if an earlier step has read it.
#[test]
fn a_walk_returns_the_pairs_before_a_damaged_one() -> Result<()> {
    let disk = SimulatedDisk::new(1, Faults::none());
    let (bench, pairs) = filled(disk.clone());
    bench.write_buffers()?;
    let values = &bench.store.shared.values;
    let group = values.group(values.hash(&key(10)).position());
    let open = group.state.lock().open.as_ref().map(|open| Arc::clone(&open.segment));
    let place = open.expect("a segment with records").place;
    disk.flip_bit("volume-0", values.volumes.offset(place) + 100, 3).expect("it is there");
    let mut value = Vec::new();
    let is_damaged = |key: &Vec<u8>| bench.store.get(key, &mut value).is_err();
    let damaged = pairs.iter().map(|(key, _)| key).position(is_damaged).expect("one is damaged");
    let mut cursor = bench.store.scan(KeyRange::all(), Direction::Forward, bench.sequence.pin())?;
    for (key, value) in &pairs[..damaged] {
        assert_eq!(cursor.next()?, Some((key.as_slice(), value.as_slice())));
    }
    assert!(matches!(cursor.next(), Err(Error::Corruption(at)) if at.file == "volume-0"));
    assert_eq!(cursor.next()?, None);
    // A walk that leaves the window does not meet the damaged pair.
    let from = KeyRange::of(key(damaged.saturating_sub(1) as u64)..);
    let mut cursor = bench.store.scan(from, Direction::Forward, bench.sequence.pin())?;
    if damaged > 0 {
        assert!(cursor.next()?.is_some());
    }
    cursor.seek(&key(59));
    assert_eq!(cursor.next()?.map(|(key, _)| key.to_vec()), Some(key(59)));
    Ok(())
}
