//! Rates are of the last samples alone.

use std::time::Duration;

use thermocline::environment::Monotonic;

use super::{Counts, Rates};

#[test]
fn rates_are_of_the_last_samples() {
    let rates = Rates::default();
    assert_eq!(rates.per_second(), Counts::default());
    let at = |ms: u64| Monotonic::from_nanos(Duration::from_millis(ms).as_nanos() as u64);
    let counts = |executed| Counts { executed, input_bytes: 2 * executed, output_bytes: 0 };
    rates.sample(at(0), counts(1_000_000), 70);
    assert_eq!(rates.per_second(), Counts::default(), "one sample is no rate");
    for tick in 1..=5 {
        rates.sample(at(500 * tick), counts(1_000_000 + 100 * tick), 50);
    }
    assert_eq!(rates.per_second(), counts(200), "100 in each half second");
    rates.sample(at(3000), counts(0), 60);
    assert_eq!(rates.per_second(), Counts::default(), "the counts were set back");
    assert_eq!(rates.note_memory(60), 70);
}
