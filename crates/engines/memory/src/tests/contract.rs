//! The laws of the engine contract, one by one.

use engine::{BlockingWrites, Change, Demand, Direction, Engine, Error, KeyRange, Op, SeqNo, Wait};
use reads::BlockingReads;

use super::stores::{Bench, key, scan};

#[test]
fn a_write_is_read_and_the_last_step_on_a_key_stands() {
    let bench = Bench::new();
    assert_eq!(bench.get(b"a"), None);
    bench.apply(&[
        Op::Put { key: b"a", value: b"1" },
        Op::Put { key: b"b", value: b"2" },
        Op::Put { key: b"a", value: b"three" },
        Op::Delete { key: b"b" },
        Op::Put { key: b"", value: b"" },
    ]);
    assert_eq!(bench.get(b"a").as_deref(), Some(&b"three"[..]));
    assert_eq!(bench.get(b"b"), None);
    assert_eq!(bench.get(b"").as_deref(), Some(&b""[..]));
    assert_eq!(bench.store.stats().live_keys, Some(2));
    assert_eq!(bench.store.stats().live_bytes, Some(6));
}

#[test]
fn heads_do_not_decide_where_keys_are_equal_that_far() {
    let bench = Bench::new();
    let keys: [&[u8]; 9] = [
        b"",
        b"\0",
        b"\0\0",
        b"abcdefgh",
        b"abcdefgh\0",
        b"abcdefgh\0\0",
        b"abcdefgi",
        b"abcdefgia",
        b"abcdefgib",
    ];
    for key in keys.iter().rev() {
        bench.put(key, key);
    }
    for key in keys {
        assert_eq!(bench.get(key).as_deref(), Some(key));
    }
    let scanned: Vec<_> = bench.pairs().into_iter().map(|(key, _)| key).collect();
    assert_eq!(scanned, keys);
}

#[test]
fn a_view_shows_its_moment_whatever_comes_after() {
    let bench = Bench::new();
    for number in 0..500 {
        bench.put(&key(number), b"before");
    }
    let view = bench.view();
    for number in 0..500 {
        match number % 4 {
            0 => bench.put(&key(number), b"after."),
            1 => bench.put(&key(number), b"after, and longer than it was"),
            2 => bench.delete(&key(number)),
            _ => bench.put(&key(number + 10_000), b"new"),
        };
    }
    for round in [b"again1", b"again2"] {
        for number in 0..500 {
            bench.put(&key(number), round);
        }
    }
    let pairs = scan(&view, KeyRange::all(), Direction::Forward);
    assert_eq!(pairs.len(), 500);
    assert!(pairs.iter().all(|(_, value)| value == b"before"));
    let mut value = Vec::new();
    assert!(view.get(&key(2), &mut value).expect("the store is open"));
    assert_eq!(value, b"before");
    assert!(!view.get(&key(10_003), &mut value).expect("the store is open"));
    assert_eq!(bench.get(&key(2)).as_deref(), Some(&b"again2"[..]));
}

#[test]
fn what_a_view_held_back_goes_with_it() {
    let bench = Bench::new();
    for number in 0..300 {
        bench.put(&key(number), b"one");
    }
    let view = bench.view();
    for round in 0..10 {
        for number in 0..300 {
            bench.put(&key(number), &[round]);
        }
    }
    for number in 0..100 {
        bench.delete(&key(number));
    }
    // However often a key is written, one view holds back one version.
    assert_eq!(bench.store.shared.map.superseded(), 300 + 100);
    drop(view);
    bench.clock.advance(std::time::Duration::from_secs(2));
    bench.crank.run_all();
    assert_eq!(bench.store.shared.map.superseded(), 0);
    assert_eq!(bench.store.stats().live_keys, Some(200));
    assert_eq!(bench.pairs().len(), 200);
}

#[test]
fn writes_prune_what_a_view_held_back() {
    let bench = Bench::new();
    for number in 0..3000 {
        bench.put(&key(number), b"one");
    }
    let view = bench.view();
    for number in 0..3000 {
        bench.delete(&key(number));
    }
    assert_eq!(bench.store.shared.map.superseded(), 6000);
    drop(view);
    for number in 0..3000 {
        bench.put(&key(number + 9000), b"two");
    }
    assert_eq!(bench.store.shared.map.superseded(), 0);
}

