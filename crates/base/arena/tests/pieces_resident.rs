//! Memory that a pool of pieces takes, as the system counts it, against the pool's own count.
//!
//! One test, in a process of its own, so that nothing else is in the resident set.
#![cfg(not(any(loom, shuttle)))]

mod system;

use system::resident_bytes;
use thermocline_arena::pieces::{Piece, Pool};

/// Bytes of memory other than the pool: the list of pieces, and data on slabs.
const BESIDE: u64 = 3 << 20;

fn check(pool: &Pool, before: u64, what: &str) {
    let (found, said) = (resident_bytes().saturating_sub(before), pool.resident());
    println!("{found} bytes, {said} are said, {} of them idle: {what}", pool.idle());
    assert!(found.abs_diff(said) < BESIDE, "{found} bytes, {said} are said: {what}");
}

#[test]
fn what_is_resident_is_what_is_said() {
    let before = resident_bytes();
    let pool = Pool::new(256 << 10);
    let mut random = 1_u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let filled = |len: usize| {
        let mut piece = pool.take(len);
        piece.fill(1);
        piece
    };
    let mut held: Vec<Piece> = (0..16_000).map(|_| filled(4096 + below(110))).collect();
    assert!(pool.resident() > 64 << 20 && pool.resident() < 68 << 20, "{}", pool.resident());
    check(&pool, before, "blocks of 4 KiB and a little");
    (0..8000).for_each(|_| drop(held.swap_remove(below(held.len()))));
    check(&pool, before, "half of them at random");
    // A quarter: pages of which both pieces were dropped.
    assert!(pool.release(u64::MAX) > 12 << 20);
    check(&pool, before, "and what is idle given back");
    held.extend((0..2000).map(|_| filled(16 << 10)));
    check(&pool, before, "and as much in longer ones");
    held.extend((0..100).map(|_| filled(200_000)));
    check(&pool, before, "and some that have mappings of their own");
    held.clear();
    check(&pool, before, "and all of them gone");
    assert!(pool.resident() < 1 << 20, "an empty slab a class, of some classes");
    pool.release(u64::MAX);
    assert_eq!(pool.resident(), 0);
    check(&pool, before, "and what is idle given back");
}
