//! Range deletes of a store: hidden entries, released space, and the state after a crash.

use std::ops::ControlFlow;
use std::sync::Arc;

use conformance::{InFlight, LookupStart};
use device::{Device, Faults, SimulatedDisk};
use engine::{
    At, BlockingWrites, Change, Demand, Direction, Engine, Error, KeyRange, Op, SeqNo, Wait,
};
use reads::BlockingReads;

use super::stores::{Bench, both, key, scan, small};
use crate::{Compression, Options};
use conformance::Pairs;
use lsm_tree::range_deletes::COUNT_MAX;

fn delete_range(bench: &Bench, start: u64, end: u64) -> SeqNo {
    bench.apply(&[Op::DeleteRange { start: &key(start), end: Some(&key(end)) }])
}

fn fill(bench: &Bench, keys: std::ops::Range<u64>, value: &[u8]) {
    for number in keys {
        bench.put(&key(number), value);
    }
}

/// Nothing is compressed, so that what is written makes many tables.
fn plain() -> Options {
    Options { compression: vec![Compression::None], ..small() }
}

fn pairs(keys: impl Iterator<Item = u64>, value: &[u8]) -> Pairs {
    keys.map(|number| (key(number), value.to_vec())).collect()
}

/// Any read of keys of the range finds none, whichever place has their versions: memtables, Level
/// 0, or below.
#[test]
fn nobody_finds_what_was_deleted() {
    for options in both() {
        for (persists, flushes) in [(false, false), (false, true), (true, false), (true, true)] {
            let bench = Bench::of(options.clone());
            fill(&bench, 0..400, b"old");
            if persists {
                bench.run_background();
            }
            fill(&bench, 350..450, b"new");
            let before = bench.view();
            delete_range(&bench, 100, 440);
            bench.put(&key(200), b"later");
            if flushes {
                bench.run_background();
            }
            let expected = |number: u64| match number {
                200 => Some(b"later".to_vec()),
                100..440 | 450.. => None,
                440..450 => Some(b"new".to_vec()),
                _ => Some(b"old".to_vec()),
            };
            let keys: Vec<_> = (0..460).map(key).collect();
            let all: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let found = |index: usize, value: Option<&[u8]>| {
                assert_eq!(value.map(<[u8]>::to_vec), expected(index as u64), "key {index}");
            };
            bench.store.multi_get(&all, &mut { found }).expect("nothing fails");
            for number in 0..460 {
                assert_eq!(bench.get(&key(number)), expected(number), "key {number}");
            }
            let wanted: Pairs =
                (0..460).filter_map(|number| Some((key(number), expected(number)?))).collect();
            assert_eq!(bench.pairs(), wanted);
            let mut backward = scan(&bench.view(), KeyRange::all(), Direction::Backward);
            backward.reverse();
            assert_eq!(backward, wanted);
            // A snapshot of before has all of it.
            assert_eq!(scan(&before, KeyRange::all(), Direction::Forward).len(), 450);
            let mut value = Vec::new();
            assert!(before.get(&key(300), &mut value).expect("nothing fails"));
            let mut walked = 0;
            let mut visit = |_: &[u8], _: &[u8]| {
                walked += 1;
                ControlFlow::Continue(())
            };
            bench.store.walk(None, &mut visit).expect("nothing fails");
            assert_eq!(walked, wanted.len());
        }
    }
}

#[test]
fn of_a_batch_the_later_step_stands() {
    let bench = Bench::new();
    fill(&bench, 0..10, b"old");
    let (a, b, c, end) = (key(3), key(5), key(7), key(9));
    for more in [0, 10] {
        let mut ops = vec![
            Op::Put { key: &a, value: b"goes" },
            Op::DeleteRange { start: &a, end: Some(&end) },
            Op::Put { key: &b, value: b"stays" },
            Op::DeleteRange { start: &c, end: Some(&end) },
        ];
        ops.extend((0..more).map(|_| Op::Put { key: &b, value: b"stays" }));
        bench.apply(&ops);
        let mut expected = pairs((0..3).chain([5, 9]), b"old");
        expected[3].1 = b"stays".to_vec();
        assert_eq!(bench.pairs(), expected);
        bench.run_background();
        assert_eq!(bench.pairs(), expected);
    }
}

