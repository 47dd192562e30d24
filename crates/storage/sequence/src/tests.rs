//! The sequence's invariants, and ranges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use codec::SeqNo;
use environment::Environment;
use proptest::prelude::*;

use crate::{KeyRange, Sequence};

#[test]
fn a_number_that_has_no_room_is_not_taken_by_who_must_not_wait() {
    let sequence = Arc::new(Sequence::new());
    let first = sequence.begin();
    let mut taken = 1;
    while sequence.try_begin().is_some() {
        taken += 1;
    }
    assert_eq!(sequence.last(), SeqNo::new(taken), "a number is used up that nobody has");
    let waiting = Arc::clone(&sequence);
    let (tell, told) = std::sync::mpsc::channel();
    let wait = move || {
        waiting.wait_for_room();
        tell.send(waiting.try_begin().map(|ticket| ticket.seqno())).unwrap();
    };
    let waiter = Environment::real().spawn("waiter", wait).unwrap();
    assert!(told.try_recv().is_err(), "the first one is open");
    drop(first);
    assert_eq!(told.recv().unwrap(), Some(SeqNo::new(taken + 1)));
    waiter.join().unwrap();
    assert_eq!(sequence.visible(), SeqNo::new(taken + 1));
}

#[test]
fn a_write_is_visible_once_it_and_all_older_ones_are_finished() {
    let sequence = Sequence::new();
    let first = sequence.begin();
    let second = sequence.begin();
    assert_eq!(second.seqno(), SeqNo::new(2));
    drop(second);
    assert_eq!(sequence.visible(), SeqNo::ZERO, "the older one is open");
    drop(first);
    assert_eq!(sequence.visible(), SeqNo::new(2));
}

#[test]
fn the_horizon_stays_at_the_oldest_pin() {
    let sequence = Arc::new(Sequence::new());
    drop(sequence.begin());
    let old = sequence.pin();
    drop(sequence.begin());
    let new = sequence.pin();
    drop(sequence.begin());
    assert_eq!((old.seqno(), new.seqno()), (SeqNo::new(1), SeqNo::new(2)));
    assert_eq!(sequence.horizon(), SeqNo::new(1));
    drop(old);
    assert_eq!(sequence.horizon(), SeqNo::new(2));
    assert_eq!(sequence.oldest_pin(), Some(SeqNo::new(2)));
    drop(new);
    assert_eq!(sequence.horizon(), SeqNo::new(3));
}

#[test]
fn recovery_never_moves_the_sequence_back() {
    let sequence = Sequence::new();
    sequence.recover_to(SeqNo::new(9));
    sequence.recover_to(SeqNo::new(4));
    assert_eq!(sequence.visible(), SeqNo::new(9));
    assert_eq!(sequence.begin().seqno(), SeqNo::new(10));
}

/// Writers finish tickets in any order while pins are taken: no write at or below a pin may finish
/// after it was taken (I2), and no horizon may pass it (I3).
#[test]
fn pins_hold_beside_concurrent_writers() {
    const WRITES: u64 = 20_000;
    let sequence = Arc::new(Sequence::new());
    let applied: Arc<Vec<AtomicBool>> =
        Arc::new((0..=4 * WRITES).map(|_| AtomicBool::new(false)).collect());
    let acknowledged = Arc::new(AtomicU64::new(0));
    let pins = Arc::new(AtomicU64::new(0));
    let environment = environment::Environment::real();
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let (sequence, applied) = (Arc::clone(&sequence), Arc::clone(&applied));
            let (acknowledged, pins) = (Arc::clone(&acknowledged), Arc::clone(&pins));
            let write = move || {
                for write in 0..WRITES {
                    // Some pins are taken in between, however busy the machine is.
                    while write > WRITES / 2 && pins.load(SeqCst) < 10 {
                        std::thread::yield_now();
                    }
                    let ticket = sequence.begin();
                    let number = ticket.seqno().get();
                    applied[number as usize].store(true, SeqCst);
                    drop(ticket);
                    acknowledged.fetch_max(number, SeqCst);
                }
            };
            environment.spawn("writer", write).unwrap()
        })
        .collect();
    while writers.iter().any(|writer| !writer.is_finished()) {
        let before = acknowledged.load(SeqCst);
        let pin = sequence.pin();
        let number = pin.seqno().get();
        assert!(number >= before, "I1: pin {number} misses the acknowledged {before}");
        let all = (1..=number).rev().take(64).all(|at| applied[at as usize].load(SeqCst));
        assert!(all, "I2: a write below pin {number} is not applied");
        assert!(sequence.horizon().get() <= number, "I3");
        pins.fetch_add(1, SeqCst);
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(sequence.visible(), SeqNo::new(2 * WRITES), "everything became visible");
}

#[test]
fn a_prefix_of_largest_bytes_has_no_upper_end() {
    let range = KeyRange::prefix(&[7, 255, 255]);
    assert!(range.contains(&[7, 255, 255, 0]) && !range.contains(&[8]));
    let range = KeyRange::prefix(&[255, 255]);
    assert!(range.contains(&[255, 255, 255]) && !range.contains(&[255, 254]));
    assert!(KeyRange::prefix(b"").contains(b""));
}

proptest! {
    /// `KeyRange` agrees with the standard library's ranges over the same bounds.
    #[test]
    fn ranges_contain_what_std_ranges_do(
        keys in prop::collection::vec(prop::collection::vec(0_u8..4, 0..3), 0..20),
        start in bound(),
        end in bound(),
    ) {
        let range = KeyRange { start: start.clone(), end: end.clone() };
        let map: BTreeMap<Vec<u8>, ()> = keys.iter().map(|key| (key.clone(), ())).collect();
        let inside: Vec<_> = map.keys().filter(|key| range.contains(key)).cloned().collect();
        if range.is_empty() {
            prop_assert!(inside.is_empty());
        } else if start != end || !matches!(start, std::ops::Bound::Excluded(_)) {
            let std: Vec<_> = map.range((start, end)).map(|(key, ())| key.clone()).collect();
            prop_assert_eq!(inside, std);
        }
        let same = |key: &[u8]| match range.half_open() {
            Some((start, end)) => {
                start.as_slice() <= key && end.as_deref().is_none_or(|end| key < end)
            }
            None => false,
        };
        for key in keys.iter().chain(map.keys()) {
            prop_assert_eq!(same(key), range.contains(key), "{:?} in {:?}", key, range);
            let next = [key.as_slice(), &[0]].concat();
            prop_assert_eq!(same(&next), range.contains(&next), "{:?} in {:?}", next, range);
        }
    }
}

fn bound() -> impl Strategy<Value = std::ops::Bound<Vec<u8>>> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    prop::collection::vec(0_u8..4, 0..3).prop_flat_map(|key| {
        prop_oneof![Just(Unbounded), Just(Included(key.clone())), Just(Excluded(key))]
    })
}
