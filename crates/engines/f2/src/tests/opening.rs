//! Several threads rebuild the same index of a log that one thread builds.

use std::sync::Arc;

use device::{Device, Mode};
use engine::{Engine, Result};
use environment::Environment;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use telemetry::Registry;
use workers::Pool;

use super::stores::{Add, Bench, key, tiny, value};
use crate::Options;
use crate::address::LogAddress;
use crate::checkpoint::recover::rebuild;
use crate::hash_index::{ChainId, HashIndex};
use crate::hybrid_log::stretches;
use crate::key_hash::KeyHash;
use crate::open::{HOT_LOG, StoredLog, decode_committed, found_superblock};

const SEED: u64 = 42;
const BASE_BITS: u32 = 1;
const THREADS: usize = 4;

/// Returns the log of a store after some operations of every kind, and its device.
fn logged(seed: u64, keys: u64) -> (Arc<dyn Device>, StoredLog) {
    println!("seed {seed}, {keys} keys");
    let bench = Bench::open(Options { single_log: true, ..tiny() });
    let mut draw = SmallRng::seed_from_u64(seed);
    for version in 0..8_000 {
        let number = draw.random_range(0..keys);
        match draw.random_range(0..10) {
            0 => bench.delete(&key(number)),
            1 => bench.rmw(format!("count-{number}").as_bytes(), &mut Add),
            // The length differs each time, so that no record is changed in place.
            _ => bench.put(&key(number), &value(number, version, 1 + (version % 9) as usize)),
        }
    }
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    let device = Arc::clone(&bench.device);
    let log = opened(&device);
    (device, log)
}

fn opened(device: &Arc<dyn Device>) -> StoredLog {
    let superblock = found_superblock(&**device).expect("it is sound").expect("it is there");
    let committed = decode_committed(&superblock).expect("it is sound");
    let geometry = committed.identity.hot.background_geometry();
    let environment = Environment::seeded(1);
    StoredLog::open(device, &environment, HOT_LOG, committed.hot, geometry).expect("opens")
}

fn walk(index: &HashIndex) -> Vec<(ChainId, LogAddress)> {
    std::iter::successors(index.next_chain(None), |(id, _)| index.next_chain(Some(*id))).collect()
}

fn on_threads(log: StoredLog, threads: usize) -> Result<Vec<(ChainId, LogAddress)>> {
    let pool = Pool::start(&Environment::seeded(1), THREADS, &Registry::default());
    let pool = pool.expect("threads start");
    let group = pool.group("opening");
    let index = HashIndex::new(BASE_BITS);
    rebuild(index, SEED, log, &group, threads).map(|(index, ..)| {
        assert!(!index.is_growing() && !index.should_grow());
        walk(&index)
    })
}

#[test]
fn a_chain_leads_to_its_last_record_whichever_thread_comes_to_it_first() {
    // Many versions of few keys, whose threads meet at few chains; and many keys, for which the
    // index doubles.
    for (seed, keys) in [(1, 3), (2, 40), (3, 3_000)] {
        let (device, log) = logged(seed, keys);
        let expected = HashIndex::new(BASE_BITS);
        let (begin, end) = (log.span.begin, log.span.end);
        stretches(&log.segments, &log.geometry, begin, end, &mut |stretch| {
            stretch.records(&mut |address, stored| {
                if !stored.header.is_invalid() {
                    expected.restore(KeyHash::of(stored.key, SEED), address);
                }
                Ok(())
            })
        })
        .expect("the log is sound");
        let expected = walk(&expected);
        assert!(expected.len() > 2);
        for _ in 0..20 {
            let found = on_threads(opened(&device), THREADS).expect("the log is sound");
            assert_eq!(found, expected, "seed {seed}");
        }
        assert_eq!(on_threads(log, 1), Ok(expected));
    }
}

#[test]
fn the_first_damage_is_told_however_many_threads_come_to_some() {
    let (device, log) = logged(4, 3_000);
    let mut records = Vec::new();
    let (begin, end) = (log.span.begin, log.span.end);
    stretches(&log.segments, &log.geometry, begin, end, &mut |stretch| {
        stretch.records(&mut |address, _| {
            records.push(address);
            Ok(())
        })
    })
    .expect("the log is sound");
    let mut draw = SmallRng::seed_from_u64(4);
    // One record of each page is damaged, from the end to the beginning. Threads reach some of them
    // at the same time, the newest first.
    for some in records.chunk_by(|a, b| log.geometry.page(*a) == log.geometry.page(*b)).rev() {
        let address = some[draw.random_range(0..some.len())];
        let number = log.geometry.segment(address);
        let offset = log.segments.get(number).expect("it is there").offset(address);
        let file = device.open(&log.segments.file_name(number), Mode::Write).expect("opens");
        let mut byte = [0];
        file.read_at(offset, &mut byte).expect("is read");
        file.write_at(offset, &[byte[0] ^ 1 << draw.random_range(0..8)]).expect("is written");
        let alone = on_threads(opened(&device), 1).expect_err("it is damaged");
        for _ in 0..5 {
            assert_eq!(on_threads(opened(&device), THREADS), Err(alone.clone()), "{address:?}");
        }
    }
}
