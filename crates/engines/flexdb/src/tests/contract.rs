//! The results of a store: the newest version, one moment, both ways, and none once it is closed.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use codec::SeqNo;
use engine::{BlockingWrites, Change, Demand, Direction, Engine, Error, KeyRange, Op, Wait};
use reads::BlockingReads;

use super::stores::{Bench, key, scan};
use conformance::Pairs;

#[test]
fn pairs_are_found_in_memory_in_the_space_and_after_opening() {
    let bench = Bench::new();
    for number in 0..200 {
        bench.put(&key(number), &number.to_le_bytes());
    }
    bench.delete(&key(7));
    let expected: Pairs =
        (0..200).filter(|n| *n != 7).map(|n| (key(n), n.to_le_bytes().to_vec())).collect();
    assert_eq!(bench.pairs(), expected);
    bench.flush();
    assert_eq!(bench.pairs(), expected);
    assert_eq!((bench.get(&key(7)), bench.get(b"zzz"), bench.get(b"")), (None, None, None));
    let bench = bench.reopen();
    assert_eq!(bench.pairs(), expected);
    assert_eq!(bench.get(&key(8)), Some(8_u64.to_le_bytes().to_vec()));
    assert_eq!(bench.store.persisted(), bench.sequence.visible());
}

#[test]
fn a_view_shows_its_moment_however_much_is_committed() {
    let bench = Bench::new();
    bench.put(b"gone", b"1");
    bench.put(b"new", b"1");
    bench.flush();
    bench.put(b"new", b"2");
    let view = bench.view();
    let moment = vec![(b"gone".to_vec(), b"1".to_vec()), (b"new".to_vec(), b"2".to_vec())];
    for round in 3..20_u8 {
        bench.delete(b"gone");
        bench.put(b"new", &[round]);
        bench.put(&[round], b"late");
        if round % 3 == 0 {
            bench.flush();
        }
        assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), moment, "round {round}");
        let mut value = Vec::new();
        assert_eq!(view.get(b"gone", &mut value), Ok(true));
        assert_eq!(view.get(&[round], &mut value), Ok(false));
    }
    assert_eq!(bench.detail("pinned_bases"), 1);
    drop(view);
    bench.put(b"another", b"write");
    bench.flush();
    assert_eq!(bench.detail("pinned_bases"), 0);
}

#[test]
fn a_scan_is_of_one_moment_whatever_is_written_while_it_goes_on() {
    for direction in [Direction::Forward, Direction::Backward] {
        let bench = Bench::new();
        (0..1000).for_each(|number| _ = bench.put(&key(number), b"before"));
        bench.flush();
        let view = bench.view();
        let mut cursor = view.scan(KeyRange::all(), direction).expect("it is open");
        let mut met = 0_u64;
        while let Some((found, value)) = cursor.next().expect("it is open") {
            assert_eq!(value, b"before", "{}", String::from_utf8_lossy(found));
            met += 1;
            if met % 50 == 1 {
                (met % 7..1000).step_by(7).for_each(|number| _ = bench.put(&key(number), b"after"));
                (met % 11..1000).step_by(11).for_each(|number| _ = bench.delete(&key(number)));
                bench.put(&[&key(met)[..], b"late"].concat(), b"after");
            }
            if met % 100 == 1 {
                bench.flush();
            }
        }
        assert_eq!(met, 1000, "{direction:?}");
    }
}

/// Otherwise a caller that asks often would slow writes down.
#[test]
fn figures_wait_for_no_writer_of_the_space_and_hold_no_commit_up() {
    let bench = Bench::new();
    bench.put(b"k", b"v");
    bench.flush();
    let (shared, asked) = (&bench.store.shared, Arc::clone(&bench.store.shared));
    let mut is_held_up = false;
    let asking = shared.space.together(|_| {
        let ask = move || asked.stats().detail.len();
        let asking = environment::Environment::real().spawn("figures", ask).expect("a thread");
        while !asking.is_finished() && !is_held_up {
            is_held_up = shared.committer.is_locked();
            std::thread::yield_now();
        }
        Ok(asking)
    });
    let figures = asking.expect("it is open").join().expect("they are told");
    assert!(figures > 0 && !is_held_up, "a commit waits for a caller that asks for figures");
}

/// A slow writer puts its write into a younger memtable than a later one's, and a pin is taken
/// between the two numbers. The pin sees the one write and not the other, whatever is committed.
#[test]
fn a_pin_sees_a_write_that_came_late_to_a_younger_memtable() {
    let met = (0..200).filter(|_| pin_between_a_slow_write_and_a_quick_one()).count();
    assert!(met > 0, "no pin came to stand between the two");
}