#[test]
fn a_number_applied_before_changes_nothing() {
    let bench = Bench::new();
    let first = bench.put(b"a", b"first");
    let second = bench.put(b"a", b"second");
    bench.store.write(&[Op::Put { key: b"a", value: b"first" }], first).expect("replay is taken");
    assert_eq!(bench.get(b"a").as_deref(), Some(&b"second"[..]));
    bench.delete(b"a");
    for seqno in [first, second] {
        let again = [Op::Put { key: b"a", value: b"again" }];
        bench.store.write(&again, seqno).expect("replay is taken");
        let mut operator = |_: Option<&[u8]>| Change::Put(b"again".to_vec());
        bench.store.rmw(b"a", &mut operator, seqno).expect("replay is taken");
        assert_eq!(bench.get(b"a"), None, "a deleted value came back");
    }
}

#[test]
fn replay_needs_no_tickets() {
    let bench = Bench::new();
    for seqno in 1..=300 {
        let key = key(seqno % 100);
        let op = match seqno % 3 {
            0 => Op::Delete { key: &key },
            _ => Op::Put { key: &key, value: b"x" },
        };
        bench.store.write(&[op], SeqNo::new(seqno)).expect("replay is taken");
    }
    bench.sequence.recover_to(SeqNo::new(300));
    // The last of each key's three writes was number 200 + its own.
    let expected: Vec<_> = (0..100)
        .map(|number| if number == 0 { 300 } else { 200 + number })
        .zip(0..100)
        .filter(|(seqno, _)| seqno % 3 != 0)
        .map(|(_, number)| (key(number), b"x".to_vec()))
        .collect();
    assert_eq!(bench.pairs(), expected);
}

#[test]
fn rmw_changes_keeps_and_deletes() {
    struct Doubling;
    impl engine::Operator for Doubling {
        fn update_in_place(&mut self, value: &mut [u8]) -> bool {
            value[0] *= 2;
            true
        }
        fn update(&mut self, value: Option<&[u8]>) -> Change {
            value.map_or(Change::Put(vec![1]), |value| Change::Put(vec![value[0] * 2]))
        }
    }
    let bench = Bench::new();
    let rmw = |operator: &mut dyn engine::Operator| {
        let ticket = bench.sequence.begin();
        bench.store.rmw(b"k", operator, ticket.seqno()).expect("the write is taken");
    };
    rmw(&mut Doubling);
    rmw(&mut Doubling);
    assert_eq!(bench.get(b"k").as_deref(), Some(&[2][..]));
    let view = bench.view();
    rmw(&mut Doubling);
    rmw(&mut Doubling);
    assert_eq!(bench.get(b"k").as_deref(), Some(&[8][..]));
    let mut seen = Vec::new();
    assert!(view.get(b"k", &mut seen).expect("the store is open"));
    assert_eq!(seen, [2], "an update in place reached a view");
    rmw(&mut |_: Option<&[u8]>| Change::Keep);
    assert_eq!(bench.get(b"k").as_deref(), Some(&[8][..]));
    rmw(&mut |_: Option<&[u8]>| Change::Delete);
    assert_eq!(bench.get(b"k"), None);
    assert_eq!(bench.store.stats().live_keys, Some(0));
    assert_eq!(bench.store.stats().live_bytes, Some(0));
}

#[test]
fn writes_that_are_granted_at_the_same_time_fit_together() {
    let bench = Bench::new();
    bench.budget.set_limit(bench.budget.used() + (1 << 20));
    let value = [7; 1000];
    let ops = [Op::Put { key: b"k", value: &value }];
    let grant = || bench.store.reserve(&Demand::Ops(&ops), Wait::No);
    let mut granted: Vec<_> = std::iter::from_fn(|| grant().ok()).collect();
    assert!((900..1050).contains(&granted.len()), "{} kilobytes in a mebibyte", granted.len());
    assert_eq!(bench.store.reserve(&Demand::Ops(&ops), Wait::Yes).err(), grant().err());
    // A replay is always granted, and a grant that is dropped makes room.
    drop(bench.store.reserve(&Demand::Ops(&ops), Wait::Replay).expect("is granted"));
    granted.pop();
    drop(grant().expect("there is room again"));
    let used = bench.budget.used();
    drop(granted);
    assert!(bench.budget.used() < used);
    assert_eq!(bench.budget.used(), bench.store.stats().memory_bytes, "all of it is back");
}

