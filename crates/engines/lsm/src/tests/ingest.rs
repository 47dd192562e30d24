//! Ingestion: what is put in replaces what was there, at one number, whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use codec::SeqNo;
use conformance::{InFlight, LookupStart};
use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
use engine::{
    At, BlockingWrites, Demand, Direction, Engine, Error, Ingestion, KeyRange, Lookup, NoJournal,
    Op, Wait,
};
use reads::BlockingReads;

use super::durability::Journal;
use super::stores::{Bench, both, key, scan, small};
use crate::Options;
use conformance::Pairs;
use lsm_tree::table::{Compression, LocalTables};

/// Pushes pairs of these keys, all with this value.
fn push(bench: &Bench, numbers: impl Iterator<Item = u64>, value: &[u8]) -> Box<dyn Ingestion> {
    let mut ingestion = bench.store.ingestion().expect("the store is open");
    for number in numbers {
        ingestion.push(&key(number), value).expect("memory takes it");
    }
    ingestion
}

/// Commits as a host does that has nothing else under way.
fn commit(bench: &Bench, ingestion: Box<dyn Ingestion>) -> SeqNo {
    let ticket = bench.sequence.begin();
    ingestion.commit(ticket.seqno()).expect("memory takes it");
    ticket.seqno()
}

fn ingest(bench: &Bench, numbers: impl Iterator<Item = u64>, value: &[u8]) -> SeqNo {
    commit(bench, push(bench, numbers, value))
}

fn fill(bench: &Bench, numbers: impl Iterator<Item = u64>, value: &[u8]) {
    numbers.for_each(|number| {
        bench.put(&key(number), value);
    });
}

fn pairs(numbers: impl Iterator<Item = u64>, value: &[u8]) -> Pairs {
    numbers.map(|number| (key(number), value.to_vec())).collect()
}

fn tables(bench: &Bench) -> usize {
    LocalTables::on(Arc::clone(&bench.device)).list().expect("memory lists").len()
}

#[test]
fn what_is_ingested_replaces_what_is_in_memory_and_in_every_level() {
    for options in both() {
        let bench = Bench::of(options);
        fill(&bench, 0..900, b"in a level");
        bench.run_background();
        fill(&bench, (0..900).step_by(2), b"in level 0");
        bench.store.flush().expect("memory takes it");
        fill(&bench, (0..900).step_by(3), b"in memory");
        let (pin, before) = (bench.sequence.pin(), bench.pairs());
        let number = ingest(&bench, 100..700, b"new");
        assert_eq!(bench.store.persisted(), number);
        let mut expected: BTreeMap<_, _> = before.clone().into_iter().collect();
        expected.extend(pairs(100..700, b"new"));
        let mut is_reopened = false;
        let (mut bench, mut pin) = (bench, Some(pin));
        for _ in 0..3 {
            assert_eq!(bench.pairs(), expected.clone().into_iter().collect::<Vec<_>>());
            let mut backward = scan(&bench.view(), KeyRange::all(), Direction::Backward);
            backward.reverse();
            assert_eq!(backward, bench.pairs());
            for (key, value) in &expected {
                assert_eq!(bench.get(key).as_ref(), Some(value));
            }
            let keys: Vec<&[u8]> = expected.keys().map(Vec::as_slice).collect();
            let mut found = vec![None; keys.len()];
            let mut tell = |at: usize, value: Option<&[u8]>| found[at] = value.map(<[u8]>::to_vec);
            bench.store.multi_get(&keys, &mut tell).expect("nothing is damaged");
            assert!(found.into_iter().eq(expected.values().cloned().map(Some)));
            if let Some(pin) = &pin {
                let view = bench.store.view(Arc::clone(pin));
                assert_eq!(scan(&view, KeyRange::all(), Direction::Forward), before);
                let mut value = Vec::new();
                assert!(view.get(&key(300), &mut value).expect("the store is open"));
                assert_eq!(value, b"in memory");
            }
            bench.run_background();
            if is_reopened {
                pin = None;
                bench = bench.reopen();
            }
            is_reopened = true;
        }
        bench.store.close().expect("closes");
        let report = crate::check(&bench.device).expect("memory reads");
        assert_eq!((report.damage, report.leftover), (Vec::new(), Vec::new()));
    }
}

