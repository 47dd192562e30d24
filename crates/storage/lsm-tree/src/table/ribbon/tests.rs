//! Ribbon filters: no key is denied, and both kinds of filters are counted next to each other.

use proptest::prelude::*;

use super::*;
use crate::table::FilterKind;
use crate::table::filter::{self, Filter};

fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|number| filter::hash(&number.to_be_bytes())).collect()
}

#[test]
fn no_key_is_denied() {
    for columns in [1, 7, 30] {
        for keys in [1, 2, 63, 64, 127, 128, 129, 1000, 20_000] {
            let hashes = hashes(0..keys);
            let bytes = build(&hashes, columns);
            let ribbon = Filter::decode(&bytes, Home::Own).expect("it was just written");
            let denied = hashes.iter().filter(|hash| !ribbon.may_contain(**hash)).count();
            assert_eq!(denied, 0, "of {keys} keys in {columns} columns");
        }
    }
}

/// The keys are always the same ones, and so are the counts.
#[test]
fn a_ribbon_takes_less_than_a_bloom_filter_and_lets_no_more_through() {
    const KEYS: u64 = 100_000;
    let there = hashes(0..KEYS);
    let absent = hashes(KEYS..11 * KEYS);
    for bits in [5, 10, 15, 20] {
        let [bloom, ribbon] = [FilterKind::Bloom, FilterKind::Ribbon].map(|kind| {
            let bytes = filter::build(kind, &there, bits);
            let filter = Filter::decode(&bytes, Home::Own).expect("it was just written");
            let passed = absent.iter().filter(|hash| filter.may_contain(**hash)).count();
            let per_key = 8.0 * bytes.len() as f64 / KEYS as f64;
            println!("{kind:?} {bits}: {per_key:.2} bits a key, {passed} of a million pass");
            (per_key, passed)
        });
        assert!(ribbon.0 < 0.85 * bloom.0, "{ribbon:?} {bloom:?}");
        assert!(ribbon.1 <= bloom.1 + 30, "{ribbon:?} {bloom:?}");
        let expected = 1e6 / f64::from(1_u32 << columns(bits));
        let most = 1.1 * expected + 4.0 * expected.sqrt();
        assert!((ribbon.1 as f64) < most, "{ribbon:?}, {expected} are expected");
    }
}

#[test]
fn memory_for_building_is_what_is_charged_for_it() {
    let (keys, columns) = (100_000, columns(10));
    let built = band(&hashes(0..100_000), rows(keys, columns)).len() * WORD;
    assert!((built..built * 5 / 4).contains(&building_bytes(keys, columns)));
    assert!(building_bytes(keys, columns) < 20 * keys);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), hash in any::<u64>()) {
        let bytes = [&[MARK | (bytes.len() as u8 % 4)], bytes.as_slice()].concat();
        if let Ok(filter) = Filter::decode(&bytes, Home::Own) {
            let _ = filter.may_contain(hash);
        }
    }
}
