//! Sessions: a pending operation has a blocking call's result, and nothing is left behind.

mod digests;
mod histories;
mod threads;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use conformance::session::{Completed, Get, Session, Ticket, Until, Update};
use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
use engine::{At, Change, Engine, Error, Operator};
use reads::{BlockingReads, ReadPool};

use super::stores::{Add, Bench, count, fill, key, tiny, two_of_a_chain, value};
use super::two_logs::{KEYS, cold_store, push_out, small_cold};
use crate::admission::Level;
use crate::cold_index::Lookup;
use crate::{Options, Typed};

/// No cache, so that every get of a cold key asks the device.
fn uncached() -> Options {
    Options { log_memory_bytes: Some(6 * 4096), read_cache_bytes: Some(0), ..small_cold() }
}

/// As long as this is held, no compaction brings a record back to memory.
fn hold_compactions(bench: &Bench) -> impl Sized + '_ {
    let compactions = &bench.store.shared.compactions;
    (compactions.hot.turn.lock(), compactions.cold.turn.lock(), compactions.chunks.turn.lock())
}

/// The same, from when a get of each of these keys has to ask the device.
fn hold_cold(bench: &Bench, numbers: Range<u64>) -> impl Sized + '_ {
    loop {
        let held = hold_compactions(bench);
        let is_cold = |number| bench.store.try_get(&key(number), &mut Vec::new()) == Ok(None);
        if numbers.clone().all(is_cold) {
            return held;
        }
        // Compaction may have just brought some back to memory.
        drop(held);
        push_out(bench);
    }
}

/// Holds the compactions from a moment at which a get of this key reads its chunk from the device.
fn hold_chunk_on_disk(bench: &Bench, number: u64) -> impl Sized + '_ {
    let shared = &bench.store.shared;
    loop {
        let held = hold_cold(bench, number..number + 1);
        let position = shared.hot.index.position(shared.hash(&key(number)));
        let cold = shared.cold.as_ref().expect("there are two logs");
        let looked = cold.index.look(position, &mut Vec::new());
        if matches!(looked, Ok(Lookup::OnDisk(_))) {
            return held;
        }
        drop(held);
        push_out(bench);
    }
}

/// Begins the gets of all `numbers`, and hands each value to `found` once it is there.
fn get_all(
    session: &mut Session<'_>,
    numbers: impl Iterator<Item = u64>,
    found: &mut dyn FnMut(u64, Option<&[u8]>),
) {
    let mut pending: BTreeMap<Ticket, u64> = BTreeMap::new();
    let mut into = Vec::new();
    let mut numbers = numbers.peekable();
    while let Some(number) = numbers.peek().copied() {
        match session.get(&key(number), &mut into).expect("the get begins") {
            Get::Found => found(number, Some(&into)),
            Get::Absent => found(number, None),
            Get::Pending(ticket) => assert_eq!(pending.insert(ticket, number), None),
            Get::Full => {
                complete(session, Until::One, &mut pending, found);
                continue;
            }
        }
        numbers.next();
    }
    complete(session, Until::All, &mut pending, found);
    assert!(pending.is_empty(), "every ticket is told");
}

fn complete(
    session: &mut Session<'_>,
    wait: Until,
    pending: &mut BTreeMap<Ticket, u64>,
    found: &mut dyn FnMut(u64, Option<&[u8]>),
) {
    let told = session.complete_pending(wait, &mut |ticket, outcome| {
        let number = pending.remove(&ticket).expect("a ticket is told once");
        match outcome {
            Ok(Completed::Value(value)) => found(number, value),
            other => panic!("{other:?} of a get"),
        }
    });
    assert!(told > 0 || wait != Until::One);
}

#[test]
fn pending_gets_find_what_blocking_ones_find() {
    let bench = cold_store(uncached());
    for number in (0..KEYS).step_by(3) {
        bench.put(&key(number), &value(number, 1, 8));
        bench.delete(&key(number + 1));
    }
    let mut session = bench.session(128);
    let mut told = 0;
    get_all(&mut session, 0..KEYS + 50, &mut |number, found| {
        let expected = match number % 3 {
            0 if number < KEYS => Some(value(number, 1, 8)),
            2 if number < KEYS => Some(value(number, 0, 8)),
            _ => None,
        };
        assert_eq!(found, expected.as_deref(), "{number}");
        told += 1;
    });
    assert_eq!((told, session.pending()), (KEYS + 50, 0));
}

