//! Look-ups that digests answer, beside changes, doublings, compactions of the chunk log and reopening.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Bench, Sizes, TINY, at, go_on, position, put, replace, take};
use crate::address::LogAddress;
use crate::cold_index::chunk::Prefix;

const WITH_DIGESTS: Sizes = Sizes { digest_bytes: 1 << 20, ..TINY };
const KEYS: u64 = 4_000;

/// The addresses of a key stand in what is found, in their order, whatever others stand there.
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
    // Chunks that a doubling has split, and that were not written since, are read once for the new half.
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

/// A doubling leaves two halves the same chunk. What one half's digest were to say of the other's entries would
/// stay when those are gone, and lead to records that are.
#[test]
fn a_digest_says_nothing_of_the_other_half_of_a_doubling() {
    const FEW: u64 = 2_000;
    let bench = Bench::new(Sizes { chunk_bytes: 256, ..WITH_DIGESTS });
    bench.apply((0..FEW).map(|key| put(key, at(key + 1))).collect());
    let level = bench.index.figures().level;
    // Chunks of several entries each have their digests, from which nobody takes one away.
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
                    assert!(bench.index.compact(until, &go_on()).expect("compacts"));
                }
                2 => bench.index.digests.resize(random.random_range(0..=digest_bytes)),
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
