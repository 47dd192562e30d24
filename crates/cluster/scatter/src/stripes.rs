//! How the bytes of a table are divided among its fragments (Nova-LSM, section 4.4).
//!
//! A *stripe* has the same number of bytes for all stripes but the last. The stripes go to the
//! fragments in turn, so a table that is still growing is divided, and its size decides how many
//! fragments it has.

/// Bytes of a stripe of new tables.
pub(crate) const STRIPE_BYTES: u64 = 2 << 20;

/// How a table is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    /// The most fragments of a table: the paper's rho. At least one.
    pub rho: u32,
    /// Bytes of a stripe, at least one.
    pub bytes: u64,
}

/// Successive bytes of one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) fragment: usize,
    /// The offset of the first byte in the fragment.
    pub(crate) offset: u64,
    /// The offset of the first byte in the table.
    pub(crate) of_table: u64,
    pub(crate) bytes: u64,
}

impl Stripes {
    /// Returns how a new table is divided into at most `rho` fragments.
    pub(crate) fn new(rho: u32) -> Self {
        Self { rho: rho.max(1), bytes: STRIPE_BYTES }
    }

    /// Returns the number of fragments of a table. An empty table has one.
    pub(crate) fn fragments(&self, length: u64) -> usize {
        length.div_ceil(self.bytes).clamp(1, u64::from(self.rho)) as usize
    }

    /// Returns the bytes of a fragment of a table.
    pub(crate) fn length_of(&self, fragment: usize, length: u64) -> u64 {
        let (rho, fragment) = (u64::from(self.rho), fragment as u64);
        let (whole, rest) = (length / self.bytes, length % self.bytes);
        let stripes = whole / rho + u64::from(fragment < whole % rho);
        stripes * self.bytes + if whole % rho == fragment { rest } else { 0 }
    }

    /// Returns the parts of successive bytes of a table, in their order.
    pub(crate) fn parts(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Part> + use<> {
        let (stripes, end) = (*self, offset + bytes);
        let mut next = offset;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let (stripe, within) = (next / stripes.bytes, next % stripes.bytes);
            let part = Part {
                fragment: (stripe % u64::from(stripes.rho)) as usize,
                offset: stripe / u64::from(stripes.rho) * stripes.bytes + within,
                of_table: next,
                bytes: (stripes.bytes - within).min(end - next),
            };
            next += part.bytes;
            Some(part)
        })
    }
}
