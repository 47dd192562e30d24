//! Flushes, reopening, checkpoints, and the requests to the barrier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use codec::SeqNo;
use engine::{Barrier, BlockingWrites, Demand, Engine, Error, Op, Result, Wait};

use super::stores::{Bench, both, key};

#[test]
fn what_was_flushed_is_there_when_it_is_opened() {
    for options in both() {
        let mut bench = Bench::of(options);
        let mut expected = std::collections::BTreeMap::new();
        for round in 0..6_u64 {
            for number in 0..200 {
                let number = number * 31 % 257;
                if (number + round) % 4 == 0 {
                    bench.delete(&key(number));
                    expected.remove(&key(number));
                } else {
                    let value = format!("{round}-{number}").into_bytes();
                    bench.put(&key(number), &value);
                    expected.insert(key(number), value);
                }
            }
            bench.store.flush().expect("memory takes it");
            assert_eq!(bench.store.persisted(), bench.sequence.visible());
            if round % 2 == 1 {
                bench.crank.run_all();
            }
            bench = bench.reopen();
            assert_eq!(bench.pairs(), expected.clone().into_iter().collect::<Vec<_>>());
            let report = crate::check(&bench.device).expect("memory reads");
            assert_eq!((report.damage, report.leftover), (Vec::new(), Vec::new()));
        }
    }
}

#[test]
fn an_idle_flush_moves_persisted_and_writes_no_table() {
    let bench = Bench::new();
    bench.put(b"a", b"1");
    bench.store.flush().expect("memory takes it");
    drop(bench.sequence.begin());
    drop(bench.sequence.begin());
    bench.store.flush().expect("memory takes it");
    assert_eq!(bench.store.persisted(), SeqNo::new(3));
    assert_eq!(bench.detail("flushes"), 1);
    assert_eq!(bench.reopen().store.persisted(), SeqNo::new(3));
}

#[test]
fn a_table_that_no_manifest_names_goes_when_it_is_opened() {
    let bench = Bench::new();
    bench.put(b"a", b"1");
    bench.store.flush().expect("memory takes it");
    bench.store.close().expect("closes");
    let orphan = bench.device.open("table-77", device::Mode::CreateNew).expect("memory takes it");
    orphan.write_at(0, b"half a table").expect("memory takes it");
    drop(orphan);
    assert_eq!(crate::check(&bench.device).expect("memory reads").leftover, [77]);
    let bench = Bench::on(bench.0.device).expect("opens");
    assert!(!bench.device.exists("table-77").expect("memory looks"));
    bench.put(b"b", b"2");
    bench.store.flush().expect("memory takes it");
    assert!(bench.device.exists("table-78").expect("memory looks"), "its number is not used again");
}

#[test]
fn a_checkpoint_holds_memtables_and_tables() {
    let bench = Bench::new();
    for number in 0..300 {
        bench.put(&key(number), b"flushed");
    }
    bench.run_background();
    bench.delete(&key(7));
    bench.put(&key(8), b"in memory");
    let copy = device::memory();
    bench.store.checkpoint(Arc::clone(&copy), &engine::go_on).expect("memory takes it");
    let expected = bench.pairs();
    bench.put(&key(9), b"later");
    let again = bench.store.checkpoint(Arc::clone(&copy), &engine::go_on);
    assert!(matches!(again, Err(Error::Device(device::Error::AlreadyExists { .. }))), "{again:?}");
    assert!(crate::check(&copy).expect("memory reads").is_sound());
    let copy = Bench::on(copy).expect("a copy opens");
    assert_eq!(copy.pairs(), expected);
    assert_eq!(copy.store.persisted(), SeqNo::new(302));
}

/// A journal that goes up to some number and is asked up to another.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) goes_to: AtomicU64,
    pub(super) asked: AtomicU64,
    pub(super) fails: std::sync::atomic::AtomicBool,
}

impl Barrier for Journal {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        if self.fails.load(SeqCst) {
            return Err(Error::of_journal(Error::Closed));
        }
        self.asked.fetch_max(seqno.get(), SeqCst);
        Ok(seqno.min(SeqNo::new(self.goes_to.load(SeqCst))))
    }
    fn is_journaled(&self) -> bool {
        true
    }
}

