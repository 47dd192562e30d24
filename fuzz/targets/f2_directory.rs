//! Fuzzes the reader of snapshots of the directory of the engine `f2`.
//!
//! Input is read directly, and once more behind the head of a snapshot without doublings, so that
//! its words are reached.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The documented example: the head of snapshot 7.
const HEAD: [u8; 40] = [
    0x54, 0x43, 0x46, 0x32, 0x44, 0x49, 0x52, 0x53, 0x01, 0x00, 0x00, 0x00, 0x12, 0xda, 0x53, 0xfc,
    0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x34, 0x12, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0xa2, 0x32, 0x16, 0xc5,
];

fuzz_target!(|input: &[u8]| {
    let _ = f2::check_directory(input);
    let behind = f2::check_directory(&[&HEAD[..], input].concat());
    match behind {
        Ok(words) => assert_eq!(words, 4096, "there are no doublings"),
        Err(damage) => assert!(damage.offset >= 40, "the head is whole"),
    }
});
