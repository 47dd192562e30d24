//! Numbers are shown with units that a reader can take in.

use super::table::{bytes, count, micros};

#[test]
fn numbers_have_units() {
    assert_eq!([count(999.0), count(12_345.0), count(2.5e6)], ["999", "12.3 k", "2.50 M"]);
    assert_eq!([bytes(100), bytes(2048), bytes(3 << 30)], ["100 B", "2.0 KiB", "3.00 GiB"]);
    assert_eq!([micros(1.5), micros(1500.0), micros(2e6)], ["1.50 us", "1.50 ms", "2.00 s"]);
}
