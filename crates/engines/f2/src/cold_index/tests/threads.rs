//! Several threads that change the index, concurrent with readers and a compaction.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Bench, TINY, at, go_on, position, put, replace};

#[test]
fn no_change_is_lost_and_nothing_is_missed() {
    const STAYING: u64 = 500;
    const WRITERS: u64 = 2;
    const ROUNDS: u64 = 40;
    const GROUP: u64 = 250;
    let bench = &Bench::new(TINY);
    bench.apply((0..STAYING).map(|key| put(key, at(key + 1))).collect());
    let done = &AtomicBool::new(false);
    let looks = &AtomicU64::new(0);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let first = 1_000 + writer * 100_000;
                    for round in 0..ROUNDS {
                        let mut changes: Vec<_> = (0..GROUP)
                            .map(|key| first + round * GROUP + key)
                            .map(|key| put(key, at(key + 1)))
                            .collect();
                        if round > 0 {
                            // Those of the round before move on.
                            let before = first + (round - 1) * GROUP;
                            changes.extend(
                                (before..before + GROUP)
                                    .map(|key| replace(key, at(key + 1), at(1_000_000 + key))),
                            );
                        }
                        let applied = bench.apply(changes);
                        assert_eq!(applied.missed, []);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let until = bench.log.flushed();
                assert!(bench.index.compact(until, &go_on(), &|_| ()).expect("compacts"));
                bench.log.segments.remove_below(until).expect("removes");
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for key in 0..STAYING {
                    let found = bench.find(position(key));
                    assert!(found.contains(&at(key + 1)), "{key} was there all the while");
                    looks.fetch_add(1, Ordering::Relaxed);
                }
                let mut items: Vec<_> = (0..STAYING).map(|key| (position(key), key)).collect();
                let visited = bench.index.visit(&mut items, &go_on(), &mut |key, found| {
                    assert!(found.contains(&at(key + 1)), "{key} was there all the while");
                    Ok(())
                });
                assert!(visited.expect("all are read"));
            }
        });
        for writer in writers {
            writer.join().expect("ends");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(looks.load(Ordering::Relaxed) > 0);
    assert_eq!(bench.index.figures().entries, STAYING + WRITERS * ROUNDS * GROUP);
    for writer in 0..WRITERS {
        let first = 1_000 + writer * 100_000;
        for key in first..first + ROUNDS * GROUP {
            let is_last = key >= first + (ROUNDS - 1) * GROUP;
            let expected = if is_last { at(key + 1) } else { at(1_000_000 + key) };
            assert!(bench.find(position(key)).contains(&expected), "{key} is lost");
        }
    }
}
