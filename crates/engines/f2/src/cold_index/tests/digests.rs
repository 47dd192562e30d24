//! Lookups that digests serve, concurrent with changes, doublings, compactions of the chunk log and
//! reopening.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Bench, Sizes, TINY, at, go_on, position, put, replace, take};
use crate::address::LogAddress;
use crate::cold_index::chunk::Prefix;

const WITH_DIGESTS: Sizes = Sizes { digest_bytes: 1 << 20, ..TINY };
const KEYS: u64 = 4_000;

/// Checks that the addresses of a key are among the addresses found, in their order, whatever
/// others are there.
fn must_find(bench: &Bench, key: u64, known: &[LogAddress]) {
    let found = bench.find(position(key));
    let mut rest = found.iter();
    let is_there = known.iter().all(|wanted| rest.any(|address| address == wanted));
    assert!(is_there, "key {key}: {known:?} in {found:?}");
}

#[test]
fn a_chunk_that_was_read_or_written_is_not_read_again() {
    let mut bench = Bench::new(WITH_DIGESTS);
    bench.apply((0..KEYS).map(|key| put(key, at(key + 1))).collect());
    bench.flush();
    let find_all = |bench: &Bench| {
        let (before, _) = bench.operations();
        (0..KEYS).for_each(|key| must_find(bench, key, &[at(key + 1)]));
        bench.operations().0 - before
    };
    // Chunks that a doubling has split, and that were not written since, are read once for the new
    // half.
    let chunks = bench.index.figures().chunks;
    let reads = find_all(&bench);
    assert!(reads <= chunks, "{reads} reads of {chunks} chunks");
    assert_eq!(find_all(&bench), 0);
    bench = bench.reopen();
    let (reads, chunks) = (find_all(&bench), bench.index.figures().chunks);
    assert!(reads <= chunks && reads > chunks / 2, "{reads} reads of {chunks} chunks");
    assert_eq!(find_all(&bench), 0);
    bench.index.digests.resize(0);
    assert!(find_all(&bench) > KEYS / 2, "without digests each key's chunk is read");
}

/// A doubling leaves two halves the same chunk. If one half's digest had the other's entries, it
/// would keep them when they are removed, and lead to removed records.
#[test]
fn a_digest_says_nothing_of_the_other_half_of_a_doubling() {
    const FEW: u64 = 2_000;
    let bench = Bench::new(Sizes { chunk_bytes: 256, ..WITH_DIGESTS });
    bench.apply((0..FEW).map(|key| put(key, at(key + 1))).collect());
    let level = bench.index.figures().level;
    // Chunks of several entries each have their digests, which no thread removes.
    for key in 0..FEW {
        bench.find(position(key));
    }
    let mut newest = FEW;
    while bench.index.figures().level == level {
        bench.apply((newest..newest + 10_000).map(|key| put(key, at(key + 1))).collect());
        newest += 10_000;
    }
    let name = |key| bench.index.directory.find(Prefix::of(position(key))).0;
    for key in 0..newest {
        for address in bench.find(position(key)) {
            assert_eq!(name(address.get() / 16 - 1), name(key), "key {key}: {address:?}");
        }
    }
}

/// After opening, one pass in order makes the digests of all chunks, once lookups have shown that
/// it pays: also of chunks that a doubling has split and that were not written since.
#[test]
fn a_pass_makes_the_digests_that_are_missing() {
    let mut bench = Bench::new(WITH_DIGESTS);
    bench.apply((0..KEYS).map(|key| put(key, at(key + 1))).collect());
    // Chunks that are not the directory's any more.
    bench.apply((0..KEYS / 8).map(|key| replace(key, at(key + 1), at(key + 1))).collect());
    bench.apply((0..KEYS / 8).map(|key| replace(key, at(key + 1), at(KEYS + key))).collect());
    bench = bench.reopen();
    let newest = |key| at(if key < KEYS / 8 { KEYS + key } else { key + 1 });
    let fill =
        |bench: &Bench| (0..100).for_each(|_| bench.index.fill_digests(TINY.page_bytes, &go_on()));
    fill(&bench);
    assert_eq!(bench.index.filled_bytes(), 0, "nobody has asked");
    let log_bytes = bench.log.bytes();
    let mut asked = 0;
    while bench.index.filled_bytes() == 0 {
        must_find(&bench, asked, &[newest(asked)]);
        asked += 1;
        fill(&bench);
    }
    let chunks = bench.index.figures().chunks;
    assert!((1..chunks / 8).contains(&asked), "{asked} lookups, of {chunks} chunks");
    assert_eq!(bench.index.filled_bytes(), log_bytes, "it was read once");
    let (before, _) = bench.operations();
    (0..KEYS).for_each(|key| must_find(&bench, key, &[newest(key)]));
    assert_eq!(bench.operations().0, before, "no chunk is read any more");
}

