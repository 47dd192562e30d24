//! Fuzzes the decoder of the memory engine's snapshot blocks.
//! The input is raw bytes, and any payload under a checksum that is right, so that the code behind
//! the checksum is reached.
//!
//! Decoded blocks are encoded to the same bytes, and their keys ascend.
#![no_main]

use codec::{Place, Writer};
use libfuzzer_sys::fuzz_target;

const PLACE: Place = Place { file: 1, offset: 4096, generation: 2 };
const UNIT_BYTES: usize = 4096;

/// Returns a block as the page docs/formats/memory-snapshot.md has it.
fn block(kind: u32, pairs: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let mut out = Writer::new(&mut bytes);
    out.put_u32(kind);
    out.put_u32(payload.len() as u32);
    out.put_u32(pairs);
    out.put_bytes(payload);
    bytes.resize(bytes.len().next_multiple_of(UNIT_BYTES), 0);
    let checksum = PLACE.crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fuzz_target!(|input: (u32, u8, &[u8], &[u8])| {
    let (kind, pairs, payload, raw) = input;
    let _ = memory::decode_snapshot_block(raw, PLACE, &mut |_, _| {});
    let bytes = block(kind % 4, u32::from(pairs), payload);
    let (mut again, mut last, mut count) = (Vec::new(), None, 0);
    let decoded = memory::decode_snapshot_block(&bytes, PLACE, &mut |key, value| {
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        last = Some(key.to_vec());
        count += 1;
        let mut out = Writer::new(&mut again);
        out.put_prefixed(key);
        out.put_prefixed(value);
    });
    if decoded.is_ok() && kind % 4 == 1 {
        assert_eq!((count, again.as_slice()), (u32::from(pairs), payload), "one encoding");
    }
});
