//! Sums are exact, print as in Redis if its floats are exact, and come back from their text.

use proptest::prelude::*;

use super::Decimal;

fn parse(text: &str) -> Option<Decimal> {
    Decimal::parse(text.as_bytes())
}

fn sum(a: &str, b: &str) -> Option<String> {
    Some(parse(a)?.add(&parse(b)?)?.to_text())
}

/// Replies of redis-server 7.0.15 to `SET k <first>` and `INCRBYFLOAT k <second>`.
const AS_REDIS: &[(&str, &str, &str)] = &[
    ("10.50", "0.1", "10.6"),
    ("0.1", "0.2", "0.3"),
    ("0.2", "1e-1", "0.3"),
    ("1.1", "2.2", "3.3"),
    ("0.7", "0.1", "0.8"),
    ("-0.1", "-0.2", "-0.3"),
    ("0.1", "-0.3", "-0.2"),
    ("10.6", "-5", "5.6"),
    ("5.0e3", "2.0e2", "5200"),
    ("3.0e3", "0", "3000"),
    ("1e2", "1e-2", "100.01"),
    ("1e-10", "1e-10", "0.0000000002"),
    ("123e-2", "1", "2.23"),
    ("1", "1e16", "10000000000000001"),
    ("1e16", "1", "10000000000000001"),
    ("4611686018427387904", "0.5", "4611686018427387904.5"),
    ("9223372036854775807", "0.5", "9223372036854775807.5"),
    ("9223372036854775808", "1", "9223372036854775809"),
    ("18446744073709551615", "1", "18446744073709551616"),
    ("99999999999999999999", "1", "100000000000000000000"),
    ("17179869184.25", "0.75", "17179869185"),
    ("0.000003814697265625", "0.000003814697265625", "0.00000762939453125"),
    ("1e22", "1e22", "20000000000000000000000"),
    ("0", "5e-324", "0"),
    ("0", "1e-4950", "0"),
    ("0", "1e-17", "0.00000000000000001"),
    ("1", "1e-17", "1.00000000000000001"),
    ("0", "1e-18", "0"),
    ("0", "5e-18", "0"),
    ("0", "6e-18", "0.00000000000000001"),
    ("6e-18", "6e-18", "0.00000000000000001"),
    ("0", "1.5e-17", "0.00000000000000002"),
    ("0", "2.5e-17", "0.00000000000000002"),
    ("0", "-1.5e-17", "-0.00000000000000002"),
    ("0", "-1e-20", "0"),
    ("0", "0.99999999999999999", "0.99999999999999999"),
    ("0", "0.999999999999999999", "1"),
    ("0", "3.14159265358979323846", "3.14159265358979324"),
    ("-0.0", "0", "0"),
    ("1", "-1", "0"),
    ("-1", "0.25", "-0.75"),
    ("00012", "1", "13"),
    ("+5", "+1", "6"),
    ("0", ".5", "0.5"),
    ("0", "5.", "5"),
    ("0", "1e+5", "100000"),
    ("0", "1E-5", "0.00001"),
    ("170141183460469231731687303715884105728", "0", "170141183460469231731687303715884105728"),
];

/// The same if Redis's floats are not exact: the exact sum, and Redis's reply.
const NOT_AS_REDIS: &[(&str, &str, &str, &str)] = &[
    ("9007199254740993", "1e-7", "9007199254740993.0000001", "9007199254740993"),
    ("1000000.1", "0.2", "1000000.3", "1000000.30000000000001137"),
    ("0", "123456789.123456789", "123456789.123456789", "123456789.12345678899873747"),
    ("1234567890123456", "0.1", "1234567890123456.1", "1234567890123456.0999755859375"),
    ("1e17", "1e-1", "100000000000000000.1", "100000000000000000.1015625"),
    ("12345678901234567890", "0.1", "12345678901234567890.1", "12345678901234567890"),
    ("18446744073709551616", "1", "18446744073709551617", "18446744073709551616"),
    ("1e20", "1", "100000000000000000001", "100000000000000000000"),
    ("1e21", "1", "1000000000000000000001", "1000000000000000000000"),
    (
        "170141183460469231731687303715884105728",
        "1",
        "170141183460469231731687303715884105729",
        "170141183460469231731687303715884105728",
    ),
];

#[test]
fn sums_print_as_redis_prints_them() {
    for (a, b, want) in AS_REDIS {
        assert_eq!(sum(a, b).as_deref(), Some(*want), "{a} + {b}");
    }
    for (a, b, want, redis) in NOT_AS_REDIS {
        assert_eq!(sum(a, b).as_deref(), Some(*want), "{a} + {b}, {redis} in Redis");
    }
}

