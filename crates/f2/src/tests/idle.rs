//! An idle store: its upkeep comes rarely, and often again once something is written.

use std::time::Duration;

use super::stores::{Bench, key, tiny, value};
use crate::upkeep::{INTERVAL, INTERVAL_IDLE};

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
fn upkeep_of_an_idle_store_comes_rarely() {
    let bench = Bench::open_by_hand(device::memory(), tiny(), 1);
    bench.put(&key(1), &value(1, 0, 8));
    let busy = tasks_in_ten_seconds(&bench, |look| bench.put(&key(look), &value(look, 0, 8)));
    tasks_in_ten_seconds(&bench, |_| {});
    let idle = tasks_in_ten_seconds(&bench, |_| {});
    let ratio = (INTERVAL_IDLE.as_millis() / INTERVAL.as_millis()) as usize;
    assert!(idle > 0 && idle * (ratio - 2) < busy, "{idle} idle, {busy} busy");
    let again = tasks_in_ten_seconds(&bench, |look| bench.put(&key(look), &value(look, 0, 8)));
    assert!(again * 10 > busy * 9, "{again}, {busy} before");
}
