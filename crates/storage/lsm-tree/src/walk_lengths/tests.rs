//! Expected lengths of walks.

use super::WalkLengths;

/// More than any walk of these tests.
const MANY: u64 = 1 << 20;

#[test]
fn walks_of_one_length_are_expected_with_a_margin() {
    let lengths = WalkLengths::default();
    assert_eq!(lengths.expected(3), 0, "nothing is expected before the first walk");
    for _ in 0..100 {
        lengths.note(3, 48_000, MANY);
    }
    let expected = lengths.expected(3);
    assert!((48_000..=54_000).contains(&expected), "{expected}");
    assert_eq!(lengths.expected(2), 0, "levels are apart");
}

#[test]
fn a_level_that_is_not_there_expects_nothing() {
    let lengths = WalkLengths::default();
    lengths.note(99, 1000, MANY);
    assert_eq!(lengths.expected(99), 0);
}

#[test]
fn most_walks_of_mixed_lengths_are_within_the_expected_length() {
    let lengths = WalkLengths::default();
    let walks: Vec<u64> = (0..2000_u64).map(|number| number * 7919 % 100 * 1000).collect();
    walks.iter().for_each(|bytes| lengths.note(1, *bytes, MANY));
    let expected = lengths.expected(1);
    let within = walks.iter().filter(|bytes| **bytes <= expected).count();
    assert!(within * 4 > walks.len() * 3, "{within} of {} within {expected}", walks.len());
    assert!(expected < 100_000, "{expected} is more than the longest walk");
}

#[test]
fn walks_that_become_short_are_soon_expected_to_be_short() {
    let lengths = WalkLengths::default();
    (0..100).for_each(|_| lengths.note(1, 100_000, MANY));
    (0..400).for_each(|_| lengths.note(1, 4000, MANY));
    let expected = lengths.expected(1);
    assert!(expected < 8000, "{expected}");
}

#[test]
fn a_few_very_long_walks_count_as_the_longest_read() {
    let lengths = WalkLengths::default();
    for number in 0..1000 {
        let bytes = if number % 100 == 0 { u64::MAX } else { 4000 };
        lengths.note(1, bytes, 128 << 10);
    }
    let expected = lengths.expected(1);
    assert!((4000..24_000).contains(&expected), "{expected}");
}
