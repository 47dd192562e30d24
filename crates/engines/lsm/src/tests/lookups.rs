//! Lookups that wait for the device: many in flight, and those of updates.

use std::sync::Arc;

use codec::SeqNo;
use conformance::LookupStart;
use conformance::cold::{self, ended, expected};
use engine::{At, Engine, Error, NoJournal, Op, Reservation};
use reads::BlockingReads;

use super::stores::{Bench, key, small};
use crate::Options;

/// A store of 500 keys, every third one deleted again, of which the cache has nothing.
fn cold() -> Bench {
    let bench = Bench::new();
    cold::fill(&bench, false);
    bench.crank.run_all();
    bench.reopen()
}

#[test]
fn many_keys_are_read_by_one_call() {
    let bench = cold();
    (0..2).for_each(|_| cold::check_multi_get(&bench));
}

#[test]
fn as_many_lookups_are_pending_as_there_is_room_for() {
    cold::check_depth(&cold());
}

#[test]
fn a_closed_store_refuses_lookups_and_ends_those_that_are_pending() {
    cold::check_close(&cold());
}

#[test]
fn long_values_are_read_a_few_at_a_time_and_their_buffers_are_charged() {
    const COUNT: u64 = 16;
    const VALUE_BYTES: u64 = 1 << 20;
    let long = |number: u64| -> Vec<u8> {
        // Nothing that compression makes shorter.
        let words = (0..VALUE_BYTES / 8).map(|word| codec::hash64(number, &word.to_le_bytes()));
        words.flat_map(u64::to_le_bytes).collect()
    };
    let roomy = Options { memtable_bytes_max: 8 << 20, ..small() };
    let bench = Bench::with_options(device::memory(), Arc::new(NoJournal), 128 << 20, roomy);
    let bench = bench.expect("an empty device opens");
    for number in 0..COUNT {
        bench.put(&key(number), &long(number));
    }
    bench.run_background();
    // Its cache is smaller than a value.
    let bench = bench.reopen();
    let mut reads = bench.in_flight(128);
    let (mut most, mut number) = (0, 0);
    while number < COUNT || reads.pending() > 0 {
        let begun = match number < COUNT {
            true => reads.begin(number, &key(number), At::Newest).expect("it is open"),
            false => LookupStart::Full,
        };
        most = most.max(bench.budget.used());
        match begun {
            LookupStart::Pending => number += 1,
            LookupStart::Full => _ = reads.complete(true),
            other => panic!("{other:?}"),
        }
        most = most.max(bench.budget.used());
    }
    assert_eq!(reads.ended.len() as u64, COUNT);
    for (number, end) in &reads.ended {
        assert!(end.value.as_ref().is_ok_and(|it| *it == Some(long(*number))), "{number}");
    }
    assert!((3 * VALUE_BYTES..5 * VALUE_BYTES).contains(&most), "{most} bytes were charged");
    drop(reads);
    assert!(bench.budget.used() < VALUE_BYTES, "the buffers are released");
}

#[test]
fn a_lookup_does_not_read() {
    let bench = cold();
    let mut into = Vec::new();
    assert_eq!(bench.store.try_get(&key(1), &mut into), Ok(None));
    assert_eq!(bench.get(&key(1)), expected(1));
    assert_eq!(bench.store.try_get(&key(1), &mut into), Ok(Some(true)), "it is cached");
}

#[test]
fn an_old_value_is_the_newest_until_it_is_written() {
    type Meanwhile = fn(&Bench) -> SeqNo;
    let cases: [(Meanwhile, bool); 5] = [
        (|_| SeqNo::ZERO, true),
        (|bench| bench.put(&key(2), b"other"), true),
        (|bench| bench.put(&key(1), b"new"), false),
        (|bench| bench.delete(&key(1)), false),
        (
            |bench| {
                let seqno = bench.put(&key(1), b"new");
                bench.store.flush().expect("memory takes it");
                seqno
            },
            false,
        ),
    ];
    for (index, (meanwhile, is_newest)) in cases.into_iter().enumerate() {
        let bench = cold();
        let mut reads = bench.in_flight(4);
        assert_eq!(reads.begin(9, &key(1), At::ForUpdate), Ok(LookupStart::Pending));
        meanwhile(&bench);
        reads.finish();
        assert_eq!(reads.ended.remove(&9), ended(1, is_newest), "case {index}");
        if index == 0 {
            let cached = LookupStart::Found(expected(1).expect("a value"));
            assert_eq!(reads.begin(9, &key(1), At::ForUpdate), Ok(cached));
        }
    }
}

/// A writer holds the lock of its key (law L6), and a lookup does not (law L7). So the writer may
/// have entered a memtable that another one has replaced since.
#[test]
fn an_old_value_is_not_the_newest_if_a_slow_writer_has_put_another_one() {
    let bench = cold();
    let shared = &bench.store.shared;
    let mut reads = bench.in_flight(4);
    let active = || {
        let state = shared.open_state().expect("it is open");
        Arc::clone(state.active(&key(1), SeqNo::ZERO).expect("it is open").0)
    };
    let slow = active();
    std::thread::scope(|scope| {
        let entered = slow.enter().expect("it is not sealed");
        scope.spawn(|| shared.seal(&[Arc::clone(&slow)]));
        while active().id() == slow.id() {
            std::thread::yield_now();
        }
        assert_eq!(reads.begin(7, &key(1), At::ForUpdate), Ok(LookupStart::Pending));
        let ticket = bench.sequence.begin();
        let op = Op::Put { key: &key(1), value: b"slow" };
        entered.insert(&op, ticket.seqno(), &mut Reservation::uncounted());
        shared.memtables.note_applied(ticket.seqno());
        drop(entered);
    });
    bench.store.flush().expect("memory takes it");
    reads.finish();
    assert_eq!(reads.ended.remove(&7), ended(1, false));
}

#[test]
fn damage_ends_the_lookups_that_meet_it() {
    let bench = cold();
    let state = bench.store.shared.state.load_full();
    for (_, table) in state.version.tables() {
        let name = format!("table-{}", table.summary().id.number);
        let file = bench.device.open(&name, device::Mode::Write).expect("it is there");
        file.write_at(20, b"damage").expect("memory writes");
    }
    let mut reads = bench.in_flight(600);
    for number in 0..500 {
        reads.begin(number, &key(number), At::Newest).expect("it is pending");
    }
    reads.finish();
    let ended = reads.ended.into_iter().map(|(number, end)| (number, end.value));
    let (damaged, whole): (Vec<_>, Vec<_>) = ended.partition(|(_, value)| value.is_err());
    assert!(!damaged.is_empty() && !whole.is_empty(), "some blocks are damaged, some are not");
    for (number, value) in damaged {
        assert!(matches!(value, Err(Error::Corruption(_))), "{number}: {value:?}");
    }
    for (number, value) in whole {
        assert_eq!(value, Ok(expected(number)));
    }
}
