//! Fuzzes the decoder of the footers of segments of the engine `hashkv`. The
//! checksums are right, and the decoder asserts that each has one encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = hashkv::decode_footer(input);
});
