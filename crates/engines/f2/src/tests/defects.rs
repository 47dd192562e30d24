//! Defects of the reference, each a law here; others are in `two_logs`, `sessions` and `prefix`.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use device::{Device, Faults, SimulatedDisk};
use engine::{Change, Engine};
use sync::planted::must_fail;

use super::stores::{Add, Bench, count, key, value};
use super::two_logs::{KEYS, push_out, small_cold, small_hot};
use crate::check;
use crate::compaction::Compactions;

/// D4: in the reference a checkpoint with two sessions spins for ever. Here sessions do nothing
/// while checkpoints are made at the same time, and all checkpoints end within `limit`.
/// If they are `protected`, each is protected by the epochs meanwhile, which is the defect.
fn checkpoints_end_beside_sessions(limit: Duration, protected: bool) {
    const SESSIONS: u64 = 5;
    const CHECKPOINTS: usize = 3;
    let bench = Bench::loaded(KEYS, small_cold());
    let begin = |_| bench.session(128);
    let mut sessions: Vec<_> = (0..SESSIONS).map(begin).collect();
    let mut into = Vec::new();
    for (number, session) in (0..).zip(&mut sessions) {
        session.put(&key(number), &value(number, 1, 8)).expect("is put");
        // The get is pending if its key is on disk.
        session.get(&key(KEYS / 2 + number), &mut into).expect("the get begins");
    }
    let participant = bench.store.shared.epochs.join();
    let mut guard = protected.then(|| participant.protect());
    let before = bench.store.newest_checkpoint();
    let (tell, told) = std::sync::mpsc::channel();
    let have_ended = std::thread::scope(|scope| {
        for number in 0..CHECKPOINTS {
            let (store, tell) = (&bench.store, tell.clone());
            scope.spawn(move || {
                match number {
                    0 => store.checkpoint(device::memory(), &engine::go_on).expect("is written"),
                    _ => store.flush().expect("flushes"),
                }
                tell.send(()).expect("somebody listens");
            });
        }
        let have_ended = (0..CHECKPOINTS).all(|_| told.recv_timeout(limit).is_ok());
        // A checkpoint that waits for the sessions ends now.
        sessions.clear();
        drop(guard.take());
        have_ended
    });
    assert!(have_ended, "a checkpoint waits for sessions that do nothing");
    assert!(bench.store.newest_checkpoint() > before);
}

#[test]
fn d4_a_checkpoint_waits_for_no_session() {
    // Far longer than the checkpoints take.
    checkpoints_end_beside_sessions(Duration::from_secs(60), false);
}

#[test]
fn a_session_that_is_protected_is_found() {
    must_fail("a protected session", "waits for sessions", || {
        checkpoints_end_beside_sessions(Duration::from_secs(2), true);
    });
}

/// The same while all writers count up, and copies are opened.
#[test]
fn d4_checkpoints_beside_many_writers_all_end() {
    const WRITERS: u64 = 5;
    const CHECKPOINTS: u64 = 60;
    let bench = Bench::open(small_cold());
    let ended = AtomicU64::new(0);
    let is_enough = || ended.load(SeqCst) >= CHECKPOINTS;
    let counted = std::thread::scope(|scope| {
        let (bench, ended, is_enough) = (&bench, &ended, &is_enough);
        let count_up = move |thread: u64| {
            let mut counted = 0;
            while !is_enough() {
                bench.rmw(&key(thread * 100 + counted % 100), &mut Add);
                counted += 1;
            }
            counted
        };
        let counting: Vec<_> =
            (0..WRITERS).map(|thread| scope.spawn(move || count_up(thread))).collect();
        let repeat = move |make: &dyn Fn()| {
            while !is_enough() {
                make();
                ended.fetch_add(1, SeqCst);
            }
        };
        for _ in 0..2 {
            scope.spawn(move || repeat(&|| bench.store.flush().expect("flushes")));
        }
        scope.spawn(move || {
            repeat(&|| {
                let into = device::memory();
                bench.store.checkpoint(Arc::clone(&into), &engine::go_on).expect("is written");
                let copy = Bench::open_by_hand(into, small_cold(), 1);
                assert!(copy.store.recovered() <= bench.store.newest_checkpoint());
            });
        });
        counting.into_iter().map(|thread| thread.join().expect("counts")).sum::<u64>()
    });
    let counters = (0..WRITERS).flat_map(|thread| thread * 100..thread * 100 + 100);
    let sum: u64 = counters.map(|number| count(bench.get(&key(number)))).sum();
    assert_eq!(sum, counted);
}

/// D6: in the reference an abandoned allocation leaves a hole, and compaction loses the records
/// behind it in the page. Here every second update of one key is abandoned after its allocation,
/// since a put of the key follows its read of the old value. The log is cut behind some of these
/// holes.
#[test]
fn d6_nothing_is_lost_behind_an_allocation_that_was_given_up() {
    let bench = Bench::open_by_hand(device::memory(), small_hot(), 6);
    bench.put(b"contended", &value(0, 0, 4));
    // The least bytes of a record of the three lengths below; no record fits in another's place.
    let least = 16 + 16 + 24;
    let mut given_up = 0;
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
        if number % 10 > 0 {
            continue;
        }
        let (words, tail) = (3 + (number / 10 % 2) as usize, bench.figure("log_tail"));
        let mut is_first = true;
        bench.rmw(b"contended", &mut |_: Option<&[u8]>| {
            // The thread is protected, so this put must not wait for memory.
            if take(&mut is_first) {
                bench.put(b"contended", &value(number, 1, 5));
            }
            Change::Put(value(number, 0, words))
        });
        assert!(bench.figure("log_tail") - tail > 3 * least, "{number} was appended twice");
        assert_eq!(bench.get(b"contended"), Some(value(number, 0, words)), "the later one stands");
        given_up += 1;
        if number % 20 == 0 {
            bench.store.flush().expect("flushes");
        }
        bench.advance();
    }
    assert_eq!(given_up, KEYS / 10);
    let tail = bench.figure("log_tail");
    for number in 0.. {
        bench.put(format!("filler-{number}").as_bytes(), &value(number, 0, 8));
        bench.advance();
        if bench.figure("log_begin") >= tail {
            break;
        }
    }
    assert_eq!(bench.figure("compaction_failures"), 0);
    for number in 0..KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number}");
    }
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    assert_eq!(check(&bench.device).expect("is checked").damage, []);
}

