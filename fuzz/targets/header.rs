//! Fuzzes the header that every file begins with.
#![no_main]

use libfuzzer_sys::fuzz_target;

const FORMAT: codec::Format = codec::Format::new(*b"TCFUZZED", 3, 0b101);

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = FORMAT.decode(bytes) {
        assert_eq!(header.encode(), bytes[..codec::FileHeader::LEN], "one encoding");
    }
});
