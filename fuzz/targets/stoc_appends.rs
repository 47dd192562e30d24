//! Fuzzes the walk over the appends of a log of a StoC.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    assert!(stoc::decode_appends(input) <= input.len() as u64, "content takes bytes");
});
