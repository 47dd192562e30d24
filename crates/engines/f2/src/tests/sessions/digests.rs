//! The counts of chunks and their digests by lookups, however often they are begun.

use conformance::{InFlight, LookupStart};
use engine::{At, Engine};
use reads::BlockingReads;

use super::{get_all, uncached};
use crate::Options;
use crate::cold_index::Lookup;
use crate::tests::stores::{Bench, key, value};
use crate::tests::two_logs::{KEYS, cold_store, small_cold};

/// A lookup that a full session does not begin is not counted: the caller tries it again.
#[test]
fn a_get_that_is_refused_counts_no_chunk() {
    let bench = cold_store(Options { cold_disk_bytes_max: None, ..uncached() });
    let chunks_read = |depth| {
        let before = bench.figure("chunk_digest_misses");
        let mut session = bench.session(depth);
        get_all(&mut session, 0..KEYS, &mut |_, value| assert!(value.is_some()));
        bench.figure("chunk_digest_misses") - before
    };
    for depth in [2 * KEYS as usize, 4] {
        let read = chunks_read(depth);
        // Some are in memory; compactions that end meanwhile have a few looked up again.
        assert!((KEYS / 4..=KEYS * 11 / 10).contains(&read), "{read} chunks at depth {depth}");
    }
}

/// A store of cold keys, with numbers of some of which memory has a digest, and the disk the
/// record.
fn with_digests() -> (Bench, Vec<u64>) {
    let options = Options {
        log_memory_bytes: Some(1 << 20),
        cold_disk_bytes_max: Some(1 << 30),
        disk_bytes_max: None,
        read_cache_bytes: None,
        chunk_bytes: 256,
        ..small_cold()
    };
    let bench = Bench::open_by_hand(device::memory(), options, 7);
    for number in 0..60_000 {
        bench.put(&key(number), &value(number, 0, 8));
        if number % 100 == 0 {
            bench.advance();
        }
    }
    let shared = &bench.store.shared;
    let cold = shared.cold.as_ref().expect("two logs");
    cold.index.digests.resize(u64::MAX);
    // Each makes the digest of a chunk that has some of the others' entries.
    let read = (0..8 * KEYS).step_by(8).filter(|number| bench.get(&key(*number)).is_some());
    assert_eq!(read.count() as u64, KEYS);
    let has_digest = |number: &u64| {
        let position = shared.hot.index.position(shared.hash(&key(*number)));
        let mut named = Vec::new();
        let looked = cold.index.look(position, &mut named).expect("it is there");
        !number.is_multiple_of(8)
            && cold.index.chunk_address(position) < cold.chunk_log.head()
            && !matches!(looked, Lookup::OnDisk(_))
            && named.first().is_some_and(|at| *at < cold.log.head())
    };
    let numbers = (0..8 * KEYS).filter(has_digest).collect();
    (bench, numbers)
}

/// A lookup that a digest serves is counted once, also if it was begun before and dropped.
#[test]
fn a_get_that_is_begun_again_counts_its_digest_once() {
    let (bench, numbers) = with_digests();
    let numbers = numbers.get(..64).expect("some have digests");
    let hits = || bench.figure("chunk_digest_hits");
    let (engine, mut into): (&dyn Engine, _) = (&bench.store, Vec::new());
    let mut reads = InFlight::new(engine, 1, &bench.memory);
    let before = hits();
    for (number, done) in numbers.iter().zip(1..) {
        let key = key(*number);
        let known = engine.try_get(&key, &mut into).expect("it is open");
        assert_eq!(known, None, "key {number} is on disk");
        assert_eq!(reads.begin(*number, &key, At::Newest), Ok(LookupStart::Pending));
        assert_eq!(reads.begin(0, &key, At::Newest), Ok(LookupStart::Full));
        reads.finish();
        assert_eq!(reads.ended[number].value, Ok(Some(value(*number, 0, 8).to_vec())));
        assert_eq!(hits() - before, done);
    }
}
