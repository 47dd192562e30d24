//! Numbers are read as strictly as Redis reads them.

use super::{Decimal, parse_i64, parse_u64};

#[test]
fn integers_are_strict() {
    for number in [0, 1, -1, 42, i64::MAX, i64::MIN, 1_000_000_007] {
        assert_eq!(parse_i64(number.to_string().as_bytes()), Some(number));
    }
    for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "abc"] {
        assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(parse_i64(b"-9223372036854775809"), None);
    assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(parse_u64(b"+1"), None);
}

#[test]
fn decimals_add_as_people_expect() {
    let sum = |a: &str, b: &str| {
        let (a, b) = (Decimal::parse(a.as_bytes()), Decimal::parse(b.as_bytes()));
        a.zip(b).and_then(|(a, b)| a.add(b)).map(Decimal::to_text)
    };
    for (a, b, want) in [
        ("10.50", "0.1", "10.6"),
        ("0.1", "0.2", "0.3"),
        ("10.6", "-5", "5.6"),
        ("5.0e3", "2.0e2", "5200"),
        ("-1", "0.25", "-0.75"),
        ("1", "-1", "0"),
        ("3.0e3", "0", "3000"),
        ("100000000000000000000", "1", "100000000000000000000"),
    ] {
        assert_eq!(sum(a, b).as_deref(), Some(want), "{a} + {b}");
    }
    assert_eq!(sum("inf", "1"), None);
    assert_eq!(sum("1e308", "1e308"), None);
    for text in ["", "nan", "1x", " 1", "1,5"] {
        assert_eq!(Decimal::parse(text.as_bytes()), None, "{text:?}");
    }
}
