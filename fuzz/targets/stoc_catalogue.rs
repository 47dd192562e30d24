//! Fuzzes the decoder of the catalogue of a StoC: chains of edits behind checksums that would be
//! right.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = stoc::decode_catalogue(input);
});
