//! The promises of a flush, also after a flush that failed half way.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use device::{Device, Failure, Fault, FaultDevice, Lasting, Mode, OperationKind};
use engine::{Barrier, BlockingWrites, Demand, Engine, Error, Result, SeqNo, Superblock, Wait};
use reads::BlockingReads;

use super::stores::{Add, Bench, key, tiny, value};
use super::two_logs::{KEYS, cold_store, push_out, small_cold};
use crate::Options;
use crate::checkpoint::SUPERBLOCK;

/// A journal that cannot be reached once its flag is set.
#[derive(Default)]
struct Refusing(AtomicBool);

impl Barrier for Refusing {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        match self.0.load(Relaxed) {
            true => Err(Error::of_journal(Error::Closed)),
            false => Ok(seqno),
        }
    }
}

#[test]
fn a_flush_after_one_that_the_journal_refused_makes_everything_durable() {
    let barrier = Arc::new(Refusing::default());
    let bench = Bench::open_with(device::memory(), tiny(), Arc::clone(&barrier) as _);
    bench.put(&key(1), &value(1, 1, 4));
    bench.store.flush().expect("flushes");
    bench.put(&key(2), &value(2, 1, 4));
    barrier.0.store(true, Relaxed);
    assert!(matches!(bench.store.flush(), Err(Error::Journal { .. })));
    barrier.0.store(false, Relaxed);
    // Nothing is appended in between: the log is written, but nothing names its new end yet.
    let bench = bench.reopen(tiny());
    assert_eq!(bench.get(&key(1)), Some(value(1, 1, 4)));
    assert_eq!(bench.get(&key(2)), Some(value(2, 1, 4)));
}

/// The write may wait for a page that the thread that makes the checkpoint has to flush.
#[test]
fn a_flush_waits_for_no_write_that_is_under_way() {
    let bench = Bench::open(tiny());
    bench.put(&key(1), &value(1, 1, 4));
    let before = bench.sequence.visible();
    let waiting = bench.sequence.begin();
    bench.put(&key(2), &value(2, 1, 4));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(tell.send(bench.store.flush())));
        let flushed = told.recv_timeout(std::time::Duration::from_secs(20));
        drop(waiting);
        assert_eq!(flushed, Ok(Ok(())));
    });
    assert_eq!(bench.store.persisted(), before, "the write that waits is not in it");
    let device = Arc::clone(&bench.device);
    drop(bench);
    let bench = Bench::open_on(device, tiny());
    assert_eq!(bench.get(&key(2)), Some(value(2, 1, 4)), "what was applied before is durable");
}

#[test]
fn a_store_that_nothing_was_written_to_writes_nothing_when_flushed() {
    let bench = Bench::open(tiny());
    bench.put(&key(1), &value(1, 1, 4));
    let bench = bench.reopen(tiny()).reopen(tiny());
    let before = bench.figure("log_tail");
    bench.store.flush().expect("flushes");
    let bench = bench.reopen(tiny());
    assert_eq!(bench.figure("log_tail"), before);
    assert_eq!(bench.get(&key(1)), Some(value(1, 1, 4)));
}

#[test]
fn an_index_that_is_rebuilt_grows() {
    const KEYS: u64 = 2_000;
    let bench = Bench::open(tiny());
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 2));
    }
    let bench = bench.reopen(tiny());
    assert!(bench.figure("index_buckets") * 7 >= KEYS / 4, "{}", bench.figure("index_buckets"));
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 2)));
    }
}

