//! Reads that wait for the device beside each other: many at once, and on seats.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::SeqNo;
use engine::{Begun, BegunOld, Change, Engine, Error, Listener, Old, Op, Result, Seat};

use super::stores::{Bench, key, small};
use crate::Options;

/// A store of 500 keys, every third one deleted again, of which the cache has nothing, and whose intervals
/// lie in several pieces.
fn cold() -> Bench {
    let bench = Bench::new();
    for number in 0..500 {
        bench.put(&key(number), &[number as u8; 50]);
    }
    bench.flush();
    for number in (0..500).step_by(3) {
        bench.delete(&key(number));
    }
    bench.flush();
    bench.reopen()
}

fn expected(number: u64) -> Option<Vec<u8>> {
    (number < 500 && !number.is_multiple_of(3)).then(|| vec![number as u8; 50])
}

/// What a seat has told of, by tag.
#[derive(Default)]
struct Told {
    values: BTreeMap<u64, Result<Option<Vec<u8>>>>,
    olds: BTreeMap<u64, (Option<Vec<u8>>, bool)>,
}

impl Listener for Told {
    fn value(&mut self, tag: u64, value: Result<Option<&[u8]>>) {
        let value = value.map(|value| value.map(<[u8]>::to_vec));
        assert!(self.values.insert(tag, value).is_none(), "told of {tag} twice");
    }
    fn old(&mut self, tag: u64, old: Result<Old<'_>>) {
        let old = old.expect("nothing is damaged");
        let told = (old.value.map(<[u8]>::to_vec), old.is_newest());
        assert!(self.olds.insert(tag, told).is_none(), "told of {tag} twice");
    }
}

fn finish(seat: &mut dyn Seat, told: &mut Told) {
    while seat.pending() > 0 {
        assert!(seat.complete(true, told).expect("the queue works") > 0, "it waits for one");
    }
}

#[test]
fn many_keys_are_read_at_once() {
    let bench = cold();
    bench.put(&key(7), b"in memory");
    let numbers: Vec<u64> = (0..600).map(|at| at * 7 % 510).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for round in 0..2 {
        let misses = bench.detail("cache_misses");
        let mut found = vec![None; keys.len()];
        let mut tell = |index: usize, value: Option<&[u8]>| {
            assert!(found[index].is_none(), "told of {index} twice");
            found[index] = Some(value.map(<[u8]>::to_vec));
        };
        bench.store.multi_get(&keys, &mut tell).expect("nothing is damaged");
        for (number, found) in numbers.iter().zip(found) {
            let expected =
                if *number == 7 { Some(b"in memory".to_vec()) } else { expected(*number) };
            assert_eq!(found, Some(expected), "{number}");
        }
        // The second time all of them are cached.
        assert_eq!(bench.detail("cache_misses") > misses, round == 0);
    }
    assert!(bench.budget.used() <= 1 << 20, "{} bytes", bench.budget.used());
}

#[test]
fn a_seat_keeps_as_many_pending_as_it_may() {
    let bench = cold();
    let mut seat = bench.store.seat(4).expect("the store is open").expect("it has seats");
    let mut told = Told::default();
    let (mut into, mut most) = (Vec::new(), 0);
    for number in 0..500 {
        loop {
            match seat.begin_get(number, &key(number), &mut into).expect("nothing is damaged") {
                Begun::Found => assert_eq!(expected(number).as_ref(), Some(&into)),
                Begun::Absent => assert_eq!(expected(number), None),
                Begun::Pending => {}
                Begun::Full => {
                    assert_eq!(seat.pending(), 4);
                    seat.complete(true, &mut told).expect("the queue works");
                    continue;
                }
            }
            break;
        }
        most = most.max(seat.pending());
    }
    finish(&mut *seat, &mut told);
    assert_eq!(most, 4);
    assert!(told.values.len() > 50, "{} had to be read", told.values.len());
    for (number, value) in told.values {
        assert_eq!(value, Ok(expected(number)), "{number}");
    }
}

/// What has to be read is not done at once, and what is in memory is.
#[test]
fn nothing_is_read_at_once() {
    let bench = cold();
    let mut value = Vec::new();
    let mut append = |_: Option<&[u8]>| Change::Put(b"new".to_vec());
    assert_eq!(bench.store.get_at_once(&key(100), &mut value), Ok(None));
    let ticket = bench.sequence.begin();
    assert_eq!(bench.store.rmw_at_once(&key(100), &mut append, ticket.seqno()), Ok(false));
    assert_eq!(bench.detail("cache_misses"), 0);
    assert_eq!(bench.get(&key(100)), expected(100));
    assert_eq!(bench.store.rmw_at_once(&key(100), &mut append, ticket.seqno()), Ok(true));
    drop(ticket);
    assert_eq!(bench.store.get_at_once(&key(100), &mut value), Ok(Some(true)));
    assert_eq!(value, b"new");
    assert_eq!(bench.store.get_at_once(&key(99), &mut value), Ok(Some(false)));
}

/// An old value is the newest unless the key was written meanwhile, or nobody can say.
#[test]
fn an_old_value_is_told_with_whether_it_is_the_newest() {
    let bench = cold();
    let mut seat = bench.store.seat(16).expect("the store is open").expect("it has seats");
    let mut told = Told::default();
    for (tag, number) in [(0, 1), (1, 250), (2, 499)] {
        assert_eq!(seat.begin_old(tag, &key(number)), Ok(BegunOld::Pending));
    }
    bench.put(&key(250), b"other");
    finish(&mut *seat, &mut told);
    assert_eq!(told.olds.remove(&0), Some((expected(1), true)));
    assert_eq!(told.olds.remove(&1), Some((expected(250), false)));
    assert_eq!(told.olds.remove(&2), Some((expected(499), true)));
    assert_eq!(seat.begin_old(3, &key(1)), Ok(BegunOld::AtOnce));
    // Once what it was written to is committed, nobody says that it was not.
    let number = 401;
    assert_eq!(seat.begin_old(4, &key(number)), Ok(BegunOld::Pending));
    bench.put(&key(number), b"written");
    bench.flush();
    finish(&mut *seat, &mut told);
    assert_eq!(told.olds.remove(&4), Some((expected(number), false)));
}

