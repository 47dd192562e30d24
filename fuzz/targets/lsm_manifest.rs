//! Fuzzes the decoder of the manifest of the engine `lsm`: chains of edits, behind a checksum that
//! would be right. Each edit has one encoding, which the decoder asserts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(tables) = lsm::decode_edits(input) {
        assert!(tables <= input.len(), "a table takes bytes");
    }
});