#[test]
fn a_record_that_is_too_long_is_refused_by_name() {
    let bench = Bench::open(tiny());
    let put = engine::Op::Put { key: b"long", value: &[1; 5000] };
    let refused = bench.store.write(&[put], SeqNo::new(1));
    assert!(matches!(refused, Err(Error::RecordTooLong { engine: "f2", .. })), "{refused:?}");
    for wait in [Wait::No, Wait::Yes] {
        let update = Demand::Update { key: &[b'k'; 5000], bytes_max: 0 };
        for demand in [Demand::Ops(&[put]), update] {
            let refused = bench.store.reserve(&demand, wait).map(drop);
            let is_typed = matches!(refused, Err(Error::RecordTooLong { engine: "f2", .. }));
            assert!(is_typed, "{wait:?}: {refused:?} before it is journaled");
        }
        assert_eq!(bench.store.stats().reserved, 0, "{wait:?}");
    }
    let put = engine::Op::Put { key: b"long", value: &[1; 4000] };
    bench.store.write(&[put], SeqNo::new(2)).expect("as long as a page allows");
    assert_eq!(bench.get(b"long"), Some(vec![1; 4000]));
}

#[test]
fn keys_beyond_what_the_index_of_a_single_log_may_take_are_refused() {
    let limit = 256 << 10;
    let bench = Bench::open_within(limit, Options { single_log: true, ..tiny() });
    let mut refused = None;
    for number in 0..100_000 {
        let put = engine::Op::Put { key: &key(number), value: b"v" };
        if let Err(error) = bench.store.write_next(&[put], &bench.sequence) {
            refused = Some((number, error));
            break;
        }
        if number % 500 == 0 {
            environment::Environment::real().sleep(std::time::Duration::from_millis(25));
        }
    }
    let (number, error) = refused.expect("a quarter of the budget is soon used up");
    assert_eq!(error, Error::OutOfMemory { limit });
    assert!(number > 1000, "only {number} keys were taken");
    let delete = engine::Op::Delete { key: &key(0) };
    bench
        .store
        .reserve(&Demand::Ops(&[delete]), Wait::Yes)
        .map(drop)
        .expect("deleting is always allowed");
    let count = |rmw_of: u64| bench.store.rmw(&key(rmw_of), &mut Add, SeqNo::new(1 << 40));
    assert_eq!(count(number + 1), Err(Error::OutOfMemory { limit }), "a key that would be new");
    assert_eq!(bench.get(&key(1)), Some(b"v".to_vec()));
}

/// The state that the superblock names after a commit that failed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Survivor {
    Old,
    New,
}

/// Opens a store again after a flush whose `nth` sync failed. Returns whether this sync was the
/// commit's, or `None` if the flush has fewer syncs.
fn reopen_after_failed_sync(nth: u64, lasting: Lasting, survivor: Survivor) -> Option<bool> {
    const OLD: u64 = 100;
    const ALL: u64 = 400;
    let faulty = FaultDevice::new(device::memory());
    let device = Arc::clone(&faulty) as Arc<dyn Device>;
    let bench = Bench::open_by_hand(Arc::clone(&device), tiny(), 7);
    let put =
        |keys: Range<u64>| keys.for_each(|number| bench.put(&key(number), &value(number, 0, 8)));
    put(0..OLD);
    bench.store.flush().expect("flushes");
    let superblock = device.open(SUPERBLOCK, Mode::Write).expect("opens");
    let mut old = vec![0; Superblock::FILE_BYTES as usize];
    superblock.read_at(0, &mut old).expect("reads");
    put(OLD..ALL);
    let kind = Some(OperationKind::Sync);
    let nth = faulty.count(kind) + nth;
    faulty.fail(Fault { kind, nth, failure: Failure::Io, lasting });
    let error = bench.store.flush().err()?;
    let Error::Device(device::Error::Io { name, .. }) = &error else { panic!("{error}") };
    let is_commit = name == SUPERBLOCK;
    bench.store.close().expect("closes");
    faulty.heal();
    if survivor == Survivor::Old {
        superblock.write_at(0, &old).expect("writes");
    }
    let again = Bench::open_by_hand(device, tiny(), 8);
    let flushed = if is_commit && survivor == Survivor::New { ALL } else { OLD };
    for number in 0..flushed {
        assert_eq!(again.get(&key(number)), Some(value(number, 0, 8)), "{number} {error}");
    }
    assert_eq!(again.get(&key(flushed)), None);
    Some(is_commit)
}