/// Returns whether the pin was at the wanted place; otherwise the quick write began too early for
/// it.
fn pin_between_a_slow_write_and_a_quick_one() -> bool {
    let bench = Bench::new();
    bench.put(b"slow", b"old");
    bench.put(b"quick", b"old");
    bench.flush();
    let slow = bench.sequence.begin();
    let sequence = Arc::clone(&bench.sequence);
    let pinning = environment::Environment::real().spawn("pin", move || sequence.pin());
    // Until the pin is being taken, which waits for the slow write.
    while bench.sequence.pins_below(SeqNo::MAX).is_some() {
        std::thread::yield_now();
    }
    let quick = bench.sequence.begin();
    bench.store.write(&[Op::Put { key: b"quick", value: b"new" }], quick.seqno()).expect("taken");
    let active = bench.store.shared.open_state().expect("it is open").active.clone();
    bench.store.shared.seal(&active);
    bench.store.write(&[Op::Put { key: b"slow", value: b"new" }], slow.seqno()).expect("taken");
    let between = slow.seqno();
    drop(slow);
    let mut turns = 0;
    while bench.sequence.pins().is_empty() && turns < 10_000 {
        std::thread::yield_now();
        turns += 1;
    }
    drop(quick);
    let pin = pinning.expect("there is a thread").join().expect("it does not panic");
    if pin.seqno() != between {
        return false;
    }
    let view = bench.store.view(pin);
    let moment = vec![(b"quick".to_vec(), b"old".to_vec()), (b"slow".to_vec(), b"new".to_vec())];
    for _ in 0..3 {
        assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), moment);
        bench.put(b"slow", b"later");
        bench.flush();
    }
    assert_eq!(bench.get(b"quick"), Some(b"new".to_vec()));
    true
}

