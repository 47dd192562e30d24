//! Fuzzes the decoder of the record of a replicated log.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(record) = logc::LogRecord::decode(input) {
        let again = logc::LogRecord::decode(&record.encode());
        assert_eq!(again.as_ref(), Ok(&record), "what was encoded decodes");
    }
});
