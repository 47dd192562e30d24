//! An idle store: its upkeep sleeps, and comes often again once it has something to do.

use std::time::Duration;

use engine::Engine;

use super::stores::{Bench, key, tiny, value};
use crate::upkeep::INTERVAL;

/// Tasks of upkeep that run in ten seconds.
fn tasks_in_ten_seconds(bench: &Bench, mut meanwhile: impl FnMut(u64)) -> usize {
    let looks = (Duration::from_secs(10).as_millis() / INTERVAL.as_millis()) as u64;
    let run = |look| {
        meanwhile(look);
        bench.advance_by(INTERVAL)
    };
    (0..looks).map(run).sum()
}

#[test]
fn upkeep_of_an_idle_store_sleeps_until_it_has_something_to_do() {
    let bench = Bench::open_by_hand(device::memory(), tiny(), 1);
    bench.put(&key(1), &value(1, 0, 8));
    let busy = tasks_in_ten_seconds(&bench, |look| bench.put(&key(look), &value(look, 0, 8)));
    tasks_in_ten_seconds(&bench, |_| {});
    assert_eq!(tasks_in_ten_seconds(&bench, |_| {}), 0, "{busy} while there were writes");
    let again = tasks_in_ten_seconds(&bench, |look| bench.put(&key(look), &value(look, 0, 8)));
    assert!(again * 10 > busy * 9, "{again}, {busy} before");
}

#[test]
fn upkeep_is_woken_by_whatever_gives_it_something_to_do() {
    const LIMIT: u64 = 16 << 20;
    let options = crate::Options::default();
    let bench = Bench::open_by_hand_within(LIMIT, device::memory(), options, 1);
    bench.put(&key(1), &value(1, 0, 8));
    let wakes: [(&str, &dyn Fn()); 3] = [
        ("a write in place", &|| bench.put(&key(1), &value(1, 1, 8))),
        ("a flush", &|| bench.store.flush().expect("flushes")),
        ("another limit of the memory", &|| {
            assert_eq!(bench.store.resize_memory(LIMIT / 4 * 3), Ok(LIMIT / 4 * 3));
        }),
    ];
    for (what, wake) in wakes {
        tasks_in_ten_seconds(&bench, |_| {});
        assert_eq!(tasks_in_ten_seconds(&bench, |_| {}), 0, "before {what}");
        wake();
        assert!(tasks_in_ten_seconds(&bench, |_| {}) > 0, "{what} wakes it");
    }
}
