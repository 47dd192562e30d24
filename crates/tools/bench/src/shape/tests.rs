//! Keys go to bytes and back; shapes parse; sizes follow their distribution.

use super::keys::{mix, unmix};
use super::*;

#[test]
fn numbers_come_back_from_keys() {
    let mut scratch = Vec::new();
    let mut key = Vec::new();
    for order in [KeyOrder::Hashed, KeyOrder::ByNumber] {
        for bytes in [8, 9, 24, 27, 48] {
            let keys = Keys::generated(bytes, order);
            for number in [0, 1, 77, 99_999_999, u64::MAX] {
                keys.write(number, &mut key);
                assert_eq!(key.len(), bytes);
                assert_eq!(keys.number(&key, &mut scratch), Some(number));
                if bytes > 8 {
                    *key.last_mut().unwrap() ^= 1;
                    assert_eq!(keys.number(&key, &mut scratch), None);
                }
            }
            assert_eq!(keys.number(b"short", &mut scratch), None);
        }
    }
    for number in 0..1000 {
        assert_eq!(unmix(mix(number)), number);
    }
}

#[test]
fn keys_by_number_sort_by_number() {
    let keys = Keys::generated(24, KeyOrder::ByNumber);
    let all: Vec<Vec<u8>> = (0..1000)
        .map(|number| {
            let mut key = Vec::new();
            keys.write(number, &mut key);
            key
        })
        .collect();
    assert!(all.is_sorted());
}

#[test]
fn shapes_parse_and_print_alike() {
    for text in ["8+100", "24+1000", "27+127", "48+43", "28+396", "48+pareto"] {
        assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
    }
    for text in ["", "8", "8+", "7+100", "8+7", "+", "8+100+1", "x+y", "-8+100", "8+99999999"] {
        assert!(text.parse::<Shape>().is_err(), "{text:?}");
    }
}

#[test]
fn pareto_sizes_repeat_for_a_version_and_have_the_stated_mean() {
    let shape: Shape = "48+pareto".parse().unwrap();
    assert_eq!(shape.value_bytes(5, 9), shape.value_bytes(5, 9));
    let sum: usize = (0..100_000).map(|key| shape.value_bytes(hash(&[key as u8]), key)).sum();
    let mean = sum as f64 / 100_000.0 + 48.0;
    assert!((mean / shape.pair_bytes() - 1.0).abs() < 0.02, "{mean} {}", shape.pair_bytes());
}
