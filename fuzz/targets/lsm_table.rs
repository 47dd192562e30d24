//! Fuzzes what reads tables of the engine `lsm`: metadata, with the index, which is a block, walked
//! both ways; and blocks as they are stored, decompressed and walked.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = lsm::decode_metadata(input);
    let _ = lsm::decode_block(input);
});
