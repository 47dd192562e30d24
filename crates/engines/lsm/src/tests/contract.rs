//! The laws of the engine contract that the conformance suite does not look at one by one.

use std::sync::Arc;

use codec::SeqNo;
use engine::{
    BlockingWrites, Change, Demand, Direction, Engine, Error, KeyRange, NoJournal, Op, Wait,
};
use reads::BlockingReads;

use super::stores::{Bench, both, key, scan, small};
use crate::Options;

#[test]
fn of_several_steps_on_a_key_the_last_stands() {
    let bench = Bench::new();
    for steps in [5, 20] {
        let keys: Vec<Vec<u8>> = (0..steps).map(|number| key(number % 3)).collect();
        let values: Vec<Vec<u8>> = (0..steps).map(|number| vec![number as u8]).collect();
        let ops: Vec<Op<'_>> =
            keys.iter().zip(&values).map(|(key, value)| Op::Put { key, value }).collect();
        bench.apply(&ops);
        let expected = (steps - 3..steps).map(|number| (key(number % 3), vec![number as u8]));
        let mut expected: Vec<_> = expected.collect();
        expected.sort();
        assert_eq!(bench.pairs(), expected);
    }
}

#[test]
fn a_view_shows_its_moment_through_flushes_and_compactions() {
    for options in both() {
        let bench = Bench::of(options);
        for number in 0..300 {
            bench.put(&key(number), b"before");
        }
        let view = bench.view();
        for round in 0..4 {
            for number in 0..300 {
                match (number + round) % 3 {
                    0 => bench.put(&key(number), b"after"),
                    1 => bench.delete(&key(number)),
                    _ => bench.put(&key(number + 1000), b"new"),
                };
            }
            bench.run_background();
        }
        assert!(bench.detail("compactions") > 0);
        for direction in [Direction::Forward, Direction::Backward] {
            let pairs = scan(&view, KeyRange::all(), direction);
            assert_eq!(pairs.len(), 300);
            assert!(pairs.iter().all(|(_, value)| value == b"before"));
        }
        drop(view);
        for number in 0..1300 {
            bench.delete(&key(number));
        }
        bench.run_background();
        assert_eq!(bench.pairs(), []);
    }
}

#[test]
fn a_cursor_goes_on_where_tables_and_memtables_change_beneath_it() {
    for direction in [Direction::Forward, Direction::Backward] {
        let bench = Bench::new();
        for number in 0..200 {
            bench.put(&key(number), b"value");
        }
        let mut cursor = bench.view().scan(KeyRange::all(), direction).expect("the store is open");
        let mut seen = Vec::new();
        while let Some((key, _)) = cursor.next().expect("nothing fails") {
            seen.push(key.to_vec());
            bench.delete(&seen[seen.len() - 1]);
            bench.put(&key_of(seen.len()), b"later");
            if seen.len() % 20 == 0 {
                bench.run_background();
            }
        }
        let mut expected: Vec<_> = (0..200).map(key).collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
}

fn key_of(number: usize) -> Vec<u8> {
    key(100_000 + number as u64)
}

#[test]
fn a_cursor_that_nobody_moves_holds_no_memtable_and_no_file() {
    let bench = Bench::new();
    for name in [b"a", b"b", b"c"] {
        bench.put(name, b"value");
    }
    let view = bench.view();
    let mut cursor = view.scan(KeyRange::all(), Direction::Forward).expect("the store is open");
    assert!(cursor.next().expect("nothing fails").is_some());
    let memtable = {
        let state = bench.store.shared.state.load_full();
        Arc::downgrade(&state.actives[0])
    };
    bench.store.flush().expect("memory takes it");
    assert!(memtable.upgrade().is_none(), "the cursor stood on it");
    assert_eq!(cursor.next(), Ok(Some((&b"b"[..], &b"value"[..]))));
    let table = bench.store.shared.state.load().version.level(0)[0].summary().id.number;
    bench.put(b"a", b"later");
    bench.run_background();
    let name = format!("table-{table}");
    assert!(!bench.device.exists(&name).expect("memory looks"), "the cursor stood on it");
    assert_eq!(cursor.next(), Ok(Some((&b"c"[..], &b"value"[..]))));
    assert_eq!(cursor.next(), Ok(None));
}

#[test]
fn a_cursor_that_nobody_moves_holds_no_memtable_that_was_merged() {
    let bench = Bench::of(Options { merging: true, ..small() });
    for name in [b"a", b"b"] {
        bench.put(name, b"value");
    }
    let view = bench.view();
    let mut cursor = view.scan(KeyRange::all(), Direction::Forward).expect("the store is open");
    assert!(cursor.next().expect("nothing fails").is_some());
    let shared = &bench.store.shared;
    let memtable = {
        let state = shared.state.load_full();
        shared.seal(&state.actives);
        Arc::downgrade(&state.actives[0])
    };
    bench.crank.run_all();
    assert_eq!(bench.detail("memtable_merges"), 1);
    assert!(memtable.upgrade().is_none(), "the cursor stood on it");
    assert_eq!(cursor.next(), Ok(Some((&b"b"[..], &b"value"[..]))));
    assert_eq!(cursor.next(), Ok(None));
}

/// Room is counted in bytes, whatever the size of a write.
#[test]
fn large_writes_wait_for_flushes() {
    let bench = Bench::new();
    let split = bench.store.shared.memory_split();
    let value = vec![1; split.memtables_bytes as usize];
    for number in 0..20 {
        bench.put(&key(number), &value);
        let most = 2 * split.memtables_bytes;
        assert!(bench.detail("memtable_bytes") < most + split.memtable_bytes, "at {number}");
    }
    assert_eq!(bench.pairs().len(), 20);
}

#[test]
fn rmw_of_a_number_applied_before_changes_nothing() {
    let bench = Bench::new();
    let first = bench.put(b"a", b"first");
    let second = bench.put(b"a", b"second");
    for seqno in [first, second] {
        let mut operator = |_: Option<&[u8]>| Change::Put(b"again".to_vec());
        bench.store.rmw(b"a", &mut operator, seqno).expect("replay is taken");
        bench.store.replay(&[Op::Delete { key: b"a" }], first).expect("replay is taken");
        assert_eq!(bench.get(b"a").as_deref(), Some(&b"second"[..]));
    }
}

#[test]
fn a_write_larger_than_the_memory_is_refused_before_it_is_journaled() {
    let bench = Bench::with(device::memory(), Arc::new(NoJournal), 10_000).expect("opens");
    let value = vec![0; 10_001];
    let keys: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 501]).collect();
    let deletes: Vec<Op<'_>> = keys.iter().map(|key| Op::Delete { key }).collect();
    let put = |bytes: usize| [Op::Put { key: b"k", value: &value[..bytes] }];
    let reserve = |demand: Demand<'_>, wait| bench.store.reserve(&demand, wait).map(drop);
    let too_large = |bytes| Error::WriteTooLarge { bytes, limit: 10_000 };
    for wait in [Wait::No, Wait::Yes] {
        let refused = reserve(Demand::Ops(&put(10_001)), wait);
        assert_eq!(refused, Err(too_large(10_002)), "{wait:?}");
        let update = Demand::Update { key: b"k", bytes_max: 10_001 };
        assert_eq!(reserve(update, wait), Err(too_large(10_002)), "{wait:?}");
        let refused = reserve(Demand::Ops(&deletes), wait);
        assert_eq!(refused, Err(too_large(20 * 501)), "{wait:?}");
        assert_eq!(bench.store.stats().reserved, 0, "{wait:?}");
        reserve(Demand::Ops(&put(5000)), wait).expect("it fits");
        reserve(Demand::Ops(&deletes[..10]), wait).expect("they fit");
    }
    let text = too_large(10_002).to_string();
    assert!(!text.contains("engine"), "no engine takes it with less memory");
}

