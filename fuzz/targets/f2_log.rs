//! Fuzzes readers of the log of the engine `f2`: records, segments' heads, superblocks' payloads.
//!
//! Records are checked directly, and once more behind a whole one, so that the walk continues.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The documented example, at the place it belongs to.
const EXAMPLE: [u8; 32] = [
    0x77, 0, 0, 0, 0, 0, 0x04, 0x77, 0x04, 0, 0x04, 0, 0, 0xf8, 0x3f, 0x61, b'l', b'a', b'k', b'e',
    0, 0, 0, 0, b'w', b'a', b'r', b'm', 0, 0, 0, 0,
];
const SALT: u64 = 0x5a17;
const AT: u64 = 0x1234_0000;

fuzz_target!(|input: &[u8]| {
    let _ = f2::check_heads(input);
    let alone = f2::check_records(input, SALT, AT);
    let behind = f2::check_records(&[&EXAMPLE[..], input].concat(), SALT, AT);
    match behind {
        Ok(records) => assert!(records >= 1, "the example is a record"),
        Err(damage) => assert!(damage.offset >= 32, "the example is whole"),
    }
    if input.is_empty() {
        assert_eq!(alone, Ok(0));
    }
});