#[test]
fn the_budget_counts_and_refuses_before_the_write() {
    let device = device::memory();
    let bench =
        Bench::with(device, std::sync::Arc::new(engine::NoJournal), 256 << 10).expect("opens");
    let value = [7; 100];
    let mut taken = 0;
    let refused = loop {
        let key = key(taken);
        let ops = [Op::Put { key: &key, value: &value }];
        if let Err(error) = bench.store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop) {
            break error;
        }
        bench.apply(&ops);
        taken += 1;
    };
    assert_eq!(refused, Error::OutOfMemory { limit: 256 << 10 });
    assert!((1000..2500).contains(&taken), "{taken} keys of 114 bytes in 256 KiB");
    // Writes that take no more room are still admitted, and so are deletes, which make room.
    bench
        .store
        .reserve(&Demand::Ops(&[Op::Put { key: &key(3), value: &[8; 100] }]), Wait::Yes)
        .map(drop)
        .expect("no more room taken");
    bench
        .store
        .reserve(&Demand::Ops(&[Op::Delete { key: &key(0) }]), Wait::Yes)
        .map(drop)
        .expect("deletes are admitted");
    for number in 0..taken / 2 {
        bench.delete(&key(number));
    }
    let ops = [Op::Put { key: b"other", value: &value }];
    bench.store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop).expect("there is room again");
    let used = bench.budget.used();
    assert_eq!(used, bench.store.stats().memory_bytes);
    let limit = bench.budget.clone();
    drop(bench);
    assert_eq!(limit.used(), 0, "a store that is gone takes no memory");
}

#[test]
fn what_was_admitted_is_not_refused() {
    let bench = Bench::new();
    bench.put(b"k", b"v");
    bench.budget.set_limit(1);
    assert!(
        bench
            .store
            .reserve(&Demand::Ops(&[Op::Put { key: b"other", value: b"" }]), Wait::Yes)
            .map(drop)
            .is_err()
    );
    // The host may have journaled it already, if it was admitted before the limit moved.
    let ticket = bench.sequence.begin();
    let put = [Op::Put { key: b"k", value: b"longer" }];
    bench.store.replay(&put, ticket.seqno()).expect("the write is taken");
    assert_eq!(bench.get(b"k").as_deref(), Some(&b"longer"[..]));
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
    let mut keep = |_: Option<&[u8]>| Change::Keep;
    assert_eq!(bench.store.rmw(b"k", &mut keep, SeqNo::new(9)), Err(Error::Closed));
    let scanned = bench.view().scan(KeyRange::all(), Direction::Forward);
    assert_eq!(scanned.err(), Some(Error::Closed));
    assert_eq!(view.get(b"k", &mut value), Err(Error::Closed));
    assert_eq!(cursor.next(), Err(Error::Closed));
}

#[test]
fn keys_and_values_beyond_the_limits_are_refused() {
    let bench = Bench::new();
    let long = vec![0; engine::KEY_BYTES_MAX + 1];
    let ticket = bench.sequence.begin();
    let ops = [Op::Put { key: b"whole", value: b"" }, Op::Delete { key: &long }];
    let refused = bench.store.write(&ops, ticket.seqno());
    assert_eq!(refused, Err(Error::KeyTooLong { bytes: long.len() }));
    drop(ticket);
    assert_eq!(bench.get(b"whole"), None, "a refused write was half applied");
    let longest = vec![1; engine::KEY_BYTES_MAX];
    bench.put(&longest, &longest);
    bench.put(&longest[1..], b"shorter");
    assert_eq!(bench.get(&longest), Some(longest.clone()));
    assert_eq!(bench.pairs()[1].0, longest);
}
