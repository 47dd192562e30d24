//! Records in memory against a plain model, and their bytes on disk.

use proptest::collection::vec;
use proptest::prelude::*;
use sync::atomic::{AtomicU64, Ordering};

use super::{Damage, InPlace, Live, Read, Shape, Stored, stamp};
use crate::address::LogAddress;

const SALT: u64 = 0x5a17;
const AT: LogAddress = LogAddress::new(0x1234_0000);

fn words(bytes: usize) -> Vec<AtomicU64> {
    (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(u64::MAX)).collect()
}

fn record(key: &[u8], value: Option<&[u8]>) -> Vec<AtomicU64> {
    let shape = Shape { key_bytes: key.len(), value_bytes: value.map_or(0, <[u8]>::len) };
    let words = words(shape.bytes());
    Live::new(&words).write(LogAddress::new(0x77), key, value);
    words
}

fn on_disk(words: &[AtomicU64]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    assert_eq!(stamp(&mut bytes, SALT, AT), bytes.len());
    bytes
}

fn value_of(live: Live<'_>) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    (live.read(&mut value) == Read::Value).then_some(value)
}

proptest! {
    #[test]
    fn what_is_written_is_read(key in vec(any::<u8>(), 0..40), value in vec(any::<u8>(), 0..80)) {
        let words = record(&key, Some(&value));
        let live = Live::new(&words);
        prop_assert!(live.is_of(&key));
        prop_assert!(!live.is_of(&[&key[..], b"x"].concat()));
        prop_assert_eq!(value_of(live), Some(value.clone()));
        let bytes = on_disk(&words);
        let stored = Stored::decode(&bytes, SALT, AT).expect("it is whole");
        prop_assert_eq!(stored.key, &key[..]);
        prop_assert_eq!(stored.value, Some(&value[..]));
        prop_assert_eq!(stored.header.previous(), LogAddress::new(0x77));
    }

    #[test]
    fn a_change_in_place_is_as_good_as_a_new_record(
        key in vec(any::<u8>(), 0..20),
        values in vec(proptest::option::of(vec(any::<u8>(), 0..40)), 1..12),
    ) {
        let first = vec![7; 20];
        let words = record(&key, Some(&first));
        let live = Live::new(&words);
        let mut present = Some(first);
        for value in values {
            let fits = value.as_ref().is_none_or(|value| (17..=24).contains(&value.len()));
            let done = live.put_in_place(value.as_deref());
            prop_assert_eq!(done == InPlace::Done, fits, "{:?}", value);
            if fits {
                present = value;
            }
            prop_assert_eq!(value_of(live), present.clone());
            let bytes = on_disk(&words);
            let stored = Stored::decode(&bytes, SALT, AT).expect("it is whole");
            prop_assert_eq!(stored.value, present.as_deref());
        }
    }

    #[test]
    fn every_flipped_bit_is_found(
        key in vec(any::<u8>(), 0..20),
        value in proptest::option::of(vec(any::<u8>(), 0..40)),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let mut bytes = on_disk(&record(&key, value.as_deref()));
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(Stored::decode(&bytes, SALT, AT).is_err(), "byte {}", at);
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _: Result<Stored<'_>, Damage> = Stored::decode(&bytes, SALT, AT);
    }
}

#[test]
fn a_sealed_record_never_changes_again() {
    let words = record(b"key", Some(b"12345678"));
    let live = Live::new(&words);
    live.seal();
    assert_eq!(live.put_in_place(Some(b"87654321")), InPlace::Declined);
    assert_eq!(live.put_in_place(None), InPlace::Declined);
    assert_eq!(value_of(live), Some(b"12345678".to_vec()));
}

#[test]
fn a_record_elsewhere_is_not_taken_for_this() {
    let bytes = on_disk(&record(b"key", Some(b"value")));
    assert!(Stored::decode(&bytes, SALT, AT).is_ok());
    assert!(Stored::decode(&bytes, SALT, AT.plus(16)).is_err());
    assert!(Stored::decode(&bytes, SALT + 1, AT).is_err());
}

#[test]
fn a_used_up_sequence_seals_the_record() {
    let words = record(b"key", Some(b"12345678"));
    let live = Live::new(&words);
    // All but the last two numbers of the sequence are used up.
    words[1].fetch_or(((1 << 20) - 2) << 44, Ordering::Relaxed);
    assert_eq!(live.put_in_place(Some(b"87654321")), InPlace::Done);
    assert_eq!(live.put_in_place(Some(b"abcdefgh")), InPlace::Declined);
    assert_eq!(value_of(live), Some(b"87654321".to_vec()));
}

#[test]
fn the_documented_example_is_what_is_written() {
    let bytes = on_disk(&record(b"lake", Some(b"warm")));
    let hex: Vec<String> = bytes
        .chunks(8)
        .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    let page = include_str!("../../../../../docs/formats/f2-log.md");
    for word in &hex {
        assert!(page.contains(word.as_str()), "the page lacks {word}:\n{}", hex.join("\n"));
    }
}
