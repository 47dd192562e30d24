//! Values come back as they were, and damaged ones are told apart.

use proptest::prelude::*;

use super::Stored;

#[test]
fn the_documented_bytes() {
    let plain = Stored { expiry_ms: None, payload: b"hi" };
    assert_eq!(plain.to_bytes(), b"\x01hi");
    let ending = Stored { expiry_ms: Some(0x0102_0304_0506), payload: b"hi" };
    assert_eq!(ending.to_bytes(), b"\x02\x06\x05\x04\x03\x02\x01\x00\x00hi");
    assert!(ending.is_expired(0x0102_0304_0506));
    assert!(!ending.is_expired(0x0102_0304_0505));
    assert!(!plain.is_expired(u64::MAX));
}

#[test]
fn damage_is_reported() {
    for (bytes, what) in [
        (&b""[..], "without a tag"),
        (b"\x00abc", "unknown value tag 0x00"),
        (b"\x03abc", "unknown value tag 0x03"),
        (b"\x02\0\0\0\0\0\0\0", "cut off"),
    ] {
        let error = Stored::decode(bytes).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

proptest! {
    #[test]
    fn any_value_comes_back(expiry_ms: Option<u64>, payload: Vec<u8>) {
        let stored = Stored { expiry_ms, payload: &payload };
        let bytes = stored.to_bytes();
        prop_assert_eq!(Stored::decode(&bytes), Ok(stored));
    }

    #[test]
    fn what_decodes_has_one_encoding(bytes: Vec<u8>) {
        if let Some(again) = super::decode_and_encode(&bytes) {
            prop_assert_eq!(again, bytes);
        }
    }
}
