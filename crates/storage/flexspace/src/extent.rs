//! The place of an extent's bytes: an address of 48 bits or none, and a tag.

use crate::error::Error;
use crate::shift_tree::Entry;

/// How many bits an address has.
pub(crate) const ADDRESS_BITS: u32 = 48;

/// The largest number of 48 bits is no address: it marks holes (Flex 3.3).
const HOLE: u64 = (1 << ADDRESS_BITS) - 1;

/// The place of bytes, and a tag of the first of them; 8 bytes.
///
/// The tag, 16 bits for the user of a tree, belongs to the place where the extent begins. An extent
/// with a tag is not joined to the one before it, and a piece that does not begin where the extent
/// did has tag 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent(u64);

impl Extent {
    /// Bytes without an address: a hole.
    pub const HOLE: Self = Self(HOLE);

    /// The greatest address.
    pub const ADDRESS_MAX: u64 = HOLE - 1;

    /// Returns the extent of bytes at `address`.
    ///
    /// # Errors
    /// [`Error::AddressTooLarge`] above [`Self::ADDRESS_MAX`].
    pub fn at(address: u64) -> Result<Self, Error> {
        if address > Self::ADDRESS_MAX {
            return Err(Error::AddressTooLarge { address, length: 0 });
        }
        Ok(Self(address))
    }

    /// Returns the same bytes with `tag`.
    #[must_use]
    pub fn with_tag(self, tag: u16) -> Self {
        Self(self.0 & HOLE | u64::from(tag) << ADDRESS_BITS)
    }

    /// Returns the address of the first byte; none in a hole.
    pub fn address(self) -> Option<u64> {
        let address = self.0 & HOLE;
        (address != HOLE).then_some(address)
    }

    /// Returns whether the bytes have no address.
    pub fn is_hole(self) -> bool {
        self.0 & HOLE == HOLE
    }

    /// Returns the tag of the first byte.
    pub fn tag(self) -> u16 {
        (self.0 >> ADDRESS_BITS) as u16
    }

    /// Returns the bytes from the one `by` further on.
    #[must_use]
    pub fn skip(self, by: u64) -> Self {
        let address = self.0 & HOLE;
        if by == 0 {
            self
        } else if address == HOLE {
            Self::HOLE
        } else {
            // Stays below the mark of holes, since `by` is less than the length (`check_length`).
            Self(address + by)
        }
    }

    /// Returns address and tag as one number, in which they are stored.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the extent of that number.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Refuses `length` bytes of which the last has no address.
    pub(crate) fn check_length(self, length: u64) -> Result<(), Error> {
        let Some(address) = self.address() else { return Ok(()) };
        match address.checked_add(length) {
            Some(end) if end <= HOLE => Ok(()),
            _ => Err(Error::AddressTooLarge { address, length }),
        }
    }
}

impl Default for Extent {
    fn default() -> Self {
        Self::HOLE
    }
}

impl std::fmt::Debug for Extent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address() {
            Some(address) => write!(out, "@{address}")?,
            None => write!(out, "hole")?,
        }
        if self.tag() == 0 { Ok(()) } else { write!(out, "#{}", self.tag()) }
    }
}

impl Entry for Extent {
    /// Offsets are all that separates nodes of extents.
    type Pivot = ();

    fn pivot(&self) {}

    fn tail(&self, by: u32) -> Self {
        self.skip(u64::from(by))
    }
}

/// Which neighbouring extents become one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    /// Addresses that are alike above this many bits may belong to one extent.
    pub(crate) window_bits: u32,
}

impl Joining {
    /// Returns whether `left`, which has `length` bytes, and `right` with `more` are one run of
    /// bytes.
    pub(crate) fn joins(self, left: Extent, length: u32, right: Extent, more: u32) -> bool {
        let Some(both) = length.checked_add(more) else { return false };
        if right.tag() != 0 {
            return false;
        }
        match (left.address(), right.address()) {
            (Some(first), Some(next)) => {
                let last = first + u64::from(both) - 1;
                first + u64::from(length) == next
                    && first >> self.window_bits == last >> self.window_bits
            }
            (None, None) => true,
            _ => false,
        }
    }
}