#[test]
fn the_journal_is_asked_before_and_persisted_does_not_pass_it() {
    let journal = Arc::new(Journal::default());
    let bench = Bench::with(device::memory(), journal.clone(), 1 << 20).expect("opens");
    let seqno = bench.put(b"a", b"1");
    journal.goes_to.store(seqno.get(), SeqCst);
    // A write that has a number and is in no journal. While it is under way, only the flush of the
    // memtable asks the journal.
    let refused = bench.sequence.begin();
    bench.store.flush().expect("memory takes it");
    assert!(journal.asked.load(SeqCst) >= seqno.get(), "law L3");
    drop(refused);
    bench.store.flush().expect("memory takes it");
    assert_eq!(bench.store.persisted(), seqno, "the next number may be given out again");
}

#[test]
fn a_failing_journal_leaves_the_memtable_and_may_recover() {
    let journal = Arc::new(Journal::default());
    journal.goes_to.store(u64::MAX, SeqCst);
    let bench = Bench::with(device::memory(), journal.clone(), 1 << 20).expect("opens");
    bench.put(b"a", b"1");
    journal.fails.store(true, SeqCst);
    assert_eq!(bench.store.flush(), Err(Error::of_journal(Error::Closed)));
    assert_eq!(bench.get(b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(bench.store.persisted(), SeqNo::ZERO);
    let tables = || crate::check(&bench.device).expect("memory reads");
    assert_eq!((tables().tables, tables().leftover), (0, Vec::new()));
    journal.fails.store(false, SeqCst);
    bench.put(b"b", b"2");
    bench.store.flush().expect("the journal is well again");
    assert_eq!(bench.store.persisted(), SeqNo::new(2));
    assert_eq!(tables().entries, 2);
}

/// The cause of a failed flush may have passed long before: a write that was journaled is not
/// refused for it.
#[test]
fn a_failure_that_has_passed_is_told_to_nobody() {
    let journal = Arc::new(Journal::default());
    journal.goes_to.store(u64::MAX, SeqCst);
    let bench = Bench::with(device::memory(), journal.clone(), 1 << 20).expect("opens");
    journal.fails.store(true, SeqCst);
    let shared = &bench.store.shared;
    bench.put(b"a", b"1");
    let full = shared.state.load_full();
    shared.seal(&full.actives);
    drop(full);
    bench.crank.run_all();
    // It fails as long as the journal does, and a write that was journaled is taken nevertheless.
    let value = vec![1; 2 * shared.memory_split().memtables_bytes as usize];
    for seqno in 2..5 {
        let op = [Op::Put { key: b"k", value: &value }];
        bench.store.replay(&op, SeqNo::new(seqno)).expect("it was journaled");
    }
    bench.crank.run_all();
    journal.fails.store(false, SeqCst);
    bench.store.flush().expect("the journal is well again");
    bench.crank.run_all();
    for number in 0..500 {
        bench.put(&key(number), &[7; 100]);
    }
}

/// A write after a failure makes the store try the flush again, and does not report a failure that
/// has passed.
#[test]
fn a_failure_from_before_a_write_refuses_it_not() {
    let journal = Arc::new(Journal::default());
    journal.goes_to.store(u64::MAX, SeqCst);
    let bench = Bench::with(device::memory(), journal.clone(), 1 << 20).expect("opens");
    let shared = &bench.store.shared;
    journal.fails.store(true, SeqCst);
    bench.put(b"a", b"1");
    let full = shared.state.load_full();
    shared.seal(&full.actives);
    drop(full);
    bench.crank.run_all();
    let value = vec![1; shared.memory_split().memtables_bytes as usize];
    let op = [Op::Put { key: b"k", value: &value }];
    // As long as it fails each write reports it, not only the first one.
    for _ in 0..2 {
        assert_eq!(
            bench.store.reserve(&Demand::Ops(&op), Wait::Yes).map(drop),
            Err(Error::of_journal(Error::Closed))
        );
    }
    journal.fails.store(false, SeqCst);
    assert_eq!(bench.store.reserve(&Demand::Ops(&op), Wait::Yes).map(drop), Ok(()));
    assert_eq!(bench.detail("flushes"), 1);
}

#[test]
fn a_failed_write_stops_writes_and_reads_go_on() {
    use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
    let faulty = FaultDevice::new(device::memory());
    let bench = Bench::on(faulty.clone()).expect("opens");
    bench.put(b"a", b"1");
    let nth = faulty.count(Some(OperationKind::Write)) + 1;
    let kind = Some(OperationKind::Write);
    faulty.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::Once });
    assert!(matches!(bench.store.flush(), Err(Error::Device(_))));
    let ops = [Op::Put { key: b"b", value: b"2" }];
    assert!(matches!(bench.store.write(&ops, SeqNo::new(9)), Err(Error::ReadOnly { .. })));
    assert!(matches!(bench.store.flush(), Err(Error::ReadOnly { .. })));
    assert_eq!(bench.get(b"a").as_deref(), Some(&b"1"[..]));
}

