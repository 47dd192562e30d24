//! Fuzzes the decoder of the segment table of the engine `hashkv`: chains of edits behind checksums
//! that would be right. Each edit has one encoding, which the decoder asserts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(segments) = hashkv::decode_edits(input) {
        assert!(segments <= input.len(), "a segment takes bytes");
    }
});
