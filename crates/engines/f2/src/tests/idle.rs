//! An idle store: its upkeep sleeps, and runs often again once it has work.

use std::sync::Arc;
use std::time::Duration;

use conformance::Journaled;
use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use engine::{Engine, ResizableMemory};

use super::stores::{Bench, key, tiny, value};
use super::two_logs::small_hot;
use crate::upkeep::INTERVAL;

/// Returns the number of upkeep tasks that run in ten seconds.
fn tasks_in_ten_seconds(bench: &Bench, mut meanwhile: impl FnMut(u64)) -> usize {
    let looks = (Duration::from_secs(10).as_millis() / INTERVAL.as_millis()) as u64;
    let run = |look| {
        meanwhile(look);
        bench.advance_by(INTERVAL)
    };
    (0..looks).map(run).sum()
}

#[test]
fn upkeep_of_an_idle_store_sleeps_until_it_has_something_to_do() {
    let bench = Bench::open_by_hand(device::memory(), tiny(), 1);
    bench.put(&key(1), &value(1, 0, 8));
    let busy = tasks_in_ten_seconds(&bench, |look| bench.put(&key(look), &value(look, 0, 8)));
    tasks_in_ten_seconds(&bench, |_| {});
    assert_eq!(tasks_in_ten_seconds(&bench, |_| {}), 0, "{busy} while there were writes");
    let again = tasks_in_ten_seconds(&bench, |look| bench.put(&key(look), &value(look, 0, 8)));
    assert!(again * 10 > busy * 9, "{again}, {busy} before");
}

#[test]
fn upkeep_is_woken_by_whatever_gives_it_something_to_do() {
    const LIMIT: u64 = 16 << 20;
    let options = crate::Options::default();
    let bench = Bench::open_by_hand_within(LIMIT, device::memory(), options, 1);
    bench.put(&key(1), &value(1, 0, 8));
    let wakes: [(&str, &dyn Fn()); 3] = [
        ("a write in place", &|| bench.put(&key(1), &value(1, 1, 8))),
        ("a flush", &|| bench.store.flush().expect("flushes")),
        ("another limit of the memory", &|| {
            assert_eq!(bench.store.resize(LIMIT / 4 * 3), Ok(LIMIT / 4 * 3));
        }),
    ];
    for (what, wake) in wakes {
        tasks_in_ten_seconds(&bench, |_| {});
        assert_eq!(tasks_in_ten_seconds(&bench, |_| {}), 0, "before {what}");
        wake();
        assert!(tasks_in_ten_seconds(&bench, |_| {}) > 0, "{what} wakes it");
    }
}

/// Lets ten seconds pass until a store does nothing any more: a pause after a failure is no longer
/// than that.
fn sleeps(bench: &Bench) -> bool {
    (0..10).any(|_| tasks_in_ten_seconds(bench, |_| {}) == 0)
}

/// Returns the number of segments of all logs that are before the logs' beginnings.
fn segments_to_give_back(bench: &Bench) -> u64 {
    let before = |log: &crate::hybrid_log::HybridLog| {
        let first = log.geometry.segment(log.begin());
        (0..first).filter(|number| log.segments.get(*number).is_some()).count() as u64
    };
    bench.store.shared.logs().into_iter().flatten().map(|log| before(log)).sum()
}

/// Opens a store again. Its superblock is not durable yet, and the writes that follow make it
/// compact.
fn opened_again() -> (Bench, Arc<FaultDevice>) {
    let open = |device: Arc<dyn Device>| {
        Bench::open_by_hand_behind(Arc::new(Journaled), device, small_hot(), 7)
    };
    let bench = open(device::memory());
    for number in 0..500 {
        bench.put(&key(number), &value(number, 0, 8));
        bench.advance_by(INTERVAL);
    }
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    let device = FaultDevice::new(Arc::clone(&bench.device));
    let bench = open(Arc::clone(&device) as Arc<dyn Device>);
    // The journal does the same.
    bench.sequence.recover_to(bench.store.persisted());
    (bench, device)
}

/// Writes until a compaction has moved a log's beginning.
fn write_until_compacted(bench: &Bench) {
    let before = bench.figure("compactions");
    let compacted = (0..5_000).find(|number| {
        bench.put(&key(*number), &value(*number, 1, 8));
        bench.advance_by(INTERVAL);
        bench.figure("compactions") > before + 1
    });
    assert!(compacted.is_some());
}

