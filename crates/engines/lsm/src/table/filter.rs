//! A filter over all keys of a table: says of most keys that are not there that they are not. A
//! Bloom filter, or a ribbon filter (`ribbon.rs`).
//!
//! # Format
//! Of a Bloom filter the number of probes (`u8`), then the bits. A key's bits are found by double
//! hashing: the halves of its xxh3 hash, begun at one and stepped by the other. A ribbon filter begins
//! with a byte of 128 or more.

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
    /// A Bloom filter: built fast, of as many bits for each key as were asked for.
    #[default]
    Bloom,
    /// A ribbon filter, which lets no more through and takes about three quarters of the bits.
    /// Building it takes 17 bytes of memory for each key, for a moment.
    Ribbon,
}

/// The hash of a key that a filter keeps.
pub(crate) fn hash(key: &[u8]) -> u64 {
    hash64(SEED, key)
}

/// Memory that building a filter of so many keys takes, about.
pub(crate) fn building_bytes(kind: FilterKind, keys: usize, bits_per_key: u32) -> usize {
    match kind {
        FilterKind::Bloom => keys * bits_per_key as usize / 8,
        FilterKind::Ribbon => ribbon::building_bytes(keys, ribbon::columns(bits_per_key)),
    }
}

/// The encoded filter of the keys with these hashes. A ribbon filter lets no more keys through that
/// are not there than a Bloom filter of `bits_per_key` would.
pub(crate) fn build(kind: FilterKind, hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    match kind {
        FilterKind::Bloom => build_bloom(hashes, bits_per_key),
        FilterKind::Ribbon => ribbon::build(hashes, ribbon::columns(bits_per_key)),
    }
}

fn build_bloom(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    // The probes that make false answers rarest: bits per key, times ln 2.
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

/// A filter as it is read.
#[derive(Debug)]
pub(crate) enum Filter {
    Bloom { probes: u8, field: Held },
    Ribbon(Ribbon),
}

impl Filter {
    /// Reads what [`build`] made, for `home`.
    pub(crate) fn decode(bytes: &[u8], home: Home<'_>) -> Result<Self, Corruption> {
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

    /// Whether the key with this hash may be there.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        match self {
            Self::Bloom { probes, field } => {
                let field: &[u8] = field;
                probed(hash, *probes, field.len())
                    .all(|(byte, mask)| field.get(byte).is_some_and(|found| found & mask != 0))
            }
            Self::Ribbon(ribbon) => ribbon.may_contain(hash),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + self.field().memory()
    }

    /// The cache calls its bytes so.
    pub(crate) fn mark(&self, mark: u64) {
        self.field().mark(mark);
    }

    /// The same at another place.
    pub(crate) fn copied(&self, home: Home<'_>) -> Self {
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

    /// Of these, what is of the cache.
    pub(crate) fn pooled(&self) -> usize {
        self.field().pooled()
    }
}

/// The bytes of a field of `len`, and the bits in them, that belong to a hash.
fn probed(hash: u64, probes: u8, len: usize) -> impl Iterator<Item = (usize, u8)> {
    let bits = len as u64 * 8;
    let step = hash.rotate_left(32) | 1;
    (0..u64::from(probes)).map(move |probe| {
        let bit = hash.wrapping_add(probe.wrapping_mul(step)) % bits;
        ((bit / 8) as usize, 1 << (bit % 8))
    })
}
