//! Fuzzes the decoder of a store's header of the engine `flexdb`.
//! A header has one encoding: the decoder asserts that.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = flexdb::decode_header(input);
});