#[test]
fn upkeep_does_not_sleep_before_the_superblock_is_durable_for_a_compaction() {
    let (bench, device) = opened_again();
    // A new superblock is renamed to the name of the one that was found.
    let kind = Some(OperationKind::Rename);
    let nth = device.count(kind) + 1;
    let (failure, lasting) = (Failure::OutOfFiles, Lasting::ForGood);
    device.fail(Fault { kind, nth, failure, lasting });
    write_until_compacted(&bench);
    assert!(!sleeps(&bench), "a step is left to do");
    assert!(segments_to_give_back(&bench) > 0 && !bench.store.background_errors().is_empty());
    let failed = device.failed();
    tasks_in_ten_seconds(&bench, |_| {});
    let attempts = device.failed() - failed;
    assert!((1..=3).contains(&attempts), "{attempts} attempts: pauses grow to ten seconds");
    device.heal();
    assert!(sleeps(&bench));
    assert_eq!((segments_to_give_back(&bench), bench.store.background_errors()), (0, Vec::new()));
}

#[test]
fn upkeep_gives_space_back_once_a_flush_has_ended() {
    let (bench, _device) = opened_again();
    let flush = bench.store.shared.checkpoints.checkpointer.lock();
    write_until_compacted(&bench);
    assert!(!sleeps(&bench) && segments_to_give_back(&bench) > 0);
    drop(flush);
    assert!(sleeps(&bench));
    assert_eq!(segments_to_give_back(&bench), 0);
}

#[test]
fn upkeep_of_a_store_that_is_closed_or_has_failed_ends() {
    let (bench, device) = opened_again();
    let flush = bench.store.shared.checkpoints.checkpointer.lock();
    write_until_compacted(&bench);
    drop(flush);
    let kind = Some(OperationKind::Sync);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::ForGood });
    assert!(bench.store.flush().is_err());
    assert!(sleeps(&bench), "nothing can be done any more");
    let (bench, _device) = opened_again();
    let flush = bench.store.shared.checkpoints.checkpointer.lock();
    write_until_compacted(&bench);
    drop(flush);
    bench.store.close().expect("closes");
    assert_eq!(tasks_in_ten_seconds(&bench, |_| {}), 0);
}

#[test]
fn a_flush_that_has_failed_is_tried_again_without_a_write() {
    let (bench, device) = opened_again();
    let before = bench.store.newest_checkpoint().number;
    bench.put(&key(1), &value(1, 1, 8));
    let kind = Some(OperationKind::Rename);
    let nth = device.count(kind) + 1;
    let (failure, lasting) = (Failure::OutOfFiles, Lasting::ForGood);
    device.fail(Fault { kind, nth, failure, lasting });
    assert!(bench.store.flush().is_err_and(|error| error.is_retryable()));
    assert!(!sleeps(&bench));
    device.heal();
    assert!(sleeps(&bench));
    assert_eq!(bench.store.background_errors(), Vec::new());
    assert_eq!(bench.store.newest_checkpoint().number, before + 1);
}

#[test]
fn upkeep_does_not_sleep_before_a_pass_for_digests_has_come_around() {
    const KEYS: u64 = 60_000;
    let options = crate::Options::default();
    let bench = Bench::open_by_hand_within(16 << 20, device::memory(), options, 7);
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 13));
        if number % 1000 == 0 {
            bench.advance();
        }
    }
    bench.store.compact().expect("compacts");
    let cold = bench.store.shared.cold.as_ref().expect("there are two logs");
    // A compaction of the chunk log comes first.
    let compaction = bench.store.shared.compactions.chunks.turn.lock();
    for number in (0..KEYS).map(|at| at * 7_919 % KEYS) {
        assert!(bench.get(&key(number)).is_some());
        if number % 100 == 0 {
            bench.advance();
            cold.index.fill_digests(1, &bench.store.shared.background.workers.token());
        }
        if cold.index.is_filling_digests() {
            break;
        }
    }
    assert!(cold.index.is_filling_digests(), "the log is longer than a page");
    assert!(!sleeps(&bench), "the pass is not over");
    drop(compaction);
    assert!(sleeps(&bench));
    assert!(!cold.index.is_filling_digests());
}
