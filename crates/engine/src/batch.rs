//! One step of a write.

/// One step of a write to one keyspace. Steps of one batch share a sequence number; of two steps
/// on one key the later one stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Give `key` the value `value`, whatever it had before.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Remove `key`; no error if it is not there.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Op<'a> {
    /// The key that this step is about.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
        }
    }

    /// The value that the key has afterwards; `None` where it is removed.
    pub fn value(&self) -> Option<&'a [u8]> {
        match self {
            Op::Put { value, .. } => Some(value),
            Op::Delete { .. } => None,
        }
    }
}