#[test]
fn a_cold_get_takes_two_reads_of_the_device_and_all_of_them_overlap() {
    // By hand, so that nothing else reads concurrently with the gets.
    let bench = Bench::open_by_hand(device::memory(), uncached(), 7);
    let put = |number: u64, key: &[u8]| {
        bench.put(key, &value(number, 0, 8));
        if number.is_multiple_of(50) {
            bench.advance();
        }
    };
    (0..KEYS).for_each(|number| put(number, &key(number)));
    let (tail, mut fillers) = (bench.figure("log_tail"), 0..);
    let cold = bench.store.shared.cold.as_ref().expect("there are two logs");
    let mut fill_until = |is_so: &dyn Fn() -> bool| {
        for number in fillers.by_ref().take_while(|_| !is_so()) {
            put(number, format!("filler-{number}").as_bytes());
        }
    };
    fill_until(&|| bench.figure("log_begin") >= tail);
    let tail = cold.log.tail();
    fill_until(&|| cold.log.head() >= tail);
    let mut session = bench.session(100);
    let before = bench.device.accounting().counts().read_ops;
    let mut into = Vec::new();
    // Cold keys, of which a few share the 20 bits of a hash with another at most.
    let mut pending = 0;
    for number in 0..KEYS {
        match session.get(&key(number), &mut into) {
            Ok(Get::Pending(_)) => pending += 1,
            Ok(Get::Full) => break,
            other => panic!("{other:?} of a cold key"),
        }
    }
    assert_eq!((pending, session.pending(), session.is_full()), (100, 100, true));
    let told = session.complete_pending(Until::All, &mut |_, outcome| {
        assert!(matches!(outcome, Ok(Completed::Value(Some(_)))), "{outcome:?}");
    });
    assert_eq!(told, 100);
    let reads = bench.device.accounting().counts().read_ops - before;
    assert!((150..=230).contains(&reads), "{reads} reads of the device for 100 cold gets");
}

#[test]
fn the_budget_knows_of_the_buffers_of_what_is_pending() {
    // Nothing is compacted and no index grows, so that nothing else takes or gives memory.
    let options = Options { single_log: true, index_bits: Some(12), ..tiny() };
    let bench = Bench::open(Options { read_cache_bytes: Some(0), ..options });
    for number in 0..2 * KEYS {
        bench.put(&key(number), &value(number, 0, 8));
    }
    bench.store.shared.charge_own_memory();
    let before = bench.memory.used();
    let mut session = bench.session(50);
    let mut into = Vec::new();
    let mut numbers = 0..KEYS;
    while !session.is_full() {
        let number = numbers.next().expect("most keys are on disk");
        session.get(&key(number), &mut into).expect("the get begins");
    }
    let pending = bench.memory.used() - before;
    assert!((50 * 4096..50 * 16_384).contains(&pending), "{pending} bytes for 50 gets");
    drop(session);
    assert_eq!(bench.memory.used(), before);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let pool = ReadPool::new(&bench.memory);
    let most = Cell::new(0);
    let mut found = |_, _: Option<&[u8]>| most.set(most.get().max(bench.memory.used() - before));
    pool.multi_get(&bench.store, &borrowed, At::Newest, &mut found).expect("nothing is damaged");
    assert!(most.get() >= 4096, "{} bytes for many gets", most.get());
    let kept = bench.memory.used() - before;
    assert!(kept <= bench.memory.limit() / 256, "{kept} bytes are kept for the next time");
    drop(pool);
    assert_eq!(bench.memory.used(), before);
}

#[test]
fn long_values_are_read_a_few_at_a_time() {
    const LONG: usize = 100_000;
    let bench = Bench::open(Options {
        single_log: true,
        log_memory_bytes: Some(8 << 18),
        page_bytes: Some(1 << 18),
        segment_bytes: 4 << 20,
        read_cache_bytes: Some(0),
        index_bits: Some(12),
        ..tiny()
    });
    for number in 0..150 {
        bench.put(&key(number), &vec![number as u8; LONG]);
    }
    bench.store.shared.charge_own_memory();
    let before = bench.memory.used();
    let mut session = bench.session(128);
    let begun = (0..120)
        .filter(|number| matches!(session.get(&key(*number), &mut Vec::new()), Ok(Get::Pending(_))))
        .count();
    assert!(begun > 100, "{begun} of 120 values are on disk");
    let mut most = 0;
    let told = session.complete_pending(Until::All, &mut |_, outcome| {
        assert!(
            matches!(outcome, Ok(Completed::Value(Some(value))) if value.len() == LONG),
            "a value is not what it was"
        );
        most = most.max(bench.memory.used() - before);
    });
    assert_eq!(told, begun);
    assert!((2 << 20..6 << 20).contains(&most), "{most} bytes for reads of {begun} long values");
}

