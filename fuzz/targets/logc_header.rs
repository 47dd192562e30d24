//! Fuzzes the decoder of the header of a segment of a replicated log.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(header) = logc::Header::decode(input) {
        let again = logc::Header::decode(&header.encode());
        assert_eq!(again.as_ref(), Ok(&header), "what was encoded decodes");
    }
});
