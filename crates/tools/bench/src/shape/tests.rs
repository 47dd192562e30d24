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
fn parts_of_the_key_space_have_about_the_same_number_of_keys() {
    let name = |number: u32| number.to_string().into_bytes().into_boxed_slice();
    let names: Vec<Box<[u8]>> = (0..900).map(name).collect();
    let generated = [KeyOrder::Hashed, KeyOrder::ByNumber].map(|order| Keys::generated(12, order));
    for keys in generated.into_iter().chain([Keys::listed(names)]) {
        let splits = keys.splits(900, 3);
        assert!(splits.is_sorted() && splits.len() == 2, "{splits:?}");
        let mut counts = [0; 3];
        let mut key = Vec::new();
        for number in 0..900 {
            keys.write(number, &mut key);
            counts[splits.partition_point(|split| *split <= key)] += 1;
        }
        assert!(counts.iter().all(|count| (230..370).contains(count)), "{counts:?}");
        assert_eq!(keys.splits(900, 1), Vec::<Vec<u8>>::new());
    }
    let few = Keys::generated(8, KeyOrder::ByNumber).splits(2, 8);
    assert_eq!(few, [1_u64.to_be_bytes().to_vec()]);
}

#[test]
fn shapes_parse_and_print_alike() {
    let usual = ["8+100", "24+1000", "27+127", "48+43", "28+396", "48+pareto"];
    for text in usual.into_iter().chain(["24+mix:40:1000:1:2", "24+zipf:40:8192"]) {
        assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
    }
    for text in ["", "8", "8+", "7+100", "8+7", "+", "8+100+1", "x+y", "-8+100", "8+99999999"] {
        assert!(text.parse::<Shape>().is_err(), "{text:?}");
    }
    let of_many = ["mix", "mix:40:1000", "mix:40:1000:0:2", "mix:4:1000:1:2", "mix:40:1000:1:2:3"];
    for value in of_many.into_iter().chain(["zipf", "zipf:40", "zipf:41:40", "zipf:4:90", "100:1"])
    {
        assert!(format!("24+{value}").parse::<Shape>().is_err(), "{value:?}");
    }
}

#[test]
fn a_mix_has_its_parts_and_a_key_keeps_its_size() {
    let shape: Shape = "24+mix:40:1000:1:2".parse().unwrap();
    let sizes = (0..30_000_u64).map(|key| shape.value_bytes(key, 0));
    let small = sizes.filter(|bytes| *bytes == 40).count();
    assert!((9_700..10_300).contains(&small), "{small}");
    assert_eq!(shape.value_bytes(5, 9), shape.value_bytes(5, 10));
    assert!((shape.pair_bytes() - (24.0 + 2040.0 / 3.0)).abs() < 0.01);
}

#[test]
fn zipf_sizes_are_mostly_small_and_within_their_bounds() {
    let shape: Shape = "24+zipf:40:8192".parse().unwrap();
    let mut counts = vec![0_u32; 8193];
    (0..100_000).for_each(|version| counts[shape.value_bytes(7, version)] += 1);
    assert!(counts[..40].iter().all(|count| *count == 0));
    // The exact shares of the first and of the tenth size are 10.0% and 1.02%.
    assert!((9_500..12_500).contains(&counts[40]), "{}", counts[40]);
    assert!((850..1_250).contains(&counts[49]), "{}", counts[49]);
    assert!(counts[8000..].iter().sum::<u32>() > 100);
}

#[test]
fn pareto_sizes_repeat_for_a_version_and_have_the_stated_mean() {
    let shape: Shape = "48+pareto".parse().unwrap();
    assert_eq!(shape.value_bytes(5, 9), shape.value_bytes(5, 9));
    let sum: usize = (0..100_000).map(|key| shape.value_bytes(hash(&[key as u8]), key)).sum();
    let mean = sum as f64 / 100_000.0 + 48.0;
    assert!((mean / shape.pair_bytes() - 1.0).abs() < 0.02, "{mean} {}", shape.pair_bytes());
}