#[test]
fn a_full_session_takes_what_memory_answers_and_hands_the_rest_back() {
    let bench = cold_store(uncached());
    let _cold = hold_cold(&bench, 1..5);
    let mut session = bench.session(1);
    let mut into = Vec::new();
    assert!(matches!(session.get(&key(1), &mut into), Ok(Get::Pending(_))));
    assert!(matches!(session.get(&key(2), &mut into), Ok(Get::Full)));
    session.put(&key(3), b"hot").expect("a put is never pending");
    assert!(matches!(session.get(&key(3), &mut into), Ok(Get::Found)));
    session.delete(&key(3)).expect("nor is a delete");
    assert!(matches!(session.get(&key(3), &mut into), Ok(Get::Absent)));
    let set = |_: Option<&[u8]>| Change::Put(b"set".to_vec());
    assert!(matches!(session.rmw(&key(3), Box::new(set)), Ok(Update::Done)));
    let operator: Box<dyn Operator + Send> = Box::new(set);
    let Ok(Update::Full(mut operator)) = session.rmw(&key(4), operator) else {
        panic!("a read-modify-write of a cold key wants the disk");
    };
    assert_eq!(operator.update(None), Change::Put(b"set".to_vec()));
    let told = session.complete_pending(Until::One, &mut |_, outcome| {
        assert_eq!(outcome, Ok(Completed::Value(Some(&value(1, 0, 8)))));
    });
    assert_eq!(told, 1);
    assert_eq!(bench.get(&key(4)), Some(value(4, 0, 8)), "nothing was begun");
}

#[test]
fn a_pending_rmw_begins_again_behind_a_write_that_came_first() {
    let bench = Bench::open(uncached());
    for number in 0..KEYS {
        bench.rmw(&key(number), &mut Add);
    }
    push_out(&bench);
    let mut session = bench.session(128);
    let cold = hold_cold(&bench, 0..40);
    for number in 0..40 {
        let began = session.rmw(&key(number), Box::new(Add)).expect("it begins");
        assert!(matches!(began, Update::Pending(_)), "{began:?}");
    }
    drop(cold);
    for number in 0..40 {
        match number % 4 {
            0 => bench.put(&key(number), &10u64.to_le_bytes()),
            1 => bench.delete(&key(number)),
            2 => bench.rmw(&key(number), &mut Add),
            _ => {}
        }
    }
    let told = session.complete_pending(Until::All, &mut |_, outcome| {
        assert_eq!(outcome, Ok(Completed::Updated));
    });
    assert_eq!(told, 40);
    for number in 0..40 {
        let expected = [11, 1, 3, 2][number as usize % 4];
        assert_eq!(count(bench.get(&key(number))), expected, "{number}");
    }
}

/// A get, or a change of the value if there is one, that has to wait for the disk.
fn begin_pending(session: &mut Session<'_>, number: u64, changes: bool) {
    if changes {
        let change = |old: Option<&[u8]>| match old {
            Some(_) => Change::Put(b"changed".to_vec()),
            None => Change::Keep,
        };
        let began = session.rmw(&key(number), Box::new(change));
        assert!(matches!(began, Ok(Update::Pending(_))), "{began:?}");
    } else {
        let got = session.get(&key(number), &mut Vec::new());
        assert!(matches!(got, Ok(Get::Pending(_))), "{got:?}");
    }
}

/// The schedule of the paper's figure on false absence: the record is copied to the tail, and the
/// log truncated, behind a lookup that has begun.
#[test]
fn a_pending_lookup_finds_a_record_that_was_copied() {
    let options = Options { single_log: true, disk_bytes_max: Some(160 << 10), ..tiny() };
    let bench = Bench::open(Options { read_cache_bytes: Some(0), ..options });
    let shared = &bench.store.shared;
    let (older, newer) = two_of_a_chain(&bench);
    for changes in [false, true] {
        let held = hold_compactions(&bench);
        bench.put(&key(older), b"found");
        bench.put(&key(newer), b"another");
        let tail = bench.figure("log_tail");
        fill(&bench, &|| shared.hot.log.head().get() > tail);
        let mut session = bench.session(128);
        begin_pending(&mut session, older, changes);
        drop(held);
        fill(&bench, &|| shared.hot.log.begin().get() > tail);
        let told = session.complete_pending(Until::All, &mut |_, outcome| match changes {
            false => assert_eq!(outcome, Ok(Completed::Value(Some(b"found")))),
            true => assert_eq!(outcome, Ok(Completed::Updated)),
        });
        assert_eq!(told, 1);
    }
    assert_eq!(bench.get(&key(older)).as_deref(), Some(&b"changed"[..]));
}

