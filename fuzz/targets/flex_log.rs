//! Fuzzes the reader of the log of a FlexSpace: heads, and the records of a frame.
//!
//! Decoded records are encoded to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for segment_bytes in [16 << 10, 4 << 20] {
        if let Ok((count, again)) = flexspace::check_log(input, segment_bytes) {
            assert_eq!(again, input, "one encoding");
            assert_eq!(count == 0, input.is_empty());
        }
    }
});
