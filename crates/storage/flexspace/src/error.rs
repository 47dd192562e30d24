//! Refused operations of a FlexTree.

/// Reason why an operation was refused. The tree is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A range ends behind the last byte.
    #[error("a range to offset {end} in a space of {len} bytes")]
    BehindTheEnd {
        /// The end of the range.
        end: u64,
        /// How many bytes there are.
        len: u64,
    },
    /// Offsets would not fit 64 bits, or these are more bytes than one operation adds
    /// ([`FlexTree::GROWTH_MAX`](crate::FlexTree::GROWTH_MAX)).
    #[error("{more} bytes are too many to be added to a space of {len} by one operation")]
    TooLong {
        /// How many bytes there are.
        len: u64,
        /// How many more there should be.
        more: u64,
    },
    /// An address, or the end of the bytes at it, does not fit 48 bits.
    #[error("{length} bytes at address {address} do not fit 48 bits")]
    AddressTooLarge {
        /// The address.
        address: u64,
        /// Number of bytes at the address.
        length: u64,
    },
}
