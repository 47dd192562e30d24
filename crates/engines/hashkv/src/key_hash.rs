//! The hash of a key: 128 bits, keyed by the store.
//!
//! The first 64 bits select the group. The engine takes two keys with the same hash for the same
//! key. For a billion keys the chance that two of them have the same hash is 1 in 10^20. The
//! store's secret keeps callers from choosing keys with equal hashes.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// Bytes of a hash in a footer.
pub(crate) const HASH_BYTES: usize = 16;

/// The hash of one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyHash(u128);

impl KeyHash {
    /// Returns the bits that select the group.
    pub(crate) fn position(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Returns bits that do not select the group.
    pub(crate) fn low(self) -> u64 {
        self.0 as u64
    }

    /// Returns the bytes, in whose order the hashes are, too.
    pub(crate) fn to_bytes(self) -> [u8; HASH_BYTES] {
        self.0.to_be_bytes()
    }

    pub(crate) fn of_bytes(bytes: [u8; HASH_BYTES]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({:032x})", self.0)
    }
}

/// The secret of a store, which hashes its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) [u64; 2]);

impl Secret {
    pub(crate) fn hash(self, key: &[u8]) -> KeyHash {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write(key);
        KeyHash(hasher.finish128().into())
    }
}

/// The secret is not shown.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_the_key_and_on_the_secret() {
        let (one, other) = (Secret([1, 2]), Secret([1, 3]));
        assert_eq!(one.hash(b"key"), one.hash(b"key"));
        assert_ne!(one.hash(b"key"), one.hash(b"kez"));
        assert_ne!(one.hash(b"key"), other.hash(b"key"));
        let hash = one.hash(b"key");
        assert_eq!(KeyHash::of_bytes(hash.to_bytes()), hash);
        assert_eq!(hash.to_bytes()[..8], hash.position().to_be_bytes());
    }

    /// The hash is part of the format. An implementation in another language gave this one.
    #[test]
    fn a_hash_stays_the_same() {
        let hash = Secret([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]).hash(b"lake");
        assert_eq!(format!("{hash:?}"), "KeyHash(7cd0af3b4faa82fd3b914a4d050f2fce)");
    }
}
