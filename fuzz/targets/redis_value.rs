//! Fuzzes the values that the server stores: what decodes comes back byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(again) = server::decode_and_encode(bytes) {
        assert_eq!(again, bytes, "one encoding");
    }
});
