//! The cost of a piece of a block's length.
//!
//! It is filled, and compared with one of the allocator; and with threads that want the same class
//! at the same time.

use std::thread::scope;

use criterion::{Criterion, criterion_group, criterion_main};
use thermocline_arena::pieces::Pool;

/// A block of 4 KiB and a little.
const LEN: usize = 4200;
/// Pieces that a thread holds, and drops in turns.
const HELD: usize = 1000;
const TURNS: usize = 10_000;

/// Runs `threads` threads, each of which drops its oldest piece and takes one, again and again.
fn turns<T>(threads: usize, take: impl Fn() -> T + Sync) {
    scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut held: Vec<_> = (0..HELD).map(|_| take()).collect();
                for turn in 0..TURNS {
                    held[turn % HELD] = take();
                }
            });
        }
    });
}

fn pieces(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pieces");
    let block = vec![7; LEN];
    for threads in [1, 2, 4] {
        let pool = Pool::new(1 << 20);
        group.bench_function(format!("10000_of_the_pool/{threads}_threads"), |b| {
            b.iter(|| turns(threads, || pool.copy(&block)));
        });
        group.bench_function(format!("10000_of_the_allocator/{threads}_threads"), |b| {
            b.iter(|| turns(threads, || block.clone()));
        });
    }
    group.finish();
}

criterion_group!(benches, pieces);
criterion_main!(benches);