/// A tombstone that lies in a segment that is not full yet needs no device, and is not cached alone. Were it
/// only said that memory has it, who updates the key would ask again and again, for as long as nobody writes.
#[test]
fn an_old_value_that_no_update_finds_in_memory_is_told() {
    let bench = Bench::of(1 << 20, Options { interval_pairs: 64, tail_pairs_max: 15, ..small() });
    for number in 0..10 {
        bench.put(&key(number), b"value");
    }
    for is_deleted in [false, true] {
        if is_deleted {
            bench.delete(&key(3));
        }
        bench.flush();
        bench.store.shared.cache.shrink(0);
    }
    let reads = bench.device.accounting().counts().read_ops;
    let mut seat = bench.store.seat(1).expect("the store is open").expect("it has seats");
    let mut told = Told::default();
    assert_eq!(seat.begin_old(0, &key(3)), Ok(BegunOld::Pending));
    assert_eq!(seat.begin_old(1, &key(3)), Ok(BegunOld::Full));
    assert_eq!(seat.pending(), 1);
    finish(&mut *seat, &mut told);
    assert_eq!(bench.device.accounting().counts().read_ops, reads, "all of it is in the buffer");
    assert_eq!(told.olds.remove(&0), Some((None, true)));
    assert_eq!(bench.store.get_at_once(&key(3), &mut Vec::new()), Ok(None), "as was said");
}

/// Whoever writes a key holds its lock (law L6), and whoever looks an old value up does not, before it is told
/// of it (law L7). So the writer may have entered a memtable that another one has the place of by then.
#[test]
fn an_old_value_is_not_the_newest_if_a_slow_writer_has_put_another_one() {
    let bench = cold();
    let shared = &bench.store.shared;
    let mut seat = bench.store.seat(16).expect("the store is open").expect("it has seats");
    let slow = Arc::clone(&shared.open_state().expect("it is open").active);
    std::thread::scope(|scope| {
        let entered = slow.enter().expect("it is not sealed");
        scope.spawn(|| shared.seal(&slow));
        while shared.open_state().expect("it is open").active.id() == slow.id() {
            std::thread::yield_now();
        }
        assert_eq!(seat.begin_old(7, &key(1)), Ok(BegunOld::Pending));
        let ticket = bench.sequence.begin();
        let put = Op::Put { key: &key(1), value: b"slow" };
        entered.put(&put, ticket.seqno(), &|_, _| true);
        shared.family.note_applied(ticket.seqno());
        drop(entered);
    });
    bench.flush();
    let mut told = Told::default();
    finish(&mut *seat, &mut told);
    assert_eq!(told.olds.remove(&7), Some((expected(1), false)));
    assert_eq!(bench.get(&key(1)), Some(b"slow".to_vec()));
}

/// Damage is told to whom it concerns, and a store that is closed says so.
#[test]
fn what_goes_wrong_is_told() {
    let bench = cold();
    let mut seat = bench.store.seat(16).expect("the store is open").expect("it has seats");
    let mut told = Told::default();
    let mut into = Vec::new();
    assert_eq!(seat.begin_get(1, &key(1), &mut into), Ok(Begun::Pending));
    bench.store.close().expect("closes");
    finish(&mut *seat, &mut told);
    assert_eq!(told.values.remove(&1), Some(Err(Error::Closed)));
    assert_eq!(seat.begin_get(2, &key(1), &mut into), Err(Error::Closed));
    assert!(bench.store.seat(1).is_err());
    let put = Op::Put { key: b"k", value: b"v" };
    assert_eq!(bench.store.apply(&[put], SeqNo::new(1 << 40)), Err(Error::Closed));
}

/// Long intervals are waited for few at a time, however many might be pending.
#[test]
fn a_seat_waits_for_no_more_bytes_than_it_may() {
    let options = crate::Options { memtable_bytes_max: 64 << 20, ..crate::Options::default() };
    let bench = Bench::of(512 << 20, options);
    for number in 0..6 {
        bench.put(&key(number), &vec![number as u8; 3 << 20]);
    }
    bench.flush();
    bench.store.shared.cache.shrink(0);
    let mut seat = bench.store.seat(32).expect("the store is open").expect("it has seats");
    let (mut told, mut value) = (Told::default(), Vec::new());
    let begun: Vec<Begun> = (0..4)
        .map(|number| seat.begin_get(number, &key(number), &mut value).expect("it is open"))
        .collect();
    assert_eq!(begun, [Begun::Pending, Begun::Pending, Begun::Full, Begun::Full]);
    finish(&mut *seat, &mut told);
    assert_eq!(told.values[&1], Ok(Some(vec![1; 3 << 20])));
    let numbers: Vec<Vec<u8>> = (0..6).map(key).collect();
    let keys: Vec<&[u8]> = numbers.iter().map(Vec::as_slice).collect();
    let mut lengths = BTreeMap::new();
    let mut found = |index, value: Option<&[u8]>| _ = lengths.insert(index, value.map(<[u8]>::len));
    bench.store.multi_get(&keys, &mut found).expect("it is open");
    assert_eq!(lengths, (0..6).map(|index| (index, Some(3 << 20))).collect());
}
