//! Fuzzes the decoders of the manifest of the engine `lsm`, and of its superblock's payload.
//! A manifest is chains of edits; all input is behind checksums that would be right. Each edit has
//! one encoding, and so has the payload, which the decoders assert.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = lsm::decode_committed(input);
    if let Ok(tables) = lsm::decode_edits(input) {
        assert!(tables <= input.len(), "a table takes bytes");
    }
});
