//! Fuzzes the decoder of the first block of the files of a StoC.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = stoc::decode_head(input);
});