/// Later writes are above it, in memory and in tables, and after an opening.
#[test]
fn later_writes_replace_what_was_ingested() {
    for options in both() {
        let bench = Bench::of(options);
        fill(&bench, 0..50, b"old");
        ingest(&bench, 0..200, b"ingested");
        fill(&bench, (0..200).step_by(2), b"new");
        bench.delete(&key(1));
        bench.apply(&[Op::DeleteRange { start: &key(150), end: None }]);
        let new = |number: u64| if number.is_multiple_of(2) { "new" } else { "ingested" };
        let expected: Pairs = (0..150)
            .filter(|number| *number != 1)
            .map(|number| (key(number), new(number).as_bytes().to_vec()))
            .collect();
        assert_eq!(bench.pairs(), expected);
        bench.store.flush().expect("memory takes it");
        assert_eq!(bench.pairs(), expected);
        bench.run_background();
        assert_eq!(bench.pairs(), expected);
        let bench = bench.reopen();
        assert_eq!(bench.pairs(), expected);
        assert_eq!(bench.get(&key(3)).as_deref(), Some(&b"ingested"[..]));
        assert_eq!((bench.get(&key(1)), bench.get(&key(151))), (None, None));
    }
}

/// H2: the lookup index knows of the older version, and where it is.
#[test]
fn no_hint_leads_past_an_ingested_table() {
    let bench = Bench::new();
    fill(&bench, 0..20, b"old");
    assert_eq!(bench.get(&key(7)).as_deref(), Some(&b"old"[..]));
    assert!(bench.detail("led_to_memtables") > 0, "the index leads there");
    ingest(&bench, 0..20, b"new");
    assert_eq!(bench.detail("level0_tables"), 2, "both are there");
    assert_eq!(bench.get(&key(7)).as_deref(), Some(&b"new"[..]));
    bench.apply(&[Op::DeleteRange { start: &key(5), end: Some(&key(9)) }]);
    assert_eq!(bench.get(&key(7)), None);
    assert_eq!(bench.get(&key(10)).as_deref(), Some(&b"new"[..]));
}

/// A hint says that there is nothing newer than the entries that a range delete hides. That is
/// wrong for pairs that were ingested since, at whichever level compactions have put them.
#[test]
fn no_hint_hides_what_is_ingested_over_a_range_delete() {
    let bench = Bench::of(Options { range_deletes_max: 1000, ..small() });
    fill(&bench, 0..20, b"old");
    let view = bench.view();
    bench.apply(&[Op::DeleteRange { start: &key(5), end: Some(&key(9)) }]);
    assert_eq!(bench.get(&key(7)), None);
    ingest(&bench, 0..20, b"new");
    bench.run_background();
    assert_eq!((bench.detail("level0_tables"), bench.detail("range_deletes")), (0, 1));
    assert_eq!(bench.get(&key(7)).as_deref(), Some(&b"new"[..]));
    drop(view);
}

/// A range delete that was there before hides nothing of it, one that came later does.
#[test]
fn range_deletes_have_their_number_too() {
    let bench = Bench::new();
    fill(&bench, 0..100, b"old");
    bench.run_background();
    bench.apply(&[Op::DeleteRange { start: &key(20), end: Some(&key(80)) }]);
    ingest(&bench, 50..100, b"new");
    let expected = [pairs(0..20, b"old"), pairs(50..100, b"new")].concat();
    assert_eq!(bench.pairs(), expected);
    bench.run_background();
    let bench = bench.reopen();
    assert_eq!(bench.pairs(), expected);
    bench.apply(&[Op::DeleteRange { start: &key(10), end: Some(&key(60)) }]);
    let expected = [pairs(0..10, b"old"), pairs(60..100, b"new")].concat();
    assert_eq!(bench.pairs(), expected);
    bench.run_background();
    assert_eq!(bench.reopen().pairs(), expected);
}

