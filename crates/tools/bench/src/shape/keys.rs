//! The bytes of the key with a number, and back.
//!
//! A generated key is its number as 8 big-endian bytes, then bytes that follow from the number, up
//! to the shape's length. With [`KeyOrder::Hashed`] the number goes through a bijection first, so
//! that arrival order and key order have nothing to do with each other (YCSB's default). With
//! [`KeyOrder::ByNumber`] neighbours in number are neighbours in key order. Workloads whose skew
//! belongs to stretches of the key space need this. A trace's keys are listed.

use std::collections::HashMap;
use std::sync::Arc;

use super::KEY_BYTES_MIN;

/// How key order relates to item numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// No relation.
    Hashed,
    /// The same order.
    ByNumber,
}

/// Turns item numbers into keys. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keys(Source);

#[derive(Clone, Debug)]
enum Source {
    Generated { bytes: usize, order: KeyOrder },
    Listed(Arc<Listed>),
}

#[derive(Debug)]
struct Listed {
    keys: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u64>,
}

impl Keys {
    /// Keys of `bytes` bytes (at least eight) for any number.
    pub fn generated(bytes: usize, order: KeyOrder) -> Self {
        assert!(bytes >= KEY_BYTES_MIN);
        Self(Source::Generated { bytes, order })
    }

    /// The given keys, numbered as listed; they must be distinct.
    pub fn listed(keys: Vec<Box<[u8]>>) -> Self {
        let numbers = keys.iter().cloned().zip(0..).collect();
        Self(Source::Listed(Arc::new(Listed { keys, numbers })))
    }

    /// Replaces `out` with the key of `number`; a listed number beyond the list gives no bytes.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        match &self.0 {
            Source::Generated { bytes, order } => {
                let head = match order {
                    KeyOrder::Hashed => mix(number),
                    KeyOrder::ByNumber => number,
                };
                out.extend_from_slice(&head.to_be_bytes());
                let mut filler = mix(head ^ 0x5bd1_e995_0b4f_3a21);
                while out.len() < *bytes {
                    let take = (*bytes - out.len()).min(8);
                    out.extend_from_slice(&filler.to_le_bytes()[..take]);
                    filler = mix(filler);
                }
            }
            Source::Listed(listed) => {
                if let Some(key) = listed.keys.get(number as usize) {
                    out.extend_from_slice(key);
                }
            }
        }
    }

    /// The number of `key`, or `None` if it is no key of these, to the last byte. `scratch` is
    /// overwritten.
    pub fn number(&self, key: &[u8], scratch: &mut Vec<u8>) -> Option<u64> {
        match &self.0 {
            Source::Generated { order, .. } => {
                let head = u64::from_be_bytes(*key.first_chunk()?);
                let number = match order {
                    KeyOrder::Hashed => unmix(head),
                    KeyOrder::ByNumber => head,
                };
                self.write(number, scratch);
                (scratch == key).then_some(number)
            }
            Source::Listed(listed) => listed.numbers.get(key).copied(),
        }
    }

    /// Returns the keys between `parts` parts of the key space, in their order. Each part has about
    /// the same number of the first `count` keys. Few keys have fewer parts.
    pub fn splits(&self, count: u64, parts: u32) -> Vec<Vec<u8>> {
        let (count, parts) = (u128::from(count), u128::from(parts.max(1)));
        let shares = |whole: u128| (1..parts).map(move |part| (whole * part / parts) as u64);
        let of_head = |head: u64| head.to_be_bytes().to_vec();
        let mut splits: Vec<Vec<u8>> = match &self.0 {
            Source::Generated { order: KeyOrder::Hashed, .. } => {
                shares(u64::MAX.into()).map(of_head).collect()
            }
            Source::Generated { order: KeyOrder::ByNumber, .. } => {
                shares(count).map(of_head).collect()
            }
            Source::Listed(listed) => {
                let mut keys: Vec<&[u8]> = listed.keys.iter().map(|key| &**key).collect();
                keys.sort_unstable();
                let places = shares(keys.len() as u128);
                places.filter_map(|place| Some(keys.get(place as usize)?.to_vec())).collect()
            }
        };
        splits.dedup();
        // The first part begins with the smallest key.
        splits.retain(|split| split.iter().any(|byte| *byte > 0));
        splits
    }

    /// Whether neighbours in number are neighbours in key order.
    pub fn in_order(&self) -> bool {
        matches!(&self.0, Source::Generated { order: KeyOrder::ByNumber, .. })
    }
}

/// The hash of a key that its values carry.
pub fn hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

const FIRST: u64 = 0xd6e8_feb8_6659_fd93;
const SECOND: u64 = 0xe703_7ed1_a0b4_28db;

/// A bijection of 64-bit numbers without visible pattern.
pub(super) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(FIRST);
    x = (x ^ (x >> 32)).wrapping_mul(SECOND);
    x ^ (x >> 32)
}

/// The number that [`mix`] took to `mixed`.
pub(super) fn unmix(mixed: u64) -> u64 {
    // A shift by half the width undoes itself; a multiplication by its inverse.
    let mut x = (mixed ^ (mixed >> 32)).wrapping_mul(inverse(SECOND));
    x = (x ^ (x >> 32)).wrapping_mul(inverse(FIRST));
    (x ^ (x >> 32)).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// The multiplicative inverse of an odd number modulo 2^64: Newton's step doubles the right bits.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

const _: () = assert!(inverse(FIRST).wrapping_mul(FIRST) == 1);
const _: () = assert!(inverse(SECOND).wrapping_mul(SECOND) == 1);