/// A process that has no descriptor left may have some later: that is no reason to refuse writes.
#[test]
fn too_many_open_files_stop_nothing_for_good() {
    use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
    let faulty = FaultDevice::new(device::memory());
    let bench = Bench::on(faulty.clone()).expect("opens");
    for round in 0..2 {
        for number in 0..100 {
            bench.put(&key(number), &[round; 60]);
        }
        bench.store.flush().expect("memory takes it");
    }
    let kind = Some(OperationKind::Open);
    let fail = |later| {
        let nth = faulty.count(kind) + later;
        faulty.fail(Fault { kind, nth, failure: Failure::OutOfFiles, lasting: Lasting::Once });
    };
    // Each ends a compaction, which is tried again, and then a flush. A device of the system closes
    // files that can be spared first.
    (1..4).for_each(fail);
    bench.crank.run_all();
    bench.put(b"a", b"1");
    fail(1);
    assert!(matches!(bench.store.flush(), Err(Error::Device(_))));
    bench.put(b"b", b"2");
    // A table that is opened again may have found one of the other faults.
    let flushes = (0..4).map(|_| bench.store.flush()).collect::<Vec<_>>();
    assert_eq!(flushes.last(), Some(&Ok(())), "there are descriptors again");
    bench.run_background();
    assert_eq!(bench.detail("compactions_failed"), 0);
    assert!(bench.detail("compactions") > 0);
    assert_eq!(bench.pairs().len(), 102);
}

/// A compaction may have been merging while a flush's commit failed. Files that the superblock may
/// name must stay the same as in the manifest.
#[test]
fn nothing_is_committed_after_a_commit_that_failed() {
    use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
    use lsm_tree::version::Change;
    let device = device::memory();
    let faulty = FaultDevice::new(Arc::clone(&device));
    let bench = Bench::on(faulty.clone()).expect("opens");
    bench.put(b"a", b"1");
    bench.store.flush().expect("memory takes it");
    let shared = &bench.store.shared;
    let table = Arc::clone(&shared.state.load().version.level(0)[0]);
    let move_to = |level| Change {
        removed: vec![(0, table.summary().id.number)],
        added: vec![(level, Arc::clone(&table))],
    };
    let (kind, failure) = (Some(OperationKind::Sync), Failure::Io);
    // The superblock's sync, and the manifest's in the commit after that.
    for later in [2, 3] {
        let nth = faulty.count(kind) + later;
        faulty.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
    }
    let failed = shared.commit(move_to(1), &[], SeqNo::ZERO);
    assert!(matches!(failed, Err(Error::Device(_))), "{failed:?}");
    let writes = faulty.count(Some(OperationKind::Write));
    let refused = shared.commit(move_to(2), &[], SeqNo::ZERO);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    assert_eq!(faulty.count(Some(OperationKind::Write)), writes);
    drop(table);
    let again = Bench::on(device).expect("opens, as after a kill");
    assert_eq!(again.get(b"a").as_deref(), Some(&b"1"[..]));
}