#[test]
fn what_a_session_writes_after_the_store_was_opened_again_is_there() {
    let bench = Bench::open(tiny());
    for number in 0..50 {
        bench.put(&key(number), b"before");
    }
    // Its host begins to count from the beginning.
    let bench = bench.reopen(tiny());
    let mut session = bench.session(128);
    session.put(&key(1), b"after").expect("puts");
    session.delete(&key(2)).expect("deletes");
    assert_eq!(bench.get(&key(1)).as_deref(), Some(&b"after"[..]));
    assert_eq!(bench.get(&key(2)), None);
}

/// False absence while a lookup waits for a chunk: a record that the chunk names moves in the cold
/// log before the lookup reads it.
#[test]
fn d5_a_pending_lookup_finds_a_record_that_moved_in_the_cold_log() {
    const PENDING: u64 = 12;
    let bench = Bench::open(uncached());
    for number in 0..PENDING {
        bench.put(&key(number), b"found");
    }
    push_out(&bench);
    // A session for each lookup: beginning another one would complete a step of the first.
    let begin = |number| {
        let _held = hold_chunk_on_disk(&bench, number);
        let mut session = bench.session(128);
        begin_pending(&mut session, number, number % 2 == 1);
        session
    };
    let sessions: Vec<Session<'_>> = (0..PENDING).map(begin).collect();
    let tail = bench.figure("cold_log_tail");
    while bench.figure("cold_log_begin") <= tail {
        push_out(&bench);
    }
    let (mut found, mut updated) = (0, 0);
    for mut session in sessions {
        let told = session.complete_pending(Until::All, &mut |_, outcome| match outcome {
            Ok(Completed::Value(Some(b"found"))) => found += 1,
            Ok(Completed::Updated) => updated += 1,
            other => panic!("{other:?}"),
        });
        assert_eq!(told, 1);
    }
    assert_eq!((found, updated), (PENDING / 2, PENDING / 2));
    for number in 0..PENDING {
        let expected = if number % 2 == 1 { &b"changed"[..] } else { b"found" };
        assert_eq!(bench.get(&key(number)).as_deref(), Some(expected), "{number}");
    }
}

/// A lookup misses no record that was linked behind it, if the log is truncated meanwhile. With two
/// logs the older record is not the newest any more, so no thread copies it. The newer one is above
/// the part that the lookup has searched.
#[test]
fn a_pending_lookup_does_not_miss_a_newer_record() {
    let bench = Bench::open(uncached());
    let shared = &bench.store.shared;
    let (older, newer) = two_of_a_chain(&bench);
    for changes in [false, true] {
        let held = hold_compactions(&bench);
        bench.put(&key(older), b"old");
        bench.put(&key(newer), b"another");
        let tail = bench.figure("log_tail");
        fill(&bench, &|| shared.hot.log.head().get() > tail);
        let mut session = bench.session(128);
        begin_pending(&mut session, older, changes);
        drop(held);
        bench.put(&key(older), b"new");
        fill(&bench, &|| shared.hot.log.begin().get() > tail);
        let told = session.complete_pending(Until::All, &mut |_, outcome| match changes {
            false => assert!(
                [b"old", b"new"].map(|value| Ok(Completed::Value(Some(value)))).contains(&outcome),
                "{outcome:?}"
            ),
            true => assert_eq!(outcome, Ok(Completed::Updated)),
        });
        assert_eq!(told, 1);
    }
    assert_eq!(bench.get(&key(older)).as_deref(), Some(&b"changed"[..]));
}

#[test]
fn a_panic_of_who_is_told_leaves_nothing_behind_that_never_ends() {
    let bench = Bench::open(uncached());
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 4));
    }
    push_out(&bench);
    let mut session = bench.session(128);
    let _cold = hold_cold(&bench, 0..20);
    for number in 0..20 {
        let got = session.get(&key(number), &mut Vec::new()).expect("it begins");
        assert!(matches!(got, Get::Pending(_)), "{got:?}");
    }
    let mut told = 0;
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.complete_pending(Until::All, &mut |_, _| {
            told += 1;
            assert_ne!(told, 3, "as it was planted");
        })
    }));
    assert!(panicked.is_err());
    let rest = session.complete_pending(Until::All, &mut |_, _| {});
    assert_eq!(rest, 17, "of 20, three were told");
    assert_eq!(session.pending(), 0);
}

