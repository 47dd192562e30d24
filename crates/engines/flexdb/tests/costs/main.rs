//! The device's cost of reads and writes, and the allocator's cost of a commit.
//!
//! They are counts, which do not depend on other work of the machine.
//!
//! Some of these tests wait long until a store has nothing to do: in one program they do so at the
//! same time.

mod commit_memory;
mod device_reads;
mod writes;

const VALUE_BYTES: usize = 127;
const PAIR_BYTES: u64 = 27 + VALUE_BYTES as u64;

/// The key of that number: in no order.
fn key(number: u64) -> Vec<u8> {
    format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes()
}
