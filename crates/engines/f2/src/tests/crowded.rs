//! Keys that become cold again and again, in a cold log of other keys that live.
//!
//! No round compacts that log, and the keys' chunk stays short nevertheless.

use std::collections::HashMap;

use engine::Engine;
use workers::StopToken;

use super::stores::{Bench, key, tiny, value};
use super::two_logs::{KEYS, small_hot};
use crate::Options;
use crate::address::LogAddress;
use crate::cold_index::{CROWDED, Change};

/// A store whose cold log is not compacted: it has more room than it will take.
fn left_alone() -> Options {
    Options { cold_disk_bytes_max: Some(1 << 30), read_cache_bytes: Some(0), ..small_hot() }
}

/// Makes some keys cold `rounds` times, with other keys that are new each time.
fn must_not_pile_up(bench: &Bench, again: &[Vec<u8>], rounds: u64) {
    const NEW: u64 = 4;
    let log = &bench.store.shared.hot.log;
    let mut appended = 0;
    for round in 0..rounds {
        again.iter().for_each(|again| bench.put(again, &value(0, round, 8)));
        for number in round * NEW..(round + 1) * NEW {
            bench.put(&key(number), &value(number, 0, 8));
        }
        let written = log.tail();
        while log.begin() < written {
            // The filler fills no chunk: all its versions but the newest are dead before they leave
            // the hot log.
            bench.put(b"filler", &value(0, appended, 124 + 2 * (appended % 2) as usize));
            appended += 1;
            if appended % 4 == 0 {
                bench.advance();
            }
            assert_eq!(bench.figure("compaction_failures"), 0, "in round {round}");
        }
        if round % 100 == 99 {
            let covered = bench.figure("cold_index_covered_entries");
            assert!(
                covered <= 2 * CROWDED as u64,
                "{covered} entries are covered in round {round}"
            );
        }
    }
    assert_eq!(bench.figure("cold_compactions"), 0, "nothing else takes them out");
    assert!(bench.figure("compactions") >= rounds);
    for again in again {
        assert_eq!(bench.get(again), Some(value(0, rounds - 1, 8)));
    }
    for number in (0..rounds * NEW).step_by(97) {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)), "{number}");
    }
}

#[test]
fn versions_of_a_key_do_not_pile_up_in_its_chunk() {
    let bench = Bench::open_by_hand(device::memory(), left_alone(), 7);
    must_not_pile_up(&bench, &[b"again".to_vec()], 4_000);
}

/// The law holds whichever of the two keys crowds the tag.
#[test]
fn nor_do_those_of_two_keys_of_one_tag() {
    let bench = Bench::open_by_hand(device::memory(), left_alone(), 7);
    let shared = &bench.store.shared;
    let mut known = HashMap::new();
    let pair = (0_u64..).find_map(|number| {
        let again = format!("again-{number}").into_bytes();
        // The part of the position that chunks keep.
        let prefix = shared.hot.index.position(shared.hash(&again)).get() >> u32::BITS;
        known.insert(prefix, again.clone()).map(|other| [other, again])
    });
    must_not_pile_up(&bench, &pair.expect("two of many share a tag"), 500);
}

/// The newest entry of each key stays, and so do entries whose records cannot be read.
#[test]
fn only_entries_behind_another_of_their_key_are_taken_out() {
    let bench = Bench::open(Options { read_cache_bytes: Some(0), ..tiny() });
    let cold = bench.store.shared.cold.as_ref().expect("a store of two logs");
    let go_on = StopToken::default();
    let position = bench.store.shared.hot.index.position(bench.store.shared.hash(&key(1)));
    // Another key at the same position, as the index sees it.
    let written: Vec<LogAddress> = [1, 2, 1, 1, 2, 1]
        .into_iter()
        .map(|number| cold.append(&key(number), &value(number, 0, 8)).expect("it is appended"))
        .collect();
    for at in 0..KEYS {
        cold.append(&key(at), &value(at, 0, 8)).expect("others follow");
    }
    let put = |new: &LogAddress| Change { position, old: LogAddress::NONE, new: *new };
    let mut changes: Vec<Change> = written.iter().map(put).collect();
    cold.index.apply(&mut changes, &go_on).expect("they are put");
    bench.store.flush().expect("flushes");
    let segments = &cold.log.segments;
    let number = cold.log.geometry.segment(written[2]);
    let file = bench.device.open(&segments.file_name(number), device::Mode::Write).expect("opens");
    let damaged = segments.get(number).expect("it is there").offset(written[2]) + 40;
    file.write_at(damaged, &[0xff; 4]).expect("it is damaged");
    cold.merge_tag_entries(&[position], &go_on).expect("merges");
    let mut left = Vec::new();
    cold.index.find(position, &mut left).expect("finds");
    assert_eq!(left, [written[5], written[4], written[2]], "newest first");
}
