//! The memory of the index if the data are many times the memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{BackgroundError, Engine, Error, NoJournal};

use crate::Options;
use crate::commit::Committer;
use crate::tests::stores::{Bench, key, small};

/// Returns the bytes that intervals take.
fn intervals_bytes(bench: &Bench) -> u64 {
    let committer: &Committer = &bench.store.shared.committer.lock();
    bench.store.shared.index_memory.intervals_bytes(committer.index())
}

/// Returns a store of 8 MiB, loaded with `times` that number of bytes, in the order of `place`.
fn loaded(times: u64, place: impl Fn(u64, u64) -> u64) -> (Bench, u64) {
    const VALUE_BYTES: usize = 4000;
    let bench = Bench::of(8 << 20, Options::default());
    let count = (times << 23) / VALUE_BYTES as u64;
    for number in 0..count {
        bench.put(&key(place(number, count)), &[number as u8; VALUE_BYTES]);
    }
    bench.flush();
    (bench, count)
}

/// Intervals keep to two eighths of the memory, without the memory of the extents, in whatever
/// order the data were put, and also after they are opened again.
#[test]
fn the_index_keeps_to_its_share_of_data_twenty_five_times_the_memory() {
    let in_order = |number, _| number;
    let scattered = |number: u64, count| number * 7919 % count;
    for place in [in_order as fn(u64, u64) -> u64, scattered] {
        let (bench, count) = loaded(25, place);
        let share = bench.store.shared.memory_split().index_bytes();
        let most = 2 * share + share / 4;
        let taken = intervals_bytes(&bench);
        assert!(taken <= most, "{taken} bytes of {share}, {} intervals", bench.intervals());
        let all = bench.store.shared.index_memory.bytes();
        assert!(all <= 4 * share, "{all} bytes with the extents");
        bench.store.close().expect("closes");
        let device = Arc::clone(&bench.device);
        let opened = Bench::with(device, Arc::new(NoJournal), 8 << 20, Options::default());
        let bench = opened.expect("opens");
        let taken = intervals_bytes(&bench);
        assert!(taken <= most, "{taken} bytes of {share} when it was opened");
        for number in (0..count).step_by(997) {
            let value = bench.get(&key(place(number, count)));
            assert_eq!(value.map(|value| (value.len(), value[0])), Some((4000, number as u8)));
        }
        bench.check();
    }
}

/// Intervals of an old index that only a view holds do not count for the present index. Intervals
/// are not joined for them, since they would stay joined after the view is dropped.
#[test]
fn a_view_that_holds_an_old_index_has_nothing_joined() {
    let options = Options { interval_bytes: 256, tail_pairs_max: 0, ..small() };
    let bench = Bench::of(1 << 20, options);
    let share = bench.store.shared.memory_split().index_bytes();
    let mut count = 0;
    while intervals_bytes(&bench) < share + share / 20 {
        (0..50).for_each(|by| _ = bench.put(&key(count + by), &[1; 150]));
        count += 50;
        bench.flush();
    }
    let before = bench.intervals();
    let doublings = || bench.store.shared.index_memory.doublings();
    assert_eq!(doublings(), 0);
    let view = bench.view();
    for number in 0..count {
        bench.put(&key(number), &[2; 150]);
    }
    bench.flush();
    let after = bench.intervals();
    assert!(intervals_bytes(&bench) > 2 * share, "the view holds as much again");
    assert!(after > before * 3 / 4, "{after} intervals of {before}");
    assert_eq!((doublings(), bench.detail("intervals_coarsened")), (0, 0));
    drop(view);
    assert_eq!(bench.pairs().len() as u64, count);
}

/// If intervals may not be larger the index grows, and that is reported.
#[test]
fn an_index_that_is_too_large_for_the_memory_is_reported() {
    let bench = Bench::of(1 << 20, Options { interval_bytes: 1 << 10, ..small() });
    let told = |bench: &Bench| {
        let told = bench.store.background_errors();
        matches!(&told[..], [BackgroundError { cause: Error::OutOfMemory { limit }, refuses_writes: false, .. }]
            if *limit == 128 << 10)
    };
    let mut number = 0;
    while !told(&bench) {
        assert_eq!(bench.store.background_errors(), []);
        (0..100).for_each(|_| {
            bench.put(&key(number), &[7; 3000]);
            number += 1;
        });
        bench.flush();
        assert!(number < 40_000, "{} bytes of index", bench.store.shared.index_memory.bytes());
    }
    assert!(number > 200, "told after {number} pairs");
    assert!(bench.store.shared.index_memory.bytes() > 384 << 10);
    (0..number).for_each(|number| _ = bench.delete(&key(number)));
    bench.flush();
    bench.put(b"last", b"one");
    bench.flush();
    assert_eq!(bench.store.background_errors(), []);
}

/// Intervals of a store with little memory are joined again and again, and taken apart when there
/// is more.
#[test]
fn a_store_is_a_map_however_much_memory_there_is_for_its_index() {
    let bench = Bench::new();
    let mut model = BTreeMap::new();
    for step in 0..8_000_u64 {
        let name = key(step * 7919 % 3001);
        if step % 5 == 0 {
            bench.delete(&name);
            model.remove(&name);
        } else {
            let value = vec![step as u8; (step % 60) as usize];
            bench.put(&name, &value);
            model.insert(name, value);
        }
        if step % 400 == 399 {
            let memory = [4, 16, 64, 1024][(step / 400 % 4) as usize] << 10;
            bench.budget.set_limit(memory);
            bench.flush();
            let expected: Vec<_> = model.clone().into_iter().collect();
            assert!(bench.pairs() == expected, "step {step}: other pairs");
            for sought in 0..50 {
                let name = key(step * 31 % 3001 + sought);
                assert_eq!(bench.get(&name), model.get(&name).cloned(), "step {step}");
            }
        }
    }
    assert!(bench.detail("intervals_coarsened") > 5, "{}", bench.detail("intervals_coarsened"));
    bench.budget.set_limit(1 << 20);
    let bench = bench.reopen();
    assert!(bench.pairs() == model.into_iter().collect::<Vec<_>>());
    bench.store.close().expect("closes");
    assert_eq!(crate::check(&bench.device).expect("reads").damage, []);
}
