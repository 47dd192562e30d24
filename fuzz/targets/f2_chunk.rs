//! Fuzzes the reader of chunks of the engine `f2`: a name of 8 bytes, then entries of 8 bytes.
//!
//! An accepted chunk is written again as the same bytes. Input is read in three ways: directly; as
//! entries of a chunk without doublings; and in the order that entries must have.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Base chunk 0x5a1, no doublings: all tags belong to it.
const NAME: u64 = 0x5a1;

fn must_be_written_as_it_was_read(bytes: &[u8]) -> bool {
    let again = f2::check_chunk(bytes);
    if let Ok(again) = &again {
        assert_eq!(again, bytes, "a chunk is written as it was read");
    }
    again.is_ok()
}

fuzz_target!(|input: &[u8]| {
    must_be_written_as_it_was_read(input);
    let name = NAME.to_le_bytes();
    must_be_written_as_it_was_read(&[&name[..], input].concat());
    let (words, _) = input.as_chunks::<8>();
    let mut entries: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    entries.retain(|entry| entry << 20 != 0);
    entries.sort_unstable();
    let sorted: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    let is_chunk = must_be_written_as_it_was_read(&[&name[..], &sorted].concat());
    assert!(is_chunk, "entries in order, each of which leads somewhere, are a chunk");
});
