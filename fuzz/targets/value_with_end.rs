//! Fuzzes the stored form of values that may end: a decoded value is encoded to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline::Expiring;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(whole) = Expiring::decode(bytes) {
        assert_eq!(whole.to_stored(), bytes, "one encoding");
        assert_eq!(whole.is_expired(u64::MAX), whole.expiry_ms.is_some());
    }
});