#[test]
fn read_modify_writes_see_nothing_in_a_deleted_range() {
    let bench = Bench::new();
    fill(&bench, 0..10, b"old");
    bench.run_background();
    delete_range(&bench, 0, 10);
    let ticket = bench.sequence.begin();
    let mut seen = None;
    let mut operator = |value: Option<&[u8]>| {
        seen = Some(value.map(<[u8]>::to_vec));
        Change::Put(b"begun".to_vec())
    };
    bench.store.rmw(&key(5), &mut operator, ticket.seqno()).expect("the write is taken");
    drop(ticket);
    assert_eq!(seen, Some(None));
    assert_eq!(bench.pairs(), pairs(5..6, b"begun"));
}

/// Law L7: a value that was looked up is not the newest once its range was deleted, also if the
/// range delete is over already.
#[test]
fn an_old_value_is_not_confirmed_over_a_range_delete() {
    for (deletes, ends) in [(false, false), (true, false), (true, true)] {
        let bench = Bench::new();
        fill(&bench, 0..10, b"old");
        bench.run_background();
        let bench = bench.reopen();
        let mut reads = InFlight::new(&bench.store, 1, &bench.budget);
        assert_eq!(reads.begin(0, &key(5), At::ForUpdate), Ok(LookupStart::Pending));
        if deletes {
            delete_range(&bench, 0, 10);
        }
        if ends {
            bench.crank.run_all();
            assert_eq!((bench.detail("range_deletes"), bench.table_entries()), (0, 0));
        }
        reads.finish();
        assert_eq!(reads.ended[&0].is_newest, !deletes);
        let present =
            if deletes { LookupStart::Absent } else { LookupStart::Found(b"old".to_vec()) };
        assert_eq!(reads.begin(1, &key(5), At::Newest), Ok(present));
    }
}

/// Data that the next reads need is not built again.
#[test]
fn a_range_delete_leaves_the_partitions_as_they_are() {
    let bench = Bench::new();
    fill(&bench, 0..10, b"old");
    let partition = || {
        let state = bench.store.shared.state.load_full();
        Arc::clone(state.partition_of(&key(5)).expect("the store is open"))
    };
    let before = partition();
    delete_range(&bench, 0, 10);
    assert!(Arc::ptr_eq(&before, &partition()));
    bench.run_background();
    assert!(!Arc::ptr_eq(&before, &partition()));
}

/// Tables that are hidden whole are dropped without being read or written; the range delete ends
/// with the last entry that it hides.
#[test]
fn whole_tables_are_given_back_at_once() {
    let bench = Bench::of(plain());
    fill(&bench, 0..1000, &[7; 100]);
    bench.run_background();
    let compactions = bench.detail("compactions");
    let device = Arc::clone(&bench.device);
    let files = || device.list("").expect("memory lists").len();
    assert!(files() > 8, "many tables");
    delete_range(&bench, 0, 1000);
    bench.crank.run_all();
    assert_eq!(bench.table_entries(), 0);
    assert_eq!(bench.detail("compactions"), compactions, "nothing was merged");
    assert!(bench.detail("drops") > 0);
    assert_eq!(files(), 2, "the superblock and the manifest");
    assert_eq!(bench.pairs(), []);
    bench.run_background();
    assert_eq!(bench.detail("range_deletes"), 0);
    let bench = bench.reopen();
    assert_eq!((bench.pairs(), bench.detail("range_deletes")), (Pairs::new(), 0));
}

#[test]
fn what_a_snapshot_shows_is_given_back_when_it_is_gone() {
    let bench = Bench::of(plain());
    fill(&bench, 0..500, &[7; 100]);
    bench.run_background();
    let view = bench.view();
    delete_range(&bench, 0, 1000);
    bench.run_background();
    assert_eq!(scan(&view, KeyRange::all(), Direction::Backward).len(), 500);
    assert_eq!((bench.detail("drops"), bench.detail("range_deletes")), (0, 1));
    drop(view);
    bench.put(b"z", b"");
    bench.run_background();
    assert_eq!((bench.table_entries(), bench.detail("range_deletes")), (1, 0));
}

/// Compactions leave out hidden entries, and a range delete ends with them: at the bottom too,
/// where tables are rewritten for the sake of many.
#[test]
fn range_deletes_end_where_nothing_is_left() {
    for range_deletes_max in [0, 1000] {
        let bench = Bench::of(Options { range_deletes_max, ..plain() });
        fill(&bench, 0..1000, &[7; 100]);
        bench.run_background();
        for number in 0..100 {
            delete_range(&bench, 10 * number, 10 * number + 3);
        }
        bench.run_background();
        let left = bench.detail("range_deletes");
        if range_deletes_max == 0 {
            assert_eq!((left, bench.table_entries()), (0, 700));
        } else {
            assert_eq!((left, bench.table_entries()), (100, 1000), "nothing asks for their room");
            // They are applied by the way.
            fill(&bench, 0..1000, &[8; 100]);
            bench.run_background();
            assert!(bench.detail("range_deletes") < 100);
        }
        let kept = |number: &u64| range_deletes_max > 0 || number % 10 >= 3;
        let value = [if range_deletes_max == 0 { 7 } else { 8 }; 100];
        assert_eq!(bench.pairs(), pairs((0..1000).filter(kept), &value));
    }
}

