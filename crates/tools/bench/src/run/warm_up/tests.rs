//! Which intervals are alike.

use super::Sample;

fn is_steady(before: (f64, f64), now: (f64, f64)) -> bool {
    let sample = |(resident_bytes, reads_per_op)| Sample { resident_bytes, reads_per_op };
    sample(now).change_since(&sample(before)).is_small()
}

#[test]
fn intervals_are_alike_below_two_percent_of_both_measures() {
    assert!(is_steady((100.0, 0.5), (101.9, 0.509)));
    assert!(!is_steady((100.0, 0.5), (102.1, 0.5)), "the resident set grew");
    assert!(!is_steady((100.0, 0.5), (100.0, 0.511)), "more reads");
    assert!(!is_steady((100.0, 0.5), (100.0, 0.489)), "fewer reads");
    assert!(!is_steady((100.0, 0.0), (100.0, 0.5)), "reads began");
}

#[test]
fn one_read_in_a_thousand_operations_is_no_difference() {
    assert!(is_steady((100.0, 0.0002), (100.0, 0.0009)));
    assert!(is_steady((100.0, 0.0), (100.0, 0.0)));
    assert!(!is_steady((100.0, 0.0002), (100.0, 0.0022)));
}