/// Law L7.
#[test]
fn an_old_value_is_not_confirmed_over_an_ingestion() {
    for ingests in [false, true] {
        let bench = Bench::new();
        fill(&bench, 0..10, b"old");
        bench.run_background();
        let bench = bench.reopen();
        let mut reads = InFlight::new(&bench.store, 1, &bench.budget);
        assert_eq!(reads.begin(0, &key(5), At::ForUpdate), Ok(LookupStart::Pending));
        if ingests {
            ingest(&bench, 0..10, b"new");
        }
        reads.finish();
        assert_eq!(reads.ended[&0].is_newest, !ingests);
    }
}

/// Nor is a value whose lookup began in the middle of it, when the memtables were new already.
#[test]
fn an_old_value_is_not_confirmed_over_what_was_being_ingested() {
    let faulty = FaultDevice::new(device::memory());
    let bench = Bench::on(faulty.clone()).expect("opens");
    fill(&bench, 0..10, b"old");
    bench.run_background();
    bench.store.close().expect("closes");
    let bench = Bench::on(faulty.clone()).expect("opens again");
    let mut ingestion = push(&bench, 0..10, b"new");
    ingestion.finish().expect("memory takes it");
    let begun = Arc::new(std::sync::Mutex::new(None));
    let (shared, slot) = (Arc::clone(&bench.store.shared), Arc::clone(&begun));
    // The manifest's edit.
    faulty.interpose(OperationKind::Write, move || {
        let lookup = shared.lookup(&key(5), At::ForUpdate, &mut Vec::new());
        *slot.lock().expect("no test panics here") = Some(lookup.expect("it is open"));
    });
    commit(&bench, ingestion);
    let lookup = begun.lock().expect("no test panics here").take();
    let Some(Lookup::Pending(lookup)) = lookup else { panic!("{lookup:?}") };
    let mut value = Vec::new();
    let pool = reads::ReadPool::new(&bench.budget);
    let (is_found, lookup) = pool.complete_pending(lookup, &mut value).expect("it is read");
    assert!(is_found && !lookup.is_newest());
}

#[test]
fn tables_go_as_far_down_as_nothing_is_in_their_way() {
    let bench = Bench::of(Options { compression: vec![Compression::None], ..small() });
    let levels = || -> Vec<u64> {
        (0..5).map(|level| bench.detail(&format!("level{level}_tables"))).collect()
    };
    ingest(&bench, 100..200, &[1; 60]);
    assert_eq!(levels(), [0, 0, 2, 0, 0], "Level 1 has no room for all of them");
    ingest(&bench, 0..100, &[1; 60]);
    assert_eq!(levels(), [0, 0, 4, 0, 0]);
    ingest(&bench, 1000..1100, &[1; 60]);
    assert_eq!(levels(), [0, 0, 4, 2, 0], "nor has Level 2 for more");
    fill(&bench, 195..196, &[2; 60]);
    ingest(&bench, 190..300, &[3; 60]);
    assert_eq!(bench.detail("level0_tables"), 2, "what overlaps lies above, and no other");
    let expected = [pairs(0..190, &[1; 60]), pairs(190..300, &[3; 60])].concat();
    let expected = [expected, pairs(1000..1100, &[1; 60])].concat();
    assert_eq!(bench.pairs(), expected);
    bench.run_background();
    assert_eq!(bench.reopen().pairs(), expected);
}

