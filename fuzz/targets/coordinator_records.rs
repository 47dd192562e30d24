//! Fuzzes the decoders of the records of a coordinator.
#![no_main]

use coordinator::{
    ClusterRecord, Descriptor, KeyspaceRecord, LogMode, LtcRecord, StocRecord,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(mode) = LogMode::of_options(input) {
        assert_eq!(mode.to_options(), input);
    }
    // The checksum is made right, so that the fields are decoded.
    let mut bytes = input.to_vec();
    bytes.extend_from_slice(&codec::crc32c(input).to_le_bytes());
    if let Ok(record) = ClusterRecord::decode(&bytes) {
        assert_eq!(ClusterRecord::decode(&record.encode()), Ok(record));
    }
    if let Ok(record) = StocRecord::decode(&bytes) {
        assert_eq!(StocRecord::decode(&record.encode()), Ok(record));
    }
    if let Ok(record) = LtcRecord::decode(&bytes) {
        assert_eq!(LtcRecord::decode(&record.encode()), Ok(record));
    }
    if let Ok(record) = KeyspaceRecord::decode(&bytes) {
        assert_eq!(KeyspaceRecord::decode(&record.encode()), Ok(record));
    }
    if let Ok(record) = Descriptor::decode(&bytes) {
        assert_eq!(Descriptor::decode(&record.encode()), Ok(record));
    }
});
