//! Bytes between any two addresses, counted one by one.

use super::Gaps;
use crate::address::LogAddress;

#[test]
fn bytes_in_gaps_are_none() {
    let gaps = [(3, 8), (10, 10), (12, 13), (13, 16), (30, 31)];
    let addresses = gaps.map(|(from, to)| (LogAddress::new(from), LogAddress::new(to)));
    let told = Gaps::new(addresses);
    let is_in_none = |byte: &u64| gaps.iter().all(|(from, to)| !(*from..*to).contains(byte));
    for from in 0..40 {
        for to in 0..40 {
            let counted = (from..to).filter(is_in_none).count() as u64;
            let bytes = told.bytes_between(LogAddress::new(from), LogAddress::new(to));
            assert_eq!(bytes, counted, "{from} to {to}");
        }
    }
    let none = Gaps::default();
    assert_eq!(none.bytes_between(LogAddress::new(5), LogAddress::new(9)), 4);
}