/// A flush, and an opening, keep what is not in tables.
#[test]
fn flushed_range_deletes_are_there_when_it_is_opened() {
    for rounds in 1..4 {
        let mut bench = Bench::new();
        fill(&bench, 0..300, b"old");
        bench.run_background();
        for round in 0..rounds {
            delete_range(&bench, 50 * round, 50 * round + 20);
            bench.store.flush().expect("memory takes it");
            assert_eq!(bench.store.persisted(), bench.sequence.visible());
            bench = bench.reopen();
        }
        let kept = |number: &u64| *number >= 50 * rounds || number % 50 >= 20;
        assert_eq!(bench.pairs(), pairs((0..300).filter(kept), b"old"));
        let report = crate::check(&bench.device).expect("memory reads");
        assert!(report.is_sound(), "{report:?}");
        assert!(report.range_deletes > 0);
    }
}

/// Numbers that were given out are not given out again: a table that was swept up to one would seem
/// to have nothing that a new range delete of that number hides.
#[test]
fn no_number_of_a_range_delete_is_used_again() {
    let bench = Bench::new();
    fill(&bench, 0..50, b"old");
    bench.run_background();
    // Flushed, while an older write is not finished: it is above what is persisted.
    let open = bench.sequence.begin();
    let number = delete_range(&bench, 0, 50);
    bench.store.flush().expect("memory takes it");
    assert!(bench.store.persisted() < number);
    drop(open);
    let bench = bench.reopen();
    assert_eq!(bench.pairs(), []);
    assert!(bench.put(&key(0), b"new") > number);
    assert_eq!(bench.pairs(), pairs(0..1, b"new"));
}

#[test]
fn a_replay_applies_it_once() {
    let bench = Bench::new();
    fill(&bench, 0..20, b"old");
    let number = delete_range(&bench, 5, 15);
    let apply = || {
        let (start, end) = (key(5), key(15));
        bench.store.write(&[Op::DeleteRange { start: &start, end: Some(&end) }], number)
    };
    for _ in 0..3 {
        apply().expect("the store is open");
    }
    assert_eq!(bench.detail("range_deletes"), 1);
    assert_eq!(bench.pairs(), pairs((0..5).chain(15..20), b"old"));
}

/// Power cuts at every operation, without a journal: what was flushed is there, and a flushed range
/// delete hides what it hid.
#[test]
fn a_crash_never_brings_back_what_a_flushed_range_delete_hides() {
    for seed in 0..12 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let device: Arc<dyn Device> = disk.clone();
        disk.keep_history();
        let bench = Bench::on(device).expect("an empty disk opens");
        fill(&bench, 0..200, &[1; 40]);
        bench.run_background();
        delete_range(&bench, 20 + seed, 150);
        bench.store.flush().expect("the disk takes it");
        let durable = disk.history().last_operation();
        bench.crank.run_all();
        fill(&bench, 200..300, &[1; 40]);
        bench.run_background();
        bench.store.close().expect("closes");
        let history = disk.history();
        let mut replay = history.replay();
        for operation in durable..=history.last_operation() {
            replay.advance_to(operation);
            let image = replay.crash(seed ^ operation);
            let bench = Bench::on(image).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let found = bench.pairs();
            let wrong = |number: u64| found.iter().any(|(found, _)| *found == key(number));
            assert!(!(20 + seed..150).any(wrong), "seed {seed}, power cut at {operation}");
            assert!((0..20 + seed).chain(150..200).all(wrong), "seed {seed}, at {operation}");
        }
    }
}

/// A refused writer starts the work that removes the entries which keep the other range deletes, in
/// memtables too, though nothing else is written.
#[test]
fn too_many_are_refused_before_memory_is_full_of_them() {
    for options in both() {
        too_many_are_refused(&Bench::of(options));
    }
}

