//! Intervals with more updates than are planned together.

use std::collections::BTreeMap;

use engine::Engine;
use environment::Random;
use rand::RngExt;

use super::stores::{Bench, key, small};
use crate::Options;

/// Rounds of few updates, and memtables of many: only what flushes commits.
fn short_rounds() -> Options {
    Options { memtable_bytes_max: 4 << 20, round_updates_max: 4, round_bytes_max: 100, ..small() }
}

/// The first interval disappears in its first round, so the next interval takes the rest of its
/// updates; and the next one has updates of its own.
#[test]
fn what_is_left_of_an_interval_that_is_gone_is_put_to_the_next_one() {
    for value in [10, 40, 400] {
        let bench = Bench::of(64 << 20, short_rounds());
        let mut model: BTreeMap<_, _> =
            (0..30).map(|number| (key(100 * number), vec![1; 20])).collect();
        model.iter().for_each(|(name, value)| _ = bench.put(name, value));
        bench.flush();
        let second = {
            let committer = bench.store.shared.committer.lock();
            let index = committer.index().now();
            let length = index.get(0).expect("an interval").length;
            crate::index::bound_at(index, u64::from(length)).expect("a second one").clone()
        };
        let of_first: Vec<_> = model.keys().filter(|name| ***name < *second).cloned().collect();
        assert!((1..=4).contains(&of_first.len()), "one round takes the first interval out");
        for name in &of_first {
            bench.delete(name);
            model.remove(name);
        }
        let last = of_first.last().expect("a pair");
        // Absent, and enough that they are part of another round.
        for letter in b'a'..=b'z' {
            bench.delete(&[&last[..], &[letter]].concat());
        }
        let mut put = |name: Vec<u8>, value: Vec<u8>| {
            bench.put(&name, &value);
            model.insert(name, value);
        };
        put([&last[..], b"zz"].concat(), vec![2; 33]);
        for number in 0..12 {
            let number = 100 * (number + of_first.len() as u64);
            put(key(number), vec![3; value]);
            put(key(number + 1), vec![4; 5]);
        }
        bench.flush();
        let model: Vec<_> = model.into_iter().collect();
        assert_eq!(bench.pairs(), model);
        bench.store.shared.cache.shrink(0);
        assert_eq!(bench.pairs(), model);
        bench.store.close().expect("closes");
        assert_eq!(crate::check(&bench.device).expect("reads").damage, vec![]);
        assert_eq!(Bench::on(bench.0.device).expect("opens").pairs(), model);
    }
}

/// Random puts and deletes of runs of keys, compared with a map. Intervals have many more of them
/// than one round takes.
#[test]
fn a_store_is_a_map_in_however_many_rounds_its_intervals_change() {
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| environment::Seed::from_entropy().get());
    println!(
        "seed {seed}; to replay, THERMOCLINE_SEED={seed} cargo test -p thermocline-flexdb rounds"
    );
    let mut random: Random = environment::Seed::from(seed).stream("rounds");
    let bench = Bench::of(64 << 20, short_rounds());
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..300_u64 {
        for _ in 0..random.random_range(1..8) {
            let from = random.random_range(0..400) * u64::from(random.random_range(0..4) > 0);
            let is_delete = random.random_range(0..2) == 0;
            for number in from..from + random.random_range(1..40) {
                let name = key(number);
                if is_delete {
                    bench.delete(&name);
                    model.remove(&name);
                } else {
                    let value = vec![round as u8; random.random_range(0..60)];
                    bench.put(&name, &value);
                    model.insert(name, value);
                }
            }
        }
        if random.random_range(0..3) == 0 {
            bench.store.shared.cache.shrink(0);
        }
        bench.flush();
        assert_eq!(bench.pairs(), model.clone().into_iter().collect::<Vec<_>>(), "round {round}");
    }
}
