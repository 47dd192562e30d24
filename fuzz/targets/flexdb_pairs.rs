//! Fuzzes the decoder of the pairs of the engine `flexdb`: an interval's bytes.
//! They are in the form in which the space has them behind checksums that would be right. Each pair
//! has one encoding, which the decoder asserts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(pairs) = flexdb::decode_pairs(input) {
        assert!(2 * pairs <= input.len(), "a pair takes bytes");
    }
});