#[test]
fn memory_stays_within_the_budget() {
    for options in both() {
        let limit = 256 << 10;
        let bench = Bench::with_options(device::memory(), Arc::new(NoJournal), limit, options);
        let bench = bench.expect("opens");
        let mut most = 0;
        for number in 0..6000 {
            bench.put(&key(number * 7919 % 6000), &[number as u8; 200]);
            bench.get(&key(number));
            most = most.max(bench.budget.used());
        }
        assert!(most <= limit, "{most} bytes of {limit}");
        assert!(most > limit / 2, "most of it is used: {most}");
        assert_eq!(bench.budget.used(), bench.store.stats().memory_bytes);
        let budget = Arc::clone(&bench.budget);
        drop(bench);
        assert_eq!(budget.used(), 0, "a store that is gone takes no memory");
    }
}

#[test]
fn a_closed_store_says_so() {
    let bench = Bench::new();
    bench.put(b"k", b"v");
    let view = bench.view();
    let mut cursor = view.scan(KeyRange::all(), Direction::Forward).expect("the store is open");
    bench.store.close().expect("closes");
    bench.store.close().expect("closing again does no harm");
    let mut value = Vec::new();
    assert_eq!(bench.store.get(b"k", &mut value), Err(Error::Closed));
    assert_eq!(bench.store.write(&[], SeqNo::new(9)), Err(Error::Closed));
    assert_eq!(bench.store.reserve(&Demand::Ops(&[]), Wait::Yes).map(drop), Err(Error::Closed));
    assert_eq!(bench.store.flush(), Err(Error::Closed));
    assert_eq!(bench.store.checkpoint(device::memory(), &engine::go_on), Err(Error::Closed));
    assert_eq!(view.get(b"k", &mut value), Err(Error::Closed));
    assert_eq!(cursor.next(), Err(Error::Closed));
    let ghosts = bench.store.shared.cache.ghost_bytes();
    assert_eq!(bench.store.stats().memory_bytes, ghosts, "nothing of the data");
}

/// Nothing is flushed by itself here: memory fills up.
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
    let waits = bench.detail("flushes");
    assert!(!has_room(&long), "no work makes room for it");
    assert_eq!((bench.detail("stalls"), bench.detail("flushes")), (stalls, waits));
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