/// It is unknown which state the superblock names then, so the segments of both must stay.
#[test]
fn a_close_after_a_failed_commit_keeps_the_segments_of_both_states() {
    for lasting in [Lasting::Once, Lasting::ForGood] {
        for survivor in [Survivor::Old, Survivor::New] {
            let reopen = |nth| reopen_after_failed_sync(nth, lasting, survivor);
            let commits: Vec<bool> = (1..).map_while(reopen).collect();
            assert!(commits.len() > 1, "new segments are synced before the commit");
            assert_eq!(commits.iter().filter(|is_commit| **is_commit).count(), 1);
        }
    }
}

/// Longer than any flush takes, however busy the machine is: only a flush that never ends reaches
/// it.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// A thread that writes a copy of the store delays neither a flush nor the removal of files that
/// the copy does not need. The copy has everything that was there when it began.
#[test]
fn a_copy_that_takes_long_holds_nobody_up() {
    let bench = &cold_store(small_cold());
    let target = FaultDevice::new(device::memory());
    let (has_begun, begun) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    target.interpose_anywhere(OperationKind::Write, move || {
        let _ = has_begun.send(());
        let _ = held.recv();
    });
    std::thread::scope(|scope| {
        let let_go = let_go;
        let into = Arc::clone(&target) as Arc<dyn Device>;
        let copying = scope.spawn(|| bench.store.checkpoint(into, &engine::go_on));
        begun.recv().expect("it comes to its first write");
        let first = |bench: &Bench| {
            let entries = bench.device.list("").expect("lists").into_iter();
            entries.map(|entry| entry.name).filter(|name| name.starts_with("log-")).min()
        };
        let before = first(bench);
        let (has_ended, ended) = mpsc::channel();
        scope.spawn(move || {
            for number in 0..KEYS {
                bench.put(&key(number), &value(number, 1, 8));
            }
            push_out(bench);
            let flushed = bench.store.flush();
            has_ended.send(flushed).expect("somebody waits");
        });
        let flushed = ended.recv_timeout(GIVEN_UP_AFTER);
        let after = first(bench);
        drop(let_go);
        copying.join().expect("no panic").expect("the copy is whole");
        flushed.expect("a flush waits for the copy").expect("flushes");
        assert_ne!(before, after, "what was compacted is removed meanwhile");
    });
    bench.store.close().expect("closes");
    let copy = Bench::open_on(target, small_cold());
    for number in 0..KEYS {
        assert_eq!(copy.get(&key(number)), Some(value(number, 0, 8)), "{number}");
    }
}

/// A journal that has every write.
struct Reaching;

impl Barrier for Reaching {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        Ok(seqno)
    }

    fn is_journaled(&self) -> bool {
        true
    }
}

/// The journal is replayed above the newest checkpoint. If records had been compacted since, there
/// would be another copy of them then.
#[test]
fn no_record_behind_a_checkpoint_is_compacted_before_the_next_one() {
    let bench = Bench::open_by_hand_behind(Arc::new(Reaching), device::memory(), small_cold(), 3);
    let mut compacted = 0;
    for number in 0..KEYS {
        bench.put(&key(number), &[number as u8; 1000]);
        bench.advance();
        let committed = bench.store.shared.checkpoints.checkpointer.lock().committed_if_known();
        let [hot, ..] = committed.expect("no commit has failed").spans();
        let log = &bench.store.shared.hot.log;
        assert_eq!(log.gaps.bytes_between(hot.end, log.begin()), 0, "after {number}");
        compacted = bench.figure("compacted_bytes");
    }
    assert!(compacted > 0, "nothing was compacted");
    assert!(bench.store.persisted() > SeqNo::ZERO, "no flush was asked for");
}