fn too_many_are_refused(bench: &Bench) {
    let long = vec![7; 1000];
    bench.put(&[6], b"stays");
    bench.put(&[8], b"goes");
    let (mut taken, mut refused) = (0, None);
    for number in 0..1000_u64 {
        let start = [long.as_slice(), &number.to_be_bytes()].concat();
        let op = [Op::DeleteRange { start: &start, end: None }];
        match bench.store.reserve(&Demand::Ops(&op), Wait::Yes).map(drop) {
            Ok(()) => {
                bench.apply(&op);
            }
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
        taken += 1;
    }
    assert_eq!(refused, Some(Error::OutOfMemory { limit: 1 << 20 }));
    assert!(taken > 10, "{taken}");
    bench.crank.run_all();
    assert_eq!(bench.detail("range_deletes"), 0);
    assert_eq!(bench.pairs(), [(vec![6], b"stays".to_vec())]);
    delete_range(bench, 0, 1);
}

/// A few range deletes may take all of their memory. The tables that they wait for are rewritten.
#[test]
fn long_ones_end_though_nothing_is_flushed() {
    let bench = Bench::of(plain());
    fill(&bench, 0..1000, &[7; 100]);
    bench.run_background();
    for number in 0..100 {
        let end = [key(10 * number + 2), vec![0; 1000]].concat();
        bench.apply(&[Op::DeleteRange { start: &key(10 * number), end: Some(&end) }]);
        bench.crank.run_all();
    }
    assert!(bench.detail("range_deletes") < 50);
    assert_eq!(bench.pairs(), pairs((0..1000).filter(|number| number % 10 >= 3), &[7; 100]));
}

/// However little memory each takes.
#[test]
fn no_more_are_taken_than_reads_can_bear() {
    let (device, limit) = (device::memory(), 1 << 30);
    let bench = Bench::with_options(device, Arc::new(engine::NoJournal), limit, small());
    let bench = bench.expect("an empty device opens");
    let keys: Vec<_> = (0..=COUNT_MAX as u64).map(key).collect();
    let ops = keys.windows(2).map(|two| Op::DeleteRange { start: &two[0], end: Some(&two[1]) });
    let ops: Vec<_> = ops.collect();
    let last = ops.len() - 1;
    assert_eq!(
        bench.store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop),
        Ok(()),
        "as many as there may be"
    );
    let one_more = [&ops[..], &ops[..1]].concat();
    assert_eq!(
        bench.store.reserve(&Demand::Ops(&one_more), Wait::Yes).map(drop),
        Err(Error::OutOfMemory { limit }),
        "in one write"
    );
    bench.apply(&ops[..last]);
    bench.apply(&ops[last..]);
    assert_eq!(
        bench.store.reserve(&Demand::Ops(&ops[..1]), Wait::Yes).map(drop),
        Err(Error::OutOfMemory { limit })
    );
    bench.crank.run_all();
    assert_eq!(bench.store.reserve(&Demand::Ops(&ops[..1]), Wait::Yes).map(drop), Ok(()));
}

/// As long as an older write is not finished, the store does not know that all range deletes up to
/// one are there. So no table counts as swept: rewriting it would not help, and would never end.
#[test]
fn no_table_is_rewritten_in_vain() {
    let bench = Bench::of(Options { range_deletes_max: 0, ..plain() });
    fill(&bench, 0..200, &[7; 100]);
    bench.run_background();
    let open = bench.sequence.begin();
    delete_range(&bench, 10, 15);
    bench.store.flush().expect("memory takes it");
    for _ in 0..100 {
        bench.crank.run_one();
    }
    assert_eq!((bench.detail("range_deletes"), bench.table_entries()), (1, 200));
    drop(open);
    bench.run_background();
    assert_eq!((bench.detail("range_deletes"), bench.table_entries()), (0, 195));
}

/// Ranges within each other, in one write: what they take is bounded before any is taken, and a
/// number that covers a key many times is kept once.
#[test]
fn a_write_of_many_ranges_takes_what_it_was_admitted_for() {
    let bench = Bench::of(plain());
    let limit = bench.budget.limit();
    let bounds: Vec<_> = (0..2000).map(|number| (key(number), key(10_000 - number))).collect();
    let ops: Vec<_> =
        bounds.iter().map(|(start, end)| Op::DeleteRange { start, end: Some(end) }).collect();
    assert_eq!(
        bench.store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop),
        Err(Error::OutOfMemory { limit })
    );
    let admitted = (1..ops.len()).rev().find(|count| {
        bench.store.reserve(&Demand::Ops(&ops[..*count]), Wait::Yes).map(drop).is_ok()
    });
    let admitted = admitted.expect("one is always admitted");
    assert!(admitted > 50, "{admitted}");
    let before = bench.budget.used();
    bench.apply(&ops[..admitted]);
    let took = bench.budget.used() - before;
    assert!(took <= limit / 16, "{admitted} ranges took {took} of {limit} bytes");
}