/// If there is room for some digests, a pass makes those, drops none for them, and continues from
/// there when there is more room.
#[test]
fn a_pass_makes_as_many_digests_as_there_is_room_for() {
    let mut bench = Bench::new(WITH_DIGESTS);
    bench.apply((0..KEYS).map(|key| put(key, at(key + 1))).collect());
    // Older versions, which a pass that continues in the middle meets last.
    bench.apply((0..KEYS).map(|key| replace(key, at(key + 1), at(KEYS + key))).collect());
    bench = bench.reopen();
    let log_bytes = bench.log.bytes();
    let find_all =
        |bench: &Bench| (0..KEYS).for_each(|key| must_find(bench, key, &[at(KEYS + key)]));
    let fill =
        |bench: &Bench| (0..100).for_each(|_| bench.index.fill_digests(TINY.page_bytes, &go_on()));
    bench.index.digests.resize(0);
    find_all(&bench);
    bench.index.digests.resize(32 << 10);
    fill(&bench);
    let some = bench.index.digests.figures();
    assert!(some.kept_bytes > 24 << 10 && some.page_bytes <= 32 << 10, "{some:?}");
    let of_some = bench.index.filled_bytes();
    assert!(of_some > 0 && of_some < log_bytes, "{of_some} bytes of {log_bytes}");
    // Lookups read the chunks without a digest.
    find_all(&bench);
    bench.index.digests.resize(1 << 20);
    fill(&bench);
    let of_all = bench.index.filled_bytes();
    assert!(of_all <= 2 * log_bytes, "{of_all} bytes of {log_bytes}");
    let (before, _) = bench.operations();
    find_all(&bench);
    assert_eq!(bench.operations().0, before, "no chunk is read any more");
}

#[test]
fn digests_say_what_chunks_do() {
    for (seed, digest_bytes) in [(1, 1 << 20), (2, 32 << 10), (3, 1 << 20), (4, 64 << 10)] {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut bench = Bench::new(Sizes { digest_bytes, ..TINY });
        let mut model: BTreeMap<u64, Vec<LogAddress>> = BTreeMap::new();
        let mut newest = 0;
        for round in 0..60 {
            let mut changes = Vec::new();
            for _ in 0..random.random_range(1..300) {
                let key = random.random_range(0..2_000);
                newest += 1;
                let known = model.entry(key).or_default();
                match (random.random_range(0..4), known.first().copied()) {
                    (0, Some(old)) => {
                        known.remove(0);
                        changes.push(take(key, old));
                    }
                    (1, Some(old)) => {
                        known[0] = at(newest);
                        changes.push(replace(key, old, at(newest)));
                    }
                    _ => {
                        known.insert(0, at(newest));
                        changes.push(put(key, at(newest)));
                    }
                }
            }
            let applied = bench.apply(changes);
            assert_eq!(applied.missed, []);
            match random.random_range(0..8) {
                0 => bench = bench.reopen(),
                1 => {
                    bench.flush();
                    let until = bench.log.flushed();
                    assert!(bench.index.compact(until, &go_on(), &|_| ()).expect("compacts"));
                }
                2 => (0..4).for_each(|_| bench.index.fill_digests(TINY.page_bytes, &go_on())),
                4 => bench.index.digests.resize(random.random_range(0..=digest_bytes)),
                3 => bench.index.digests.resize(digest_bytes),
                _ => {}
            }
            for _ in 0..300 {
                let key = random.random_range(0..2_000);
                must_find(&bench, key, model.get(&key).map_or(&[], Vec::as_slice));
            }
            println!("seed {seed}, round {round}: {:?}", bench.index.digests.figures());
        }
        let figures = bench.index.digests.figures();
        assert!(figures.found + figures.read > 0, "{figures:?}");
    }
}
