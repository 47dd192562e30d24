//! Collection: space comes back, and each reader finds what it would find without.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Direction, Engine, KeyRange, NoJournal, SeqNo};
use environment::Seed;
use rand::RngExt;

use super::stores::{Bench, key, scan, small};
use crate::{Options, Policy};

/// Returns a value of a write.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(bytes, number as u8);
    value
}

/// Overwritten values are dropped, and all others are found: in memory, and after an opening.
#[test]
fn the_space_of_overwritten_values_comes_back() {
    let bench = Bench::new();
    for round in 0..4 {
        for number in 0..200 {
            // A tenth of the keys is written once.
            if round == 0 || number % 10 != 0 {
                bench.put(&key(number), &value(round * 1000 + number, 700));
            }
        }
        bench.end_segments();
    }
    let before = bench.detail("volume_bytes");
    bench.collect_all();
    let after = bench.detail("volume_bytes");
    // 140 kB are live: four segments of 64 KiB, and one that is not full in each group.
    assert!(after <= 6 * (64 << 10) && after < before / 2, "{after} of {before}");
    assert!(bench.detail("copied_bytes") > 0);
    let has_all = |bench: &Bench| {
        for number in 0..200 {
            let round = if number % 10 == 0 { 0 } else { 3 };
            let expected = value(round * 1000 + number, 700);
            assert_eq!(bench.get(&key(number)), Some(expected), "key {number}");
        }
        let pairs = scan(&bench.view(), KeyRange::all(), Direction::Forward);
        assert_eq!(pairs.len(), 200);
    };
    has_all(&bench);
    let bench = Bench::on(bench.end_sound()).expect("opens again");
    // Without directories first, and then with the directories that these reads need.
    assert_eq!(bench.detail("directory_bytes"), 0);
    has_all(&bench);
    bench.crank.run_all();
    assert!(bench.detail("directory_bytes") > 0);
    has_all(&bench);
    bench.end_sound();
}

/// Law H7: a snapshot shows the moment of its pin through any number of jobs.
#[test]
fn h7_a_snapshot_keeps_what_it_sees() {
    let bench = Bench::new();
    for number in 0..60 {
        bench.put(&key(number), &value(number, 600));
    }
    let view = bench.view();
    for round in 1..4 {
        for number in 0..60 {
            match (number + round) % 3 {
                0 => bench.delete(&key(number)),
                _ => bench.put(&key(number), &value(1000 * round + number, 600)),
            };
        }
        bench.end_segments();
        bench.collect_all();
        let pairs = scan(&view, KeyRange::all(), Direction::Forward);
        let expected: Vec<_> = (0..60).map(|number| (key(number), value(number, 600))).collect();
        assert_eq!(pairs, expected, "round {round}");
    }
    assert!(bench.detail("held_bytes") >= 60 * 600);
    let held = bench.detail("volume_bytes");
    drop(view);
    bench.collect_all();
    assert_eq!(bench.detail("held_bytes"), 0);
    assert!(bench.detail("volume_bytes") < held);
    bench.end_sound();
}

/// Law H6: no deleted or moved pair returns, whichever of its records were collected.
#[test]
fn h6_markers_keep_older_values_away() {
    let bench = Bench::new();
    let mut random = Seed::from(6).stream("hashkv markers");
    let mut model = BTreeMap::new();
    for round in 0..12 {
        for number in 0..40_u64 {
            let key = key(number);
            match random.random_range(0..4) {
                0 => {
                    bench.delete(&key);
                    model.remove(&key);
                }
                // Small pairs are in the index.
                kind => {
                    let value = value(round, if kind == 1 { 20 } else { 600 });
                    bench.put(&key, &value);
                    model.insert(key, value);
                }
            }
        }
        if random.random_bool(0.5) {
            bench.end_segments();
        }
        bench.collect_once().expect("memory takes it");
        let pairs = scan(&bench.view(), KeyRange::all(), Direction::Forward);
        assert_eq!(pairs, model.clone().into_iter().collect::<Vec<_>>(), "round {round}");
    }
    let bench = Bench::on(bench.end_sound()).expect("opens again");
    let pairs = scan(&bench.view(), KeyRange::all(), Direction::Forward);
    assert_eq!(pairs, model.into_iter().collect::<Vec<_>>());
    bench.end_sound();
}

/// Law H5, in part: after deletes of everything nothing is left but open segments.
#[test]
fn deletes_of_everything_free_everything() {
    let bench = Bench::new();
    for number in 0..150 {
        bench.put(&key(number), &value(number, 700));
    }
    bench.end_segments();
    for number in 0..150 {
        bench.delete(&key(number));
    }
    bench.end_segments();
    bench.collect_all();
    // The header of the volume.
    assert_eq!(bench.detail("volume_bytes"), 4096);
    assert_eq!(bench.detail("segments"), 0);
    bench.end_sound();
}

/// Tombstones are short, and free long values: jobs begin without a caller.
#[test]
fn deletes_begin_jobs() {
    let bench = Bench::new();
    for number in 0..4000 {
        bench.put(&key(number), &value(number, 700));
    }
    bench.end_segments();
    bench.collect_all();
    let before = bench.detail("volume_bytes");
    assert!(before > 3 << 20, "{before}");
    for number in 0..4000 {
        bench.delete(&key(number));
    }
    bench.end_segments();
    bench.crank.run_all();
    // The reserve is 16 segments of 64 KiB.
    let after = bench.detail("volume_bytes");
    assert!(after < 3 << 19, "{after}");
    bench.end_sound();
}