#[test]
fn what_is_given_up_or_refused_leaves_nothing() {
    let bench = Bench::new();
    bench.put(b"k", b"1");
    let mut ingestion = push(&bench, 10..500, &[7; 60]);
    assert!(tables(&bench) > 0, "some are written already");
    let (behind, before) = (key(5), key(499));
    let refused = ingestion.push(&behind, b"");
    assert_eq!(refused, Err(Error::NotAscending { key: behind, before }));
    let twice = ingestion.push(&key(499), b"");
    assert!(twice.is_err_and(|error| error.is_refused()));
    let long = ingestion.push(&vec![b'z'; 70_000], b"");
    assert_eq!(long, Err(Error::KeyTooLong { bytes: 70_000 }));
    ingestion.push(&key(500), &[7; 60]).expect("nothing has changed");
    ingestion.finish().expect("memory takes it");
    drop(ingestion);
    assert_eq!(tables(&bench), 0);
    assert_eq!(bench.pairs(), [(b"k".to_vec(), b"1".to_vec())]);
    let seqno = commit(&bench, bench.store.ingestion().expect("the store is open"));
    assert!(bench.put(b"k", b"2") > seqno, "nothing at all can be ingested too");
}

/// Law L3, and that no replay puts an older write on top.
#[test]
fn the_journal_is_asked_before_and_persisted_reaches_the_number() {
    let journal = Arc::new(Journal::default());
    journal.goes_to.store(u64::MAX, SeqCst);
    let bench = Bench::with(device::memory(), journal.clone(), 1 << 20).expect("opens");
    let older = bench.put(&key(5), b"old");
    let ingestion = push(&bench, 0..10, b"new");
    journal.fails.store(true, SeqCst);
    let ticket = bench.sequence.begin();
    let refused = ingestion.commit(ticket.seqno());
    assert!(matches!(refused, Err(Error::Journal { .. })), "{refused:?}");
    drop(ticket);
    assert_eq!(bench.pairs(), [(key(5), b"old".to_vec())]);
    assert_eq!(tables(&bench), 0);
    journal.fails.store(false, SeqCst);
    let number = ingest(&bench, 0..10, b"new");
    assert_eq!(journal.asked.load(SeqCst), number.get());
    assert_eq!(bench.store.persisted(), number);
    bench.store.replay(&[Op::Put { key: &key(5), value: b"old" }], older).expect("a replay");
    assert_eq!(bench.pairs(), pairs(0..10, b"new"));
}

/// A device that is full for a while is no reason to stop: the files of an ingestion are its own.
#[test]
fn a_full_device_refuses_an_ingestion_and_nothing_else() {
    let faulty = FaultDevice::new(device::memory());
    let bench = Bench::on(faulty.clone()).expect("opens");
    let kind = Some(OperationKind::Write);
    for (failure, goes_on) in [(Failure::NoSpace, true), (Failure::Io, false)] {
        let mut ingestion = push(&bench, 0..10, b"new");
        let nth = faulty.count(kind) + 1;
        faulty.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
        assert!(ingestion.finish().is_err());
        assert!(ingestion.push(&key(11), b"").is_err(), "it has ended");
        drop(ingestion);
        assert_eq!(tables(&bench), 0);
        let taken = bench
            .store
            .reserve(&Demand::Ops(&[Op::Put { key: b"k", value: b"1" }]), Wait::Yes)
            .map(drop);
        assert_eq!(taken.is_ok(), goes_on, "{taken:?}");
    }
}

/// Another opening may have used the same numbers for its tables.
#[test]
fn nothing_is_written_or_removed_once_the_store_is_closed() {
    let bench = Bench::new();
    let mut ingestion = push(&bench, 0..1, b"new");
    bench.store.close().expect("closes");
    assert_eq!(ingestion.push(&key(1), b""), Err(Error::Closed));
    let again = Bench::on(Arc::clone(&bench.device)).expect("opens");
    fill(&again, 0..10, b"its own");
    again.store.flush().expect("memory takes it");
    let before = tables(&again);
    let ticket = bench.sequence.begin();
    assert_eq!(ingestion.commit(ticket.seqno()), Err(Error::Closed));
    assert_eq!(tables(&again), before);
    assert_eq!(again.pairs(), pairs(0..10, b"its own"));
}

