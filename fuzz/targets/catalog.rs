//! Fuzzes the decoders of a database's catalog and of the files `KEYSPACE`.
//! The input is behind a checksum that would be right. A decoded catalog or owner is encoded to the
//! same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    if let Ok(keyspaces) = thermocline::decode_catalog(content) {
        assert!(keyspaces <= content.len(), "a keyspace takes bytes");
    }
    // It compares the encoded bytes itself.
    let _ = thermocline::decode_owner(content);
});
