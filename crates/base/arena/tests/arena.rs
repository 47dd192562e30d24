//! An arena's words: zero, stored, released while in use, and aligned for huge pages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::scope;

use thermocline_arena::Arena;

/// Words of a page of the system.
const PAGE: usize = 512;

fn sum(words: &[AtomicU64]) -> u64 {
    words.iter().map(|word| word.load(Relaxed)).sum()
}

fn fill(words: &[AtomicU64]) {
    words.iter().for_each(|word| word.store(1, Relaxed));
}

#[test]
fn what_is_given_back_is_zero_and_the_rest_stays() {
    let arena = Arena::new(8 * PAGE);
    assert_eq!((arena.words().len(), sum(arena.words())), (8 * PAGE, 0));
    fill(arena.words());
    arena.release(2 * PAGE..4 * PAGE);
    assert_eq!(sum(&arena.words()[..2 * PAGE]), 2 * PAGE as u64);
    assert_eq!(sum(&arena.words()[2 * PAGE..4 * PAGE]), 0);
    assert_eq!(sum(&arena.words()[4 * PAGE..]), 4 * PAGE as u64);
    fill(&arena.words()[2 * PAGE..4 * PAGE]);
    assert_eq!(sum(arena.words()), 8 * PAGE as u64);
}

#[test]
fn words_that_share_a_page_with_others_are_left_alone() {
    let arena = Arena::new(4 * PAGE);
    fill(arena.words());
    arena.release(1..PAGE);
    arena.release(PAGE..PAGE);
    arena.release(PAGE - 1..PAGE + 1);
    assert_eq!(sum(arena.words()), 4 * PAGE as u64);
    arena.release(1..2 * PAGE + 1);
    assert_eq!(sum(arena.words()), 3 * PAGE as u64);
}

#[test]
fn an_arena_without_words_is_one_too() {
    let arena = Arena::new(0);
    arena.release(0..0);
    arena.advise_huge();
    assert!(arena.words().is_empty());
}

#[test]
#[should_panic(expected = "out of range")]
fn a_range_of_others_is_refused() {
    Arena::new(PAGE).release(0..PAGE + 1);
}

#[test]
fn long_arenas_begin_at_a_huge_page() {
    for words in [1, PAGE, 1 << 17, 1 << 18, (1 << 18) + 1, 3 << 18] {
        let arena = Arena::new(words);
        arena.advise_huge();
        let alignment = if words >= 1 << 18 { 2 << 20 } else { 4096 };
        assert_eq!(arena.words().as_ptr().addr() % alignment, 0, "{words} words");
        fill(arena.words());
        assert_eq!(sum(arena.words()), words as u64);
    }
}

/// Threads use words that are released all the while, and find their stored values or zero.
#[test]
fn words_may_be_used_while_they_are_given_back() {
    let arena = Arena::new(64 * PAGE);
    let (done, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    scope(|scope| {
        for thread in 1..3_u64 {
            let (arena, done, seen) = (&arena, &done, &seen);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    for word in arena.words().iter().step_by(PAGE / 4) {
                        word.store(thread, Relaxed);
                        assert!(word.load(Relaxed) < 3);
                        seen.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        while seen.load(Relaxed) < 100_000 {
            arena.release(0..64 * PAGE);
        }
        done.store(true, Relaxed);
    });
    arena.release(0..64 * PAGE);
    assert_eq!(sum(arena.words()), 0);
}