#[test]
fn three_times_a_tenth_is_three_tenths() {
    let tenth = parse("1e-1").expect("a number");
    let sum = (0..3).try_fold(Decimal::ZERO, |sum, _| sum.add(&tenth)).expect("a number");
    assert_eq!(sum.to_text(), "0.3");
}

#[test]
fn text_that_is_no_number_is_refused() {
    for text in [
        "", "-", "+", ".", "e5", "1e", "1e+", "1e-", "nan", "NaN", "1x", " 1", "1 ", "1,5", "--1",
        "+-1", "1_0", "1.2.3", "1e5.0", "1e5e5", "1\0", "infin", "0x10",
    ] {
        assert_eq!(parse(text), None, "{text:?}");
    }
    assert_eq!(parse(&"0".repeat(5119)), Some(Decimal::ZERO));
    assert_eq!(parse(&"0".repeat(5120)), None);
}

#[test]
fn numbers_end_where_redis_ends_them() {
    for text in
        ["1e5000", "-1e4932", "1e99999999999999999999", "1e-5000", "1e-99999999999999999999"]
    {
        assert_eq!(parse(text), None, "{text}");
    }
    assert_eq!(parse("0e99999999999999999999"), Some(Decimal::ZERO));
    assert_eq!(sum("0", "1e4931").map(|text| text.len()), Some(4932));
    assert_eq!(sum("9e4931", "1e4931"), None);
    for text in ["inf", "-INF", "+infinity"] {
        assert_eq!(parse(text), Some(Decimal::Infinite));
        assert_eq!(sum(text, "1"), None);
        assert_eq!(sum("1", text), None);
    }
    // A sum that reaches the end by rounding would print as text that cannot be read back.
    let nines = format!("{}.{}", "9".repeat(4932), "9".repeat(20));
    assert_eq!(sum(&nines, "0"), None);
}

/// A number of at most 17 digits after the point and below 10^20.
fn fixed() -> impl Strategy<Value = i128> {
    const SCALE: i128 = 10_i128.pow(17);
    prop_oneof![
        -SCALE * 10_i128.pow(20) + 1..SCALE * 10_i128.pow(20),
        -1_000_000_i128..1_000_000,
        (-1000_i128..1000).prop_map(|whole| whole * SCALE),
    ]
}

fn fixed_text(value: i128) -> String {
    let digits = format!("{:018}", value.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len() - 17);
    let text = format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" });
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

proptest! {
    #[test]
    fn a_sum_is_that_of_integers_in_units_of_the_last_digit(a in fixed(), b in fixed()) {
        let want = fixed_text(a + b);
        prop_assert_eq!(sum(&fixed_text(a), &fixed_text(b)), Some(want));
    }

    #[test]
    fn what_was_added_can_be_taken_away(
        (a, b) in (-9_000_000_000_i64..9_000_000_000, -9_000_000_000_i64..9_000_000_000),
        (scale_a, scale_b) in (-17_i32..300, -17_i32..300),
    ) {
        let (a, b) = (format!("{a}e{scale_a}"), format!("{b}e{scale_b}"));
        let minus_b = match b.strip_prefix('-') {
            Some(positive) => positive.to_owned(),
            None => format!("-{b}"),
        };
        let there = sum(&a, &b).expect("a number");
        prop_assert_eq!(sum(&there, &minus_b), sum(&a, "0"));
    }

    #[test]
    fn a_printed_sum_is_read_as_the_same_number(
        whole in "[0-9]{0,40}", fraction in "[0-9]{1,40}", exponent in -60_i32..60, minus: bool,
    ) {
        let text = format!("{}{whole}.{fraction}e{exponent}", if minus { "-" } else { "" });
        let Some(number) = parse(&text).and_then(|number| number.add(&Decimal::ZERO)) else {
            return Err(TestCaseError::fail(text));
        };
        let printed = number.to_text();
        prop_assert_eq!(parse(&printed), Some(number));
        prop_assert_eq!(sum(&printed, "0"), Some(printed));
    }

    #[test]
    fn no_bytes_are_a_number_that_breaks_the_sum(bytes: Vec<u8>, text in "[-+0-9.eE]{0,12}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            if let Some(number) = Decimal::parse(bytes) {
                let sum = number.add(&number);
                prop_assert!(sum.is_none_or(|sum| parse(&sum.to_text()) == Some(sum)));
            }
        }
    }
}
