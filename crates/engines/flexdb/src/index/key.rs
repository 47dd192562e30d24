//! A key as the index keeps it: short ones in place, as there is one for each interval.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use crate::allocated::allocated_bytes;

/// The longest key that is kept in place.
const SHORT_BYTES_MAX: usize = 30;
/// The counts of references before a long one.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// Bytes that never change; cheap to clone.
#[derive(Clone)]
pub(crate) enum Key {
    /// The first `len` of `bytes`.
    Short {
        len: u8,
        bytes: [u8; SHORT_BYTES_MAX],
    },
    Long(Arc<[u8]>),
}

const _: () = assert!(size_of::<Key>() == 32, "a short key fills what a long one leaves");

impl Key {
    /// Bytes that it takes in addition to itself.
    pub(crate) fn heap_bytes(&self) -> u64 {
        match self {
            Self::Short { .. } => 0,
            Self::Long(bytes) => allocated_bytes(bytes.len() + COUNTS_BYTES),
        }
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::Short { len: 0, bytes: [0; SHORT_BYTES_MAX] }
    }
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Self {
        let mut bytes = [0; SHORT_BYTES_MAX];
        match bytes.get_mut(..key.len()) {
            Some(short) => {
                short.copy_from_slice(key);
                Self::Short { len: key.len() as u8, bytes }
            }
            None => Self::Long(key.into()),
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_bytes_however_long_it_is() {
        for len in [0, 1, 29, 30, 31, 65_535] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let key = Key::from(&bytes[..]);
            assert_eq!((&*key, &*key.clone()), (&bytes[..], &bytes[..]));
            assert_eq!(key.heap_bytes() > 0, len > SHORT_BYTES_MAX);
        }
        assert_eq!(&*Key::default(), b"");
    }
}
