//! Variable-length integers: seven bits a byte, lowest first, the top bit says that more follow.
//!
//! # Format
//! A value below 2^7 takes one byte, below 2^14 two, and so on to five (`u32`) and ten (`u64`).
//! Only the shortest encoding of a value is valid.

use crate::Corruption;

/// The most bytes that a `u32` takes.
pub const VARINT_U32_BYTES_MAX: usize = 5;
/// The most bytes that a `u64` takes.
pub const VARINT_U64_BYTES_MAX: usize = 10;

/// How many bytes `value` takes.
pub const fn varint_len(value: u64) -> usize {
    // A zero still takes one byte, hence `| 1`.
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint of at most `bits` bits (32 or 64) from the front of `bytes`; gives the value and
/// the bytes it took. `offset` is where `bytes` begins, for the error.
pub(crate) fn take(bytes: &[u8], bits: u32, offset: u64) -> Result<(u64, usize), Corruption> {
    let mut value = 0_u64;
    let mut shift = 0_u32;
    for (index, &byte) in bytes.iter().enumerate() {
        let payload = u64::from(byte & 0x7f);
        if shift >= bits || (bits - shift < 7 && payload >> (bits - shift) != 0) {
            return Err(Corruption::new(format!("a varint is above {bits} bits"), offset));
        }
        value |= payload << shift;
        if byte & 0x80 == 0 {
            if byte == 0 && index > 0 {
                return Err(Corruption::new("a varint is longer than it need be", offset));
            }
            return Ok((value, index + 1));
        }
        shift += 7;
    }
    Err(Corruption::new("a varint is cut short", offset))
}
