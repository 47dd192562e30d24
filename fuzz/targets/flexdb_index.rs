//! Fuzzes the decoder of the stored index of the engine `flexdb`.
//! The input is the intervals of a block, behind a checksum that would be right. A decoded block is
//! encoded to the same bytes, which the decoder asserts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(intervals) = flexdb::decode_stored_intervals(input) {
        assert!(7 * intervals <= input.len(), "an interval takes bytes");
    }
});