/// Numbers of a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = codec::hash64(self.0, b"next");
        self.0 % end
    }
}

/// Writes, range deletes, ingestions and upkeep in any order, with pins, against a map.
#[test]
fn anything_beside_anything_is_as_in_a_map() {
    let first = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let cases = if first.is_some() { 1 } else { 60 };
    for seed in first.unwrap_or(1)..first.unwrap_or(1) + cases {
        println!(
            "to replay: THERMOCLINE_SEED={seed} cargo test -p thermocline-lsm --lib as_in_a_map"
        );
        let options = match seed % 3 {
            0 => small(),
            1 => Options { slots_max: 6, merging: true, ..small() },
            _ => Options { lookup_index_bytes_max: 0, level0_tables: 50, ..small() },
        };
        play(seed, options);
    }
}

fn play(seed: u64, options: Options) {
    let mut numbers = Numbers(seed);
    let open = |device| {
        let opened = Bench::with_options(device, Arc::new(NoJournal), 1 << 20, options.clone());
        opened.expect("nothing is damaged")
    };
    let mut bench = open(device::memory());
    let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut pins = Vec::new();
    for step in 0..120_u64 {
        let from = numbers.below(300);
        let count = 1 + numbers.below(40);
        let value = [&step.to_be_bytes()[..], &vec![7; numbers.below(90) as usize]].concat();
        match numbers.below(12) {
            0..=3 => {
                fill(&bench, from..from + count, &value);
                map.extend(pairs(from..from + count, &value));
            }
            4 => {
                bench.delete(&key(from));
                map.remove(&key(from));
            }
            5 => {
                bench.apply(&[Op::DeleteRange { start: &key(from), end: Some(&key(from + 9)) }]);
                (from..from + 9).for_each(|number| drop(map.remove(&key(number))));
            }
            6..=8 => {
                let every = 1 + numbers.below(9) as usize;
                ingest(&bench, (from..from + 3 * count).step_by(every), &value);
                map.extend(pairs((from..from + 3 * count).step_by(every), &value));
            }
            9 => drop(bench.crank.run_all()),
            10 => bench.store.flush().expect("memory takes it"),
            _ if numbers.below(3) > 0 => pins.push((bench.sequence.pin(), map.clone())),
            _ => {
                pins.clear();
                bench.store.flush().expect("memory takes it");
                bench.store.close().expect("closes");
                bench = open(Arc::clone(&bench.device));
            }
        }
        let read = key(numbers.below(300));
        assert_eq!(bench.get(&read), map.get(&read).cloned(), "seed {seed}, step {step}");
        if numbers.below(6) == 0 {
            pins.truncate(3);
            let now = (bench.sequence.pin(), map.clone());
            for (pin, expected) in pins.iter().chain([&now]) {
                let view = bench.store.view(Arc::clone(pin));
                let found = scan(&view, KeyRange::all(), Direction::Forward);
                assert!(found.into_iter().eq(expected.clone()), "seed {seed}, step {step}");
            }
        }
    }
    bench.store.flush().expect("memory takes it");
    pins.clear();
    bench.store.close().expect("closes");
    let report = crate::check(&bench.device).expect("memory reads");
    assert_eq!((report.damage, report.leftover), (Vec::new(), Vec::new()), "seed {seed}");
}

/// Tables that overlap can only be in Level 0, one above the other: they arrive no faster than they
/// are compacted.
#[test]
fn an_ingestion_waits_where_level_0_is_full() {
    let bench = Bench::of(Options { level0_tables_slow: 3, ..small() });
    for round in 0..20_u8 {
        let mut ingestion = push(&bench, 0..100, &[round; 30]);
        ingestion.finish().expect("compactions make room");
        commit(&bench, ingestion);
        assert!(bench.detail("level0_tables") <= 7, "{}", bench.detail("level0_tables"));
    }
    assert!(bench.detail("stalls") > 0);
    assert_eq!(bench.pairs(), pairs(0..100, &[19; 30]));
}
