//! Writes: pairs on both sides of the separation, long records, writes that come again.

use std::sync::Arc;

use engine::{BlockingWrites, Engine, Error, NoJournal, Op, SeqNo};

use super::stores::{Bench, key, small};
use crate::Options;

/// Returns a value of a length, which differs from others.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| codec::hash64(number, &at.to_le_bytes()) as u8).collect()
}

#[test]
fn a_key_may_cross_the_separation_at_each_write() {
    let lengths = [10, 500, 10, 0, 3000, 40, 70_000, 10, 200];
    let bench = Bench::new();
    for (at, bytes) in lengths.into_iter().enumerate() {
        bench.put(b"k", &value(at as u64, bytes));
        bench.put(b"other", &value(at as u64, 700));
        assert_eq!(bench.get(b"k"), Some(value(at as u64, bytes)));
        match at % 3 {
            0 => bench.store.flush().expect("memory takes it"),
            1 => bench.write_buffers().expect("memory takes it"),
            _ => {}
        }
        assert_eq!(bench.get(b"k"), Some(value(at as u64, bytes)), "{bytes} bytes");
        assert_eq!(bench.get(b"other"), Some(value(at as u64, 700)));
        bench.delete(b"k");
        assert_eq!(bench.get(b"k"), None);
    }
    let bench = Bench::on(bench.end_sound()).expect("opens again");
    assert_eq!(bench.get(b"k"), None);
    assert_eq!(bench.get(b"other"), Some(value(8, 700)));
}

#[test]
fn a_stored_pair_stays_where_it_is_if_the_separation_changes() {
    let mut bench = Bench::new();
    for (round, separation_bytes) in [64, 64 << 10, 0, 64].into_iter().enumerate() {
        bench.store.flush().expect("memory takes it");
        bench = bench.reopen_with(Options { separation_bytes, ..small() });
        bench.put(&key(round as u64), &value(round as u64, 300));
        for earlier in 0..=round as u64 {
            assert_eq!(bench.get(&key(earlier)), Some(value(earlier, 300)));
        }
    }
    bench.end_sound();
}

/// Records that are longer than half a segment have segments of their own, of several places, or a
/// volume.
#[test]
fn long_records_have_segments_of_their_own() {
    let opened = Bench::with_memory(device::memory(), Arc::new(NoJournal), small(), 64 << 20);
    let bench = opened.expect("an empty device opens");
    let lengths = [40_000, 65_536, 200_000, 17 << 20, 100];
    for (at, bytes) in (0..).zip(lengths) {
        bench.put(&key(at), &value(at, bytes));
    }
    let has_all = |bench: &Bench| {
        for (at, bytes) in (0..).zip(lengths) {
            assert_eq!(bench.get(&key(at)), Some(value(at, bytes)), "{bytes} bytes");
        }
    };
    has_all(&bench);
    bench.write_buffers().expect("memory takes it");
    has_all(&bench);
    assert!(bench.detail("segments") >= 5);
    has_all(&Bench::on(bench.end_sound()).expect("opens again"));
}

#[test]
fn of_a_batch_the_last_step_of_each_key_is_appended() {
    let bench = Bench::new();
    let (long, longer) = (value(1, 200), value(2, 300));
    bench.apply(&[
        Op::Put { key: b"a", value: &long },
        Op::Put { key: b"b", value: &long },
        Op::Put { key: b"a", value: &longer },
        Op::Delete { key: b"b" },
        Op::Put { key: b"c", value: b"small" },
    ]);
    assert_eq!(bench.get(b"a"), Some(longer));
    assert_eq!((bench.get(b"b"), bench.get(b"c")), (None, Some(b"small".to_vec())));
    // The longer value. The group has no records of the other keys, and needs no markers.
    assert!(bench.detail("buffered_bytes") < 400, "{}", bench.detail("buffered_bytes"));
    assert_eq!(bench.detail("omitted_markers"), 2);
    let before = bench.detail("buffered_bytes");
    bench.apply(&[Op::Put { key: b"a", value: b"small" }, Op::Delete { key: b"a" }]);
    let marker = bench.detail("buffered_bytes") - before;
    assert!((1..60).contains(&marker), "one tombstone, of {marker} bytes");
    bench.end_sound();
}

/// A write that the index would ignore appends no record. (The replay law)
#[test]
fn a_write_that_comes_again_appends_nothing() {
    let bench = Bench::new();
    let value = value(1, 400);
    let put = [Op::Put { key: b"k", value: &value }];
    bench.apply(&put);
    bench.store.flush().expect("memory takes it");
    let persisted = bench.store.persisted();
    assert!(persisted >= SeqNo::new(1));
    assert_eq!(bench.detail("buffered_bytes"), 0);
    bench.store.replay(&put, persisted).expect("it was applied");
    assert_eq!(bench.detail("buffered_bytes"), 0);
    assert_eq!(bench.get(b"k"), Some(value));
    bench.end_sound();
}

#[test]
fn a_range_delete_is_refused_before_anything_is_reserved() {
    let bench = Bench::new();
    bench.put(b"k", b"v");
    let range = [Op::DeleteRange { start: b"a", end: None }];
    let refused = bench.store.write_next(&range, &bench.sequence);
    assert_eq!(refused, Err(Error::NoRangeDeletes { engine: "hashkv" }));
    assert_eq!(bench.store.stats().reserved, 0);
    assert_eq!(bench.get(b"k"), Some(b"v".to_vec()));
}

/// Buffers above their mark are flushed in the background, and then hold less than half of it.
#[test]
fn full_buffers_are_flushed_in_the_background() {
    let bench = Bench::new();
    let mut most = 0;
    for number in 0..200 {
        bench.put(&key(number), &value(number, 900));
        most = most.max(bench.detail("buffered_bytes"));
        bench.crank.run_all();
    }
    assert!(most <= 32 << 10, "{most} bytes");
    assert!(bench.detail("buffer_flushes") > 5);
    assert!(bench.detail("sealed_segments") > 0);
    for number in 0..200 {
        assert_eq!(bench.get(&key(number)), Some(value(number, 900)));
    }
    bench.end_sound();
}