#[test]
fn ranges_are_scanned_both_ways() {
    let bench = Bench::new();
    let mut model = BTreeMap::new();
    for step in 0..400_u64 {
        let key = key(step * 37 % 211);
        if step % 5 == 0 {
            bench.delete(&key);
            model.remove(&key);
        } else {
            bench.put(&key, &step.to_le_bytes());
            model.insert(key, step.to_le_bytes().to_vec());
        }
        if step % 90 == 60 {
            bench.flush();
        }
    }
    let view = bench.view();
    for from in (0..220).step_by(13) {
        for to in (from..220).step_by(29) {
            let (from, to) = (key(from), key(to));
            let ranges = [
                (Bound::Included(from.clone()), Bound::Excluded(to.clone())),
                (Bound::Excluded(from.clone()), Bound::Included(to.clone())),
                (Bound::Unbounded, Bound::Included(to.clone())),
                (Bound::Included(from), Bound::Unbounded),
            ];
            for (start, end) in ranges {
                let range = KeyRange { start, end };
                if range.is_empty() {
                    assert!(scan(&view, range, Direction::Forward).is_empty());
                    continue;
                }
                let expected: Pairs = model
                    .iter()
                    .filter(|(key, _)| range.contains(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                let backward: Pairs = expected.iter().rev().cloned().collect();
                assert_eq!(scan(&view, range.clone(), Direction::Forward), expected);
                assert_eq!(scan(&view, range, Direction::Backward), backward);
            }
        }
    }
}

#[test]
fn a_read_modify_write_sees_what_is_in_the_space() {
    let bench = Bench::new();
    bench.put(b"n", &[1]);
    bench.flush();
    for expected in 1..5_u8 {
        let ticket = bench.sequence.begin();
        let mut add = |old: Option<&[u8]>| {
            assert_eq!(old, Some(&[expected][..]));
            Change::Put(vec![expected + 1])
        };
        bench.store.rmw(b"n", &mut add, ticket.seqno()).expect("taken");
    }
    assert_eq!(bench.get(b"n"), Some(vec![5]));
}

#[test]
fn values_of_any_size_come_back() {
    let bench = Bench::new();
    let lens = [0, 1, 500, 1023, 1024, 5000, 70_000, 300_000];
    let value = |len: usize| (0..len).map(|byte| (byte % 251) as u8).collect::<Vec<u8>>();
    for round in 0..3 {
        for (number, len) in lens.iter().enumerate() {
            bench.put(&key(number as u64), &value(len + round));
        }
        bench.put(&vec![b'k'; 60_000], b"a long key");
        bench.flush();
    }
    let bench = bench.reopen();
    for (number, len) in lens.iter().enumerate() {
        assert!(bench.get(&key(number as u64)) == Some(value(len + 2)), "{len} bytes");
    }
    assert_eq!(bench.get(&vec![b'k'; 60_000]), Some(b"a long key".to_vec()));
    assert_eq!(bench.pairs().len(), lens.len() + 1);
}

#[test]
fn a_closed_store_refuses_everything() {
    let bench = Bench::new();
    bench.put(b"k", b"v");
    let view = bench.view();
    bench.store.close().expect("closes");
    assert_eq!(bench.store.close(), Ok(()));
    let mut value = Vec::new();
    assert_eq!(bench.store.get(b"k", &mut value), Err(Error::Closed));
    assert_eq!(view.get(b"k", &mut value), Err(Error::Closed));
    assert_eq!(bench.store.flush(), Err(Error::Closed));
    assert!(view.scan(KeyRange::all(), Direction::Forward).is_err());
}

/// A write above the share of the memtables is granted if it fits into the memory.
#[test]
fn a_write_larger_than_the_memory_is_refused_before_it_is_journaled() {
    let limit = 1 << 20;
    let bench = Bench::of(limit, super::stores::small());
    let value = vec![0; limit as usize];
    let keys: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 60_000]).collect();
    let deletes: Vec<Op<'_>> = keys.iter().map(|key| Op::Delete { key }).collect();
    let put = |bytes: usize| Op::Put { key: b"k", value: &value[..bytes] };
    let reserve = |demand: Demand<'_>, wait| bench.store.reserve(&demand, wait).map(drop);
    let too_large = |bytes| Err(Error::WriteTooLarge { bytes, limit });
    for wait in [Wait::No, Wait::Yes] {
        let ops = [put(limit as usize)];
        assert_eq!(reserve(Demand::Ops(&ops), wait), too_large(limit + 1), "{wait:?}");
        let update = Demand::Update { key: b"key", bytes_max: limit };
        assert_eq!(reserve(update, wait), too_large(limit + 3), "{wait:?}");
        assert_eq!(reserve(Demand::Ops(&deletes), wait), too_large(20 * 60_000), "{wait:?}");
        assert_eq!(bench.store.stats().reserved, 0, "{wait:?}");
        let ops = [put(limit as usize - 1)];
        assert!(ops[0].bytes() as u64 > bench.store.shared.memory_split().memtables_bytes);
        let granted = bench.store.reserve(&Demand::Ops(&ops), wait).map(|room| room.is_some());
        assert_eq!(granted, Ok(true), "{wait:?}: it fits");
    }
    // A write in the journal may come from a time with more memory.
    bench.store.replay(&[put(limit as usize)], bench.sequence.begin().seqno()).expect("taken");
    assert_eq!(bench.get(b"k"), Some(value.clone()));
}

/// Nothing is committed by itself here: memory fills up.
#[test]
fn a_write_that_must_not_wait_gets_no_room_until_others_have_waited() {
    let bench = Bench::new();
    let key = key(1 << 40);
    let has_room = |value: &[u8]| {
        bench
            .store
            .reserve(&Demand::Ops(&[Op::Put { key: &key, value }]), Wait::No)
            .map(|room| room.is_some())
            .unwrap()
    };
    let half = bench.store.shared.memory_split().memtables_bytes as usize / 2;
    let (short, long) = (vec![7; 500], vec![7; half]);
    let mut number = 0;
    while has_room(&long) {
        let ticket = bench.sequence.begin();
        let put = [Op::Put { key: &super::stores::key(number), value: &short }];
        bench.store.write(&put, ticket.seqno()).unwrap();
        number += 1;
        assert!(number < 10_000, "there is always room");
    }
    assert!(has_room(&short), "there is room for a short one");
    let stalls = bench.detail("stalls");
    let waits = bench.detail("commits");
    assert!(!has_room(&long), "no work makes room for it");
    assert_eq!((bench.detail("stalls"), bench.detail("commits")), (stalls, waits));
    bench
        .store
        .reserve(&Demand::Ops(&[Op::Put { key: &key, value: &long }]), Wait::Yes)
        .map(drop)
        .unwrap();
    assert!(bench.detail("stalls") > stalls && has_room(&long));
    bench.store.close().unwrap();
    assert_eq!(
        bench.store.reserve(&Demand::Ops(&[]), Wait::No).map(|room| room.is_some()),
        Err(Error::Closed)
    );
}
