//! The stored form of a value in a keyspace whose values may expire: the value and a trailer.
//!
//! # Format
//! `docs/formats/expiring-value.md`. The last byte is a tag, which is kind and version in one: a
//! later layout takes a tag of its own. The trailer is behind the value so that it can be put on
//! and taken off without moving the value.

use codec::Corruption;

/// The value never expires.
const TAG_LASTING: u8 = 0x01;
/// Before the tag there are 8 bytes of little-endian milliseconds since the Unix epoch.
const TAG_EXPIRING: u8 = 0x02;
const EXPIRY_BYTES: usize = 8;

/// A value and its expiry, as a keyspace whose values may expire stores the two.
///
/// ```
/// use thermocline::Expiring;
/// let lease = Expiring { value: b"ada", expiry_ms: Some(1_767_225_600_000) };
/// let stored = lease.to_stored();
/// assert_eq!(stored.len(), 3 + Expiring::TRAILER_BYTES_MAX);
/// assert_eq!(Expiring::decode(&stored), Ok(lease));
/// assert!(lease.is_expired(1_767_225_600_000) && !lease.is_expired(1_767_225_599_999));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiring<'a> {
    /// The value.
    pub value: &'a [u8],
    /// The first moment at which it is not there any more, in milliseconds since the Unix epoch;
    /// `None` if it stays until it is replaced or deleted.
    pub expiry_ms: Option<u64>,
}

impl<'a> Expiring<'a> {
    /// The most bytes that are stored in addition to a value.
    pub const TRAILER_BYTES_MAX: usize = EXPIRY_BYTES + 1;

    /// Takes stored bytes apart.
    ///
    /// # Errors
    /// No tag, an unknown one, or too few bytes for the expiry.
    #[inline(always)]
    pub fn decode(stored: &'a [u8]) -> Result<Self, Corruption> {
        match stored {
            [value @ .., TAG_LASTING] => Ok(Self { value, expiry_ms: None }),
            _ => Self::decode_with_expiry(stored),
        }
    }

    /// [`Expiring::decode`] of a value that has an expiry, or is damaged.
    #[inline(never)]
    fn decode_with_expiry(stored: &'a [u8]) -> Result<Self, Corruption> {
        match stored {
            [rest @ .., TAG_EXPIRING] => match rest.split_last_chunk::<EXPIRY_BYTES>() {
                Some((value, end)) => Ok(Self { value, expiry_ms: Some(u64::from_le_bytes(*end)) }),
                None => Err(Corruption::new("the expiry of a stored value is cut off", 0)),
            },
            [.., tag] => {
                let at = stored.len() as u64 - 1;
                Err(Corruption::new(format!("a stored value has the unknown tag {tag:#04x}"), at))
            }
            [] => Err(Corruption::new("a stored value has no tag", 0)),
        }
    }

    /// Returns whether it is not there any more at `now_ms`.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }

    /// Appends the stored form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.value.len() + Self::TRAILER_BYTES_MAX);
        out.extend_from_slice(self.value);
        push_trailer(out, self.expiry_ms);
    }

    /// Returns the stored form.
    pub fn to_stored(self) -> Vec<u8> {
        let mut stored = Vec::new();
        self.encode(&mut stored);
        stored
    }
}

/// Puts the trailer behind a value.
pub(super) fn push_trailer(value: &mut Vec<u8>, expiry_ms: Option<u64>) {
    match expiry_ms {
        None => value.push(TAG_LASTING),
        Some(expiry_ms) => {
            value.extend_from_slice(&expiry_ms.to_le_bytes());
            value.push(TAG_EXPIRING);
        }
    }
}

/// Replaces the expiry of a stored value in place. Returns `false`, and nothing has changed, if it
/// has no expiry.
pub(super) fn replace_expiry(stored: &mut [u8], expiry_ms: u64) -> bool {
    match stored {
        [rest @ .., TAG_EXPIRING] => match rest.last_chunk_mut::<EXPIRY_BYTES>() {
            Some(end) => {
                *end = expiry_ms.to_le_bytes();
                true
            }
            None => false,
        },
        _ => false,
    }
}

/// Returns the expiry of stored bytes, if they are a stored value with an expiry.
#[inline]
pub(crate) fn expiry_of(stored: &[u8]) -> Option<u64> {
    Expiring::decode(stored).ok()?.expiry_ms
}

#[cfg(test)]
mod tests;