/// The same with threads, which lose races for few chains while the log is cut again and again.
#[test]
fn d6_nothing_is_lost_where_threads_lose_races() {
    const WRITERS: u64 = 4;
    let bench = Bench::open(small_hot());
    let writing = AtomicU64::new(WRITERS);
    let before = bench.store.newest_checkpoint().number;
    std::thread::scope(|scope| {
        for thread in 0..WRITERS {
            let (bench, writing) = (&bench, &writing);
            scope.spawn(move || {
                for number in (thread * KEYS)..(thread + 1) * KEYS {
                    bench.put(&key(number), &value(number, 0, 8));
                    // The value is longer than the old one, so it is appended, and all threads want
                    // this chain.
                    bench.put(b"contended", &value(number, 0, 2 + (number % 9) as usize));
                }
                writing.fetch_sub(1, SeqCst);
            });
        }
        while writing.load(SeqCst) > 0 {
            bench.store.flush().expect("flushes");
        }
    });
    let cuts = bench.store.newest_checkpoint().number - before;
    assert!(cuts > 10, "the log was cut {cuts} times");
    push_out(&bench);
    assert_eq!(bench.figure("compaction_failures"), 0);
    for number in 0..WRITERS * KEYS {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number}");
    }
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    assert_eq!(check(&bench.device).expect("is checked").damage, []);
}

/// D7: in the reference compaction removes files that the last checkpoint needs. Here compactions
/// follow a checkpoint, and no other checkpoint has named their result. From then on a crash comes
/// at every operation of the disk.
#[test]
fn d7_a_checkpoint_keeps_what_it_needs() {
    let disk = SimulatedDisk::new(7, Faults::none());
    disk.keep_history();
    let bench = Bench::open_by_hand(Arc::clone(&disk) as _, small_cold(), 7);
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
        if number % 20 == 0 {
            bench.advance();
        }
    }
    bench.store.flush().expect("flushes");
    let (checkpoint, from) = (bench.store.newest_checkpoint(), disk.operations());
    let (begin, rounds) = (bench.figure("log_begin"), bench.figure("compactions"));
    let mut until = from;
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 1, 8));
        if number % 20 == 0 {
            bench.advance();
        }
        if bench.store.newest_checkpoint() > checkpoint {
            break;
        }
        until = disk.operations();
    }
    assert!(until > from && bench.figure("compactions") > rounds);
    assert!(bench.figure("log_begin") > begin, "what the checkpoint names has left the log");
    let history = disk.history();
    let mut replay = history.replay();
    for cut in from..=until {
        replay.advance_to(cut);
        let image: Arc<dyn Device> = replay.crash(cut);
        let image = Bench::open_by_hand(image, small_cold(), cut);
        assert_eq!(image.store.recovered(), checkpoint);
        for number in 0..KEYS {
            assert_eq!(image.get(&key(number)), Some(value(number, 0, 8)), "{number} at {cut}");
        }
    }
}

/// D9: in the reference a put that finds the log above its budget does the whole compaction. Here
/// no other thread would do it, and it is not done.
#[test]
fn d9_user_operations_never_work_off_a_compaction() {
    let bench = Bench::open_by_hand(device::memory(), small_cold(), 1);
    let reads = || bench.device.accounting().counts().read_ops;
    let before = reads();
    // Three times the disk space of the hot log. Each of these puts waits a moment, and continues.
    for number in 0..1_700 {
        bench.put(&key(number), &value(number, 0, 8));
    }
    assert!(bench.figure("log_tail") - bench.figure("log_begin") > 3 * (48 << 10));
    assert_eq!(reads(), before, "a put reads nothing");
    for number in 0..50 {
        bench.delete(&key(number));
        bench.rmw(&key(100 + number), &mut |_: Option<&[u8]>| engine::Change::Delete);
        assert_eq!(bench.get(&key(200 + number)), Some(value(200 + number, 0, 8)));
    }
    assert!(reads() - before <= 2 * 50 * 4, "what the reads and the changes wanted, no more");
    let worked = ["compactions", "compacted_records", "log_begin", "cold_log_tail"];
    // The first bytes of a log are a filler.
    assert_eq!(worked.map(|name| bench.figure(name)), [0, 0, 0, 64]);
    bench.advance();
    assert!(bench.figure("compactions") > 0, "there was something to be done");
}

/// The same next to compactions that do not end before the writes do: no write waits for them.
#[test]
fn d9_user_operations_never_wait_for_a_compaction_to_end() {
    let bench = Bench::open(small_cold());
    let Compactions { hot, cold, chunks, .. } = &bench.store.shared.compactions;
    // A compaction holds these locks as long as it runs.
    let compacting = (hot.turn.lock(), cold.turn.lock(), chunks.turn.lock());
    for number in 0..1_000 {
        bench.put(&key(number), &value(number, 0, 8));
        bench.rmw(&key(number), &mut |_: Option<&[u8]>| engine::Change::Delete);
    }
    assert_eq!(bench.figure("compactions"), 0);
    drop(compacting);
}
