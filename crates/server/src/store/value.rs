//! The stored value: a tag, an optional expiry, the string itself.
//!
//! # Format
//! `docs/formats/redis-value.md`. The tag is type and version in one: a later layout takes a tag
//! of its own.

use codec::Corruption;

/// A string that never expires: the payload follows.
const TAG_STRING: u8 = 0x01;
/// A string that expires: 8 bytes of little-endian milliseconds since the Unix epoch follow, then
/// the payload.
const TAG_EXPIRING_STRING: u8 = 0x02;
const EXPIRY_BYTES: usize = 8;

/// A stored value, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// When it ends, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<u64>,
    /// The string.
    pub payload: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Takes `bytes` apart.
    ///
    /// # Errors
    /// An unknown tag, or too few bytes for the expiry.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corruption> {
        match bytes {
            [TAG_STRING, payload @ ..] => Ok(Self { expiry_ms: None, payload }),
            [TAG_EXPIRING_STRING, rest @ ..] => match rest.split_first_chunk::<EXPIRY_BYTES>() {
                Some((expiry, payload)) => {
                    Ok(Self { expiry_ms: Some(u64::from_le_bytes(*expiry)), payload })
                }
                None => Err(Corruption::new("a value's expiry is cut off", 1)),
            },
            [tag, ..] => Err(Corruption::new(format!("unknown value tag {tag:#04x}"), 0)),
            [] => Err(Corruption::new("a value without a tag", 0)),
        }
    }

    /// Whether it has ended by `now_ms`.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }

    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(1 + EXPIRY_BYTES + self.payload.len());
        match self.expiry_ms {
            None => out.push(TAG_STRING),
            Some(expiry_ms) => {
                out.push(TAG_EXPIRING_STRING);
                out.extend_from_slice(&expiry_ms.to_le_bytes());
            }
        }
        out.extend_from_slice(self.payload);
    }

    /// Its bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }
}

/// When the stored value `bytes` ends, if it does.
pub(crate) fn expiry_ms(bytes: &[u8]) -> Option<u64> {
    Stored::decode(bytes).ok()?.expiry_ms
}

/// Decodes `bytes` as a stored value and encodes it again; `None` where they are none. For the
/// fuzzer: what decodes must come back byte for byte.
#[doc(hidden)]
pub fn decode_and_encode(bytes: &[u8]) -> Option<Vec<u8>> {
    Stored::decode(bytes).ok().map(Stored::to_bytes)
}

#[cfg(test)]
mod tests;
