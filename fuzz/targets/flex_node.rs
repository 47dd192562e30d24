//! Fuzzes the reader of the nodes of a FlexSpace's tree, behind a checksum that is right.
//!
//! A decoded page is encoded to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(again) = flexspace::check_node(input) {
        let given = input.len().min(again.len() - 4);
        assert_eq!(again[4..4 + given], input[..given], "one encoding");
    }
});
