//! What reads and writes cost the device, and what a commit takes of the allocator: counts, so that whatever else the
//! machine does they are the same.
//!
//! Some of these tests wait for long until a store has nothing to do: in one program they do so beside each other.

mod commit_memory;
mod device_reads;
mod writes;

const VALUE_BYTES: usize = 127;
const PAIR_BYTES: u64 = 27 + VALUE_BYTES as u64;

/// The key of that number: in no order.
fn key(number: u64) -> Vec<u8> {
    format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes()
}
