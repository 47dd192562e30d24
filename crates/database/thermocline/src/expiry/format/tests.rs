//! Stored values, byte for byte.

use proptest::prelude::*;

use super::{Expiring, replace_expiry};

#[test]
fn the_documented_examples_are_what_is_stored() {
    let lasting = Expiring { value: b"hi", expiry_ms: None };
    assert_eq!(lasting.to_stored(), [0x68, 0x69, 0x01]);
    let ending = Expiring { value: b"hi", expiry_ms: Some(1_108_152_157_446) };
    assert_eq!(ending.to_stored(), [0x68, 0x69, 6, 5, 4, 3, 2, 1, 0, 0, 0x02]);
    assert_eq!(Expiring { value: b"", expiry_ms: None }.to_stored(), [0x01]);
}

#[test]
fn what_is_none_is_refused_with_its_reason() {
    let what = |stored: &[u8]| Expiring::decode(stored).unwrap_err().what;
    assert!(what(b"").contains("no tag"));
    assert!(what(&[1, 0, 0]).contains("unknown tag 0x00"));
    for count in 0..8 {
        let mut stored = vec![7; count];
        stored.push(0x02);
        assert!(what(&stored).contains("cut off"), "{count} bytes");
    }
}

#[test]
fn a_value_ends_at_its_end_and_not_before() {
    let at = |expiry_ms| Expiring { value: b"", expiry_ms };
    assert!(!at(None).is_expired(u64::MAX));
    assert!(at(Some(0)).is_expired(0));
    assert!(!at(Some(5)).is_expired(4) && at(Some(5)).is_expired(5));
    assert!(!at(Some(u64::MAX)).is_expired(u64::MAX - 1));
}

proptest! {
    #[test]
    fn what_is_stored_comes_back(
        value in prop::collection::vec(any::<u8>(), 0..40),
        expiry_ms in prop::option::of(any::<u64>()),
        other_ms: u64,
    ) {
        let whole = Expiring { value: &value, expiry_ms };
        let mut stored = whole.to_stored();
        prop_assert_eq!(Expiring::decode(&stored), Ok(whole));
        prop_assert_eq!(replace_expiry(&mut stored, other_ms), expiry_ms.is_some());
        let expiry_ms = expiry_ms.map(|_| other_ms);
        prop_assert_eq!(Expiring::decode(&stored), Ok(Expiring { value: &value, expiry_ms }));
    }

    #[test]
    fn any_bytes_decode_to_what_encodes_to_them(mut bytes in prop::collection::vec(any::<u8>(), 0..30), tag in 0..4_u8) {
        bytes.push(tag);
        if let Ok(whole) = Expiring::decode(&bytes) {
            prop_assert_eq!(whole.to_stored(), bytes);
        }
    }
}
