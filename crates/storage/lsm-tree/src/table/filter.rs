//! A filter over all keys of a table: it excludes most keys that the table does not have. A Bloom
//! filter, or a ribbon filter (`ribbon.rs`).
//!
//! # Format
//! A Bloom filter has the number of probes (`u8`), then the bits. A key's bits are found by double
//! hashing: the halves of its xxh3 hash, begun at one and stepped by the other. A ribbon filter
//! begins with a byte of 128 or more.

use codec::{Corruption, hash64};

use super::held::{Held, Home};
use super::ribbon::{self, Ribbon};

/// Seeds the hash; part of the format.
const SEED: u64 = 0x6c73_6d5f_626c_6f6d;
/// More probes than this gain nothing.
const PROBES_MAX: u8 = 30;

/// The kind of a table's filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterKind {
    /// A Bloom filter: built fast, with the requested bits for each key.
    #[default]
    Bloom,
    /// A ribbon filter, which lets no more through and takes about three quarters of the bits.
    /// Building it takes 17 bytes of memory for each key, for a moment.
    Ribbon,
}

engine::setting_words!(FilterKind: Self::Bloom, Self::Ribbon);

/// Returns the hash of a key that a filter keeps.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    hash64(SEED, key)
}

/// Returns the memory, in bytes, that building a filter of `keys` keys takes, approximately.
pub(crate) fn building_bytes(kind: FilterKind, keys: usize, bits_per_key: u32) -> usize {
    match kind {
        FilterKind::Bloom => keys * bits_per_key as usize / 8,
        FilterKind::Ribbon => ribbon::building_bytes(keys, ribbon::columns(bits_per_key)),
    }
}

/// Returns the encoded filter of the keys with these hashes. Of the keys that are not there, a
/// ribbon filter lets no more through than a Bloom filter of `bits_per_key` would.
pub(crate) fn build(kind: FilterKind, hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    match kind {
        FilterKind::Bloom => build_bloom(hashes, bits_per_key),
        FilterKind::Ribbon => ribbon::build(hashes, ribbon::columns(bits_per_key)),
    }
}

fn build_bloom(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    // The number of probes that makes false positives rarest: bits per key, times ln 2.
    let probes = ((f64::from(bits_per_key) * std::f64::consts::LN_2) as u8).clamp(1, PROBES_MAX);
    let bits = (hashes.len() as u64).saturating_mul(u64::from(bits_per_key)).max(64);
    let mut bytes = vec![0; 1 + bits.div_ceil(8) as usize];
    if let Some((head, field)) = bytes.split_first_mut() {
        *head = probes;
        for hash in hashes {
            for (byte, mask) in probed(*hash, probes, field.len()) {
                if let Some(byte) = field.get_mut(byte) {
                    *byte |= mask;
                }
            }
        }
    }
    bytes
}

/// A decoded filter.
#[derive(Debug)]
pub enum Filter {
    Bloom { probes: u8, field: Held },
    Ribbon(Ribbon),
}

impl Filter {
    /// Decodes the result of [`build`], for `home`.
    pub fn decode(bytes: &[u8], home: Home<'_>) -> Result<Self, Corruption> {
        match bytes.split_first() {
            Some((first, field)) if first & ribbon::MARK != 0 => {
                Ribbon::decode(*first, field, home).map(Self::Ribbon)
            }
            Some((probes, field)) if (1..=PROBES_MAX).contains(probes) && !field.is_empty() => {
                Ok(Self::Bloom { probes: *probes, field: home.copy(field) })
            }
            _ => Err(Corruption::new(
                "a filter is cut short, or has an impossible count of probes",
                0,
            )),
        }
    }

    /// Returns whether the key with this hash may be there.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        match self {
            Self::Bloom { probes, field } => {
                let field: &[u8] = field;
                probed(hash, *probes, field.len())
                    .all(|(byte, mask)| field.get(byte).is_some_and(|found| found & mask != 0))
            }
            Self::Ribbon(ribbon) => ribbon.may_contain(hash),
        }
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.field().memory()
    }

    /// Sets the cache's mark on its bytes.
    pub fn mark(&self, mark: u64) {
        self.field().mark(mark);
    }

    /// Copies it to another home.
    pub fn copied(&self, home: Home<'_>) -> Self {
        let field = home.copy(self.field());
        match self {
            Self::Bloom { probes, .. } => Self::Bloom { probes: *probes, field },
            Self::Ribbon(Ribbon { columns, .. }) => {
                Self::Ribbon(Ribbon { columns: *columns, field })
            }
        }
    }

    fn field(&self) -> &Held {
        match self {
            Self::Bloom { field, .. } | Self::Ribbon(Ribbon { field, .. }) => field,
        }
    }

    /// Returns the part of these bytes that belongs to the cache.
    pub fn pooled(&self) -> usize {
        self.field().pooled()
    }
}

/// Returns the bytes of a field of `len`, and the bits in them, that belong to a hash.
fn probed(hash: u64, probes: u8, len: usize) -> impl Iterator<Item = (usize, u8)> {
    let bits = len as u64 * 8;
    let step = hash.rotate_left(32) | 1;
    (0..u64::from(probes)).map(move |probe| {
        let bit = hash.wrapping_add(probe.wrapping_mul(step)) % bits;
        ((bit / 8) as usize, 1 << (bit % 8))
    })
}
