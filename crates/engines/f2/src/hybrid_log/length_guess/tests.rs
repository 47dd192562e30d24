//! The value that the guess approaches.

use super::{BYTES_MAX, LengthGuess};

/// Returns the number of records of a thousand that are longer than their guess, and the last
/// guess.
fn too_short(lengths: impl Fn(usize) -> usize) -> (usize, usize) {
    let guess = LengthGuess::default();
    let note = |number| {
        let is_longer = lengths(number) > guess.get();
        guess.note(lengths(number));
        is_longer
    };
    let _unchecked = (0..100).filter(|number| note(*number)).count();
    ((100..1_100).filter(|number| note(*number)).count(), guess.get())
}

#[test]
fn most_records_fit() {
    for length in [24, 100, 1_000, 8_000, 16_000] {
        let (longer, guess) = too_short(|_| length);
        assert!(longer <= 150, "{longer} of a thousand with {length} bytes");
        assert!(guess < 2 * length.max(64), "{guess} bytes for {length}");
    }
    let (longer, _) = too_short(|number| 1_000 + number * 7_919 % 3_000);
    assert!((50..200).contains(&longer), "{longer} of a thousand from one to four thousand");
    let (_, guess) = too_short(|_| 1 << 20);
    assert_eq!(guess, BYTES_MAX);
}
