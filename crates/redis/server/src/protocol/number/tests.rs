//! Numbers are read as strictly as Redis reads them.

use super::{parse_i64, parse_u64};

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