/// A host numbers the writes of other stores too, and may have told the sequence of more than it
/// replays here.
#[test]
fn a_replay_persists_no_more_than_came() {
    let journal = Arc::new(Journal::default());
    journal.goes_to.store(u64::MAX, SeqCst);
    let bench = Bench::with(device::memory(), journal, 1 << 20).expect("opens");
    bench.sequence.recover_to(SeqNo::new(10_000));
    for seqno in 1..=500 {
        let ops = [Op::Put { key: &key(seqno), value: &[7; 100] }];
        bench.store.replay(&ops, SeqNo::new(seqno)).expect("a replay is taken");
        bench.crank.run_all();
        assert!(bench.store.persisted() <= SeqNo::new(seqno), "at write {seqno}");
    }
    assert!(bench.store.persisted() > SeqNo::new(300), "memtables were flushed");
}

/// Without a journal, numbers that are in tables are not given out again.
#[test]
fn numbers_above_persisted_are_not_used_again() {
    let bench = Bench::new();
    bench.put(b"a", b"1");
    let (first, second) = (bench.sequence.begin(), bench.sequence.begin());
    let op = [Op::Put { key: b"b", value: b"2" }];
    bench.store.write(&op, second.seqno()).expect("the write is taken");
    // Actions of another thread while the first of the two writes is not applied yet.
    let full = bench.store.shared.state.load_full();
    bench.store.shared.seal(&full.actives);
    bench.crank.run_all();
    assert!(bench.store.persisted() < first.seqno());
    let again = Bench::on(bench.device.clone());
    drop((first, second));
    let again = again.expect("opens, as after a kill");
    assert_eq!(again.sequence.last(), SeqNo::new(3));
    assert_eq!(again.get(b"b").as_deref(), Some(&b"2"[..]));
}

/// A write that comes a second time must not hide a later one of its key, which was flushed since.
#[test]
fn a_write_that_comes_again_after_a_flush_changes_nothing() {
    let bench = Bench::new();
    let first = bench.put(b"k", b"first");
    let second = bench.put(b"k", b"second");
    let full = bench.store.shared.state.load_full();
    bench.store.shared.seal(&full.actives);
    assert_eq!(bench.store.persisted(), SeqNo::ZERO);
    for seqno in [first, second] {
        bench.store.write(&[Op::Put { key: b"k", value: b"first" }], first).expect("taken");
        assert_eq!(bench.get(b"k").as_deref(), Some(&b"second"[..]), "after {seqno} again");
    }
}

/// If only compactions can help, and they fail for lack of descriptors, writers get that error and
/// do not try forever; no file that was written in vain is left.
#[test]
fn a_writer_is_told_why_nothing_is_compacted() {
    use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
    let faulty = FaultDevice::new(device::memory());
    let options = crate::Options { level0_tables_slow: 1, ..super::stores::small() };
    let bench = Bench::with_options(faulty.clone(), Arc::new(engine::NoJournal), 1 << 20, options);
    let bench = bench.expect("an empty device opens");
    for round in 0..4 {
        let ticket = bench.sequence.begin();
        let op = [Op::Put { key: b"k", value: &[round] }];
        bench.store.write(&op, ticket.seqno()).expect("the write is taken");
        drop(ticket);
        bench.store.flush().expect("memory takes it");
    }
    let tables = || bench.device.list("").expect("memory lists").len();
    let before = tables();
    let op = [Op::Put { key: b"k", value: b"new" }];
    let kind = Some(OperationKind::Open);
    // Each time one more file is opened, until a compaction has enough for its reads and writes.
    for opened in 0.. {
        let nth = faulty.count(kind) + 1 + opened;
        let fault = Fault { kind, nth, failure: Failure::OutOfFiles, lasting: Lasting::ForGood };
        faulty.fail(fault);
        let admitted = bench.store.reserve(&Demand::Ops(&op), Wait::Yes).map(drop);
        faulty.heal();
        if admitted.is_ok() {
            assert!(opened > 2, "{opened}");
            break;
        }
        assert!(matches!(admitted, Err(Error::Device(_))), "{admitted:?}");
        assert_eq!(tables(), before);
    }
    assert!(bench.detail("compactions") > 0);
    assert_eq!(bench.get(b"k").as_deref(), Some(&[3][..]));
}
