//! Fuzzes the decoder of the marker of a cluster.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(header) = ltc::decode_marker(input) {
        assert_eq!(input.get(..16), Some(&header.encode()[..]), "there is one encoding");
    }
});
