//! Lookups that wait for the device: many in flight, and those of updates.

use std::sync::Arc;

use codec::SeqNo;
use conformance::LookupStart;
use conformance::cold::{self, ended, expected};
use engine::{At, BlockingWrites, Error, Op, Reservation};
use reads::BlockingReads;

use super::stores::{Bench, key, small};
use crate::Options;

/// A store of 500 keys, every third one deleted again. The cache has nothing of it, and its
/// intervals are in several pieces.
fn cold() -> Bench {
    let bench = Bench::new();
    cold::fill(&bench, true);
    bench.check();
    bench.reopen()
}

#[test]
fn many_keys_are_read_by_one_call() {
    let bench = cold();
    for round in 0..2 {
        let misses = bench.detail("cache_misses");
        cold::check_multi_get(&bench);
        // The second time all of them are cached.
        assert_eq!(bench.detail("cache_misses") > misses, round == 0);
    }
    assert!(bench.budget.used() <= 1 << 20, "{} bytes", bench.budget.used());
}

#[test]
fn as_many_lookups_are_pending_as_there_is_room_for() {
    cold::check_depth(&cold());
}

#[test]
fn a_closed_store_refuses_lookups_and_ends_those_that_are_pending() {
    let bench = cold();
    cold::check_close(&bench);
    let put = Op::Put { key: b"k", value: b"v" };
    assert_eq!(bench.store.write(&[put], SeqNo::new(1 << 40)), Err(Error::Closed));
}

#[test]
fn a_lookup_does_not_read() {
    let bench = cold();
    let mut value = Vec::new();
    assert_eq!(bench.store.try_get(&key(100), &mut value), Ok(None));
    assert_eq!(bench.detail("cache_misses"), 0);
    assert_eq!(bench.get(&key(100)), expected(100));
    assert_eq!(bench.store.try_get(&key(100), &mut value), Ok(Some(true)));
    assert_eq!(Some(value.clone()), expected(100));
    assert_eq!(bench.store.try_get(&key(99), &mut value), Ok(Some(false)));
}

/// The value for an update is the newest unless the key was written meanwhile, or that is not
/// known.
#[test]
fn the_value_of_an_update_is_confirmed_until_its_key_is_written() {
    let bench = cold();
    let mut reads = bench.in_flight(16);
    for (tag, number) in [(0, 1), (1, 250), (2, 499)] {
        assert_eq!(reads.begin(tag, &key(number), At::ForUpdate), Ok(LookupStart::Pending));
    }
    bench.put(&key(250), b"other");
    reads.finish();
    assert_eq!(reads.ended.remove(&0), ended(1, true));
    assert_eq!(reads.ended.remove(&1), ended(250, false));
    assert_eq!(reads.ended.remove(&2), ended(499, true));
    let cached = LookupStart::Found(expected(1).expect("a value"));
    assert_eq!(reads.begin(3, &key(1), At::ForUpdate), Ok(cached));
    // Once the memtable that was written to is committed, it is not known.
    assert_eq!(reads.begin(4, &key(401), At::ForUpdate), Ok(LookupStart::Pending));
    bench.put(&key(401), b"written");
    bench.flush();
    reads.finish();
    assert_eq!(reads.ended.remove(&4), ended(401, false));
}

/// A tombstone in a segment that is not full yet needs no device, and is not cached alone. A lookup
/// finds it in the buffer of the segment.
#[test]
fn a_part_of_an_interval_in_a_buffer_needs_no_read() {
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
    let mut in_flight = bench.in_flight(1);
    assert_eq!(in_flight.begin(0, &key(3), At::ForUpdate), Ok(LookupStart::Absent));
    assert_eq!(bench.store.try_get(&key(3), &mut Vec::new()), Ok(Some(false)));
    assert_eq!(bench.device.accounting().counts().read_ops, reads, "all of it is in the buffer");
}

/// A writer holds the lock of its key (law L6), and a lookup does not (law L7). So the writer may
/// have entered a memtable that another one has replaced since.
#[test]
fn an_old_value_is_not_the_newest_if_a_slow_writer_has_put_another_one() {
    let bench = cold();
    let shared = &bench.store.shared;
    let mut reads = bench.in_flight(16);
    let slow = Arc::clone(&shared.open_state().expect("it is open").active);
    std::thread::scope(|scope| {
        let entered = slow.enter().expect("it is not sealed");
        scope.spawn(|| shared.seal(&slow));
        while shared.open_state().expect("it is open").active.id() == slow.id() {
            std::thread::yield_now();
        }
        assert_eq!(reads.begin(7, &key(1), At::ForUpdate), Ok(LookupStart::Pending));
        let ticket = bench.sequence.begin();
        let put = Op::Put { key: &key(1), value: b"slow" };
        entered.put(&put, ticket.seqno(), &|_, _| true, &mut Reservation::uncounted());
        shared.writes.memtables.note_applied(ticket.seqno());
        drop(entered);
    });
    bench.flush();
    reads.finish();
    assert_eq!(reads.ended.remove(&7), ended(1, false));
    assert_eq!(bench.get(&key(1)), Some(b"slow".to_vec()));
}

/// A few long intervals are read at a time, whatever the number of lookups.
#[test]
fn lookups_in_flight_read_a_bounded_number_of_bytes() {
    let options = crate::Options { memtable_bytes_max: 64 << 20, ..crate::Options::default() };
    let bench = Bench::of(512 << 20, options);
    for number in 0..6 {
        bench.put(&key(number), &vec![number as u8; 3 << 20]);
    }
    bench.flush();
    bench.store.shared.cache.shrink(0);
    let mut reads = bench.in_flight(32);
    let begun: Vec<LookupStart> = (0..4)
        .map(|number| reads.begin(number, &key(number), At::Newest).expect("it is open"))
        .collect();
    assert_eq!(
        begun,
        [LookupStart::Pending, LookupStart::Pending, LookupStart::Full, LookupStart::Full]
    );
    reads.finish();
    assert_eq!(reads.ended[&1].value, Ok(Some(vec![1; 3 << 20])));
    let numbers: Vec<Vec<u8>> = (0..6).map(key).collect();
    let keys: Vec<&[u8]> = numbers.iter().map(Vec::as_slice).collect();
    let mut lengths = std::collections::BTreeMap::new();
    let mut found = |index, value: Option<&[u8]>| _ = lengths.insert(index, value.map(<[u8]>::len));
    bench.store.multi_get(&keys, &mut found).expect("it is open");
    assert_eq!(lengths, (0..6).map(|index| (index, Some(3 << 20))).collect());
}