/// A dropped directory takes no memory.
#[test]
fn the_memory_of_directories_is_returned() {
    let bench =
        Bench::with(device::memory(), Arc::new(NoJournal), Options { groups_max: 1, ..small() });
    let bench = bench.expect("it opens");
    for round in 0..3 {
        for number in 0..100 {
            if round == 0 || number % 3 == round {
                bench.put(&key(number), &value(number, 700));
            }
        }
        bench.end_segments();
        bench.collect_all();
        assert!(round == 0 || bench.detail("directory_bytes") > 0, "round {round}");
        bench.store.shared.values.drop_directories(0);
        assert_eq!(bench.detail("directory_bytes"), 0, "round {round}");
    }
    bench.end_sound();
}

/// A record is dropped only once its successor is durable in the index.
#[test]
fn a_successor_that_is_not_durable_keeps_the_record() {
    let bench = Bench::new();
    for number in 0..100 {
        bench.put(&key(number), &value(number, 700));
    }
    bench.end_segments();
    for number in 0..100 {
        bench.put(&key(number), &value(number + 500, 700));
    }
    bench.write_buffers().expect("memory takes it");
    let shared = &bench.store.shared;
    for group in &shared.values.groups {
        shared.judge_group(group, &shared.moment()).expect("memory reads");
    }
    assert!(bench.detail("pending_bytes") >= 100 * 700);
    assert_eq!(bench.detail("garbage_bytes"), 0);
    // The collector flushes the index once they fill a quarter of the reserve.
    let persisted = bench.store.persisted();
    bench.collect_once().expect("memory takes it");
    assert!(bench.store.persisted() > persisted || bench.detail("collected_segments") == 0);
    assert!(bench.store.persisted() <= SeqNo::new(200));
    for number in 0..100 {
        assert_eq!(bench.get(&key(number)), Some(value(number + 500, 700)));
    }
    bench.end_sound();
}

/// With each policy the background keeps garbage within the reserve, while values are overwritten
/// at random.
#[test]
fn each_policy_keeps_the_reserve() {
    for policy in Policy::ALL {
        let options = Options { policy, ..small() };
        let opened = Bench::with(device::memory(), Arc::new(NoJournal), options);
        let bench = opened.expect("an empty device opens");
        let mut random = Seed::from(1).stream("hashkv policies");
        let mut last = BTreeMap::new();
        let mut most = 0;
        for number in 0..6000 {
            let at = random.random_range(0..300_u64);
            bench.put(&key(at), &value(number, 700));
            last.insert(at, number);
            bench.crank.run_all();
            most = most.max(bench.detail("volume_bytes"));
        }
        // 220 kB are live, of 4.4 MB that were written. The reserve is 16 segments, and a third.
        assert!(most < 40 * (64 << 10), "{}: {most} bytes", policy.name());
        assert!(bench.detail("collected_segments") > 20, "{}", policy.name());
        for (at, number) in last {
            assert_eq!(bench.get(&key(at)), Some(value(number, 700)), "{}", policy.name());
        }
        bench.end_sound();
    }
}

/// A lookup that began before a job finds the record after it.
#[test]
fn h1_a_pending_lookup_survives_jobs() {
    use engine::{At, Lookup, Progress};
    let bench = Bench::new();
    for number in 0..80 {
        bench.put(&key(number), &value(number, 700));
    }
    bench.end_segments();
    for number in 0..80 {
        if number % 4 != 0 {
            bench.put(&key(number), &value(number + 100, 700));
        }
    }
    bench.end_segments();
    let mut pending = Vec::new();
    for number in 0..80 {
        let mut value = Vec::new();
        match bench.store.lookup(&key(number), At::Newest, &mut value).expect("memory reads") {
            Lookup::Pending(lookup) => pending.push((number, lookup)),
            other => panic!("key {number}: {other:?}"),
        }
    }
    // All of these go, some after a newer write.
    for number in 0..40 {
        bench.put(&key(number), &value(number + 200, 700));
    }
    bench.end_segments();
    bench.collect_all();
    for (number, mut lookup) in pending {
        let mut found = Vec::new();
        loop {
            let mut progress = Progress::Waiting;
            for (at, read) in lookup.reads().to_vec().into_iter().enumerate() {
                let mut bytes = device::Buffer::zeroed(read.len);
                let done = read.file.read_at(read.offset, &mut bytes).map_err(engine::Error::from);
                progress = lookup
                    .resume(at, done.map(|()| &*bytes), &mut found)
                    .unwrap_or_else(|error| panic!("key {number}: {error}"));
            }
            match progress {
                Progress::Found => break,
                Progress::NextRound => {}
                other => panic!("key {number}: {other:?}"),
            }
        }
        let before = if number % 4 == 0 { number } else { number + 100 };
        let after = if number < 40 { number + 200 } else { before };
        assert!([value(before, 700), value(after, 700)].contains(&found), "key {number}");
    }
    bench.end_sound();
}
