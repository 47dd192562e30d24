//! Fuzzes the decoder of a journal record's content: the steps of one write.
//! A decoded record is encoded to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Ok(steps) = thermocline::decode_write(record) {
        assert!(steps <= record.len(), "a step takes bytes");
    }
});