#[test]
fn a_dropped_session_gives_up_what_is_pending() {
    let bench = Bench::open(uncached());
    for number in 0..KEYS {
        bench.rmw(&key(number), &mut Add);
    }
    push_out(&bench);
    let alive = Arc::new(());
    let mut updated = 0;
    for round in 0..10 {
        let mut session = bench.session(128);
        let mut into = Vec::new();
        for number in 50 * round..50 * (round + 1) {
            let held = Arc::clone(&alive);
            let add = move |old: Option<&[u8]>| {
                let _held = &held;
                Add.update(old)
            };
            // A record that compaction has just moved is in memory.
            let began = session.rmw(&key(number), Box::new(add)).expect("it begins");
            updated += u64::from(matches!(began, Update::Done));
            session.get(&key(500 + number % 200), &mut into).expect("it begins");
        }
        session.complete_pending(Until::Now, &mut |_, outcome| {
            updated += u64::from(outcome == Ok(Completed::Updated));
        });
        assert!(session.pending() > 0, "some are still pending");
        drop(session);
        assert_eq!(Arc::strong_count(&alive), 1, "the operators are gone");
    }
    let sum: u64 = (0..KEYS).map(|number| count(bench.get(&key(number)))).sum();
    assert_eq!(sum, KEYS + updated, "what was given up has changed nothing");
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
}

#[test]
fn a_failed_read_is_told_of_its_ticket_alone() {
    let device = FaultDevice::new(device::memory());
    let bench = Bench::open_on(Arc::clone(&device) as Arc<dyn device::Device>, uncached());
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
    }
    push_out(&bench);
    bench.store.flush().expect("flushes");
    let mut failed = 0;
    for nth in [1, 2, 7, 20, 50] {
        let mut session = bench.session(128);
        let mut into = Vec::new();
        let _cold = hold_cold(&bench, 0..50);
        let reads = device.count(Some(OperationKind::Read));
        device.fail(Fault {
            kind: Some(OperationKind::Read),
            nth: reads + nth,
            failure: Failure::Io,
            lasting: Lasting::Once,
        });
        let begun = (0..50)
            .filter(|number| {
                let got = session.get(&key(*number), &mut into).expect("the get begins");
                matches!(got, Get::Pending(_))
            })
            .count();
        let (mut errors, mut values) = (0, 0);
        let told = session.complete_pending(Until::All, &mut |_, outcome| match outcome {
            Err(Error::Device(_)) => errors += 1,
            Ok(Completed::Value(Some(_))) => values += 1,
            other => panic!("{other:?}"),
        });
        assert_eq!(told, begun);
        assert_eq!(errors + values, begun);
        assert!(errors <= 1, "a compaction may have met the failure instead");
        failed += errors;
        device.heal();
    }
    assert!(failed >= 3, "{failed} failures were told");
    bench.put(&key(0), b"writes go on");
}

#[test]
fn a_closed_store_tells_its_sessions_so() {
    let bench = cold_store(uncached());
    let mut session = bench.session(128);
    let mut into = Vec::new();
    let cold = hold_cold(&bench, 1..2);
    assert!(matches!(session.get(&key(1), &mut into), Ok(Get::Pending(_))));
    drop(cold);
    bench.store.close().expect("closes");
    let told = session.complete_pending(Until::All, &mut |_, outcome| {
        assert_eq!(outcome, Err(Error::Closed), "wherever the rest of the way lies");
    });
    assert_eq!(told, 1);
    assert_eq!(session.get(&key(1), &mut into), Err(Error::Closed));
    assert_eq!(session.put(&key(1), b""), Err(Error::Closed));
    assert!(matches!(session.rmw(&key(1), Box::new(Add)), Err(Error::Closed)));
}

/// They take room in the hot index and the hot log, as puts do, also if the old value is cold.
#[test]
fn a_read_modify_write_is_refused_where_a_put_is() {
    let bench = Bench::open_by_hand(device::memory(), tiny(), 7);
    bench.put(b"there", &1_u64.to_le_bytes());
    let mut session = bench.session(128);
    let mut rmw = || session.rmw(b"there", Box::new(Add)).map(drop);
    rmw().expect("nothing is behind");
    bench.store.shared.admission.set(Level::OutOfMemory, false);
    assert!(matches!(rmw(), Err(Error::OutOfMemory { .. })));
    drop(session);
    let (store, _pool) = bench.into_parts();
    let typed: Typed<u64, u64> = Typed::over(store);
    let refused = typed.update(1, 0, |number| *number += 1);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
}
