//! The interface of the compared indexes of extents, and how they are filled.

use environment::Random;
use flexspace::{Extent, FlexTree};
use rand::RngExt;

/// Bytes of every extent, so that a uniform offset is a uniform extent.
pub(super) const LENGTH: u32 = 4096;

/// An index that the benchmark compares.
pub(super) trait Index: Sized {
    const NAME: &'static str;
    /// How many extents it may have for inserts to be measured.
    const INSERTS_MAX: u64;
    /// Whether entries behind an insertion are shifted without being touched.
    const IS_SHIFTED: bool = false;
    fn empty() -> Self;
    fn append(&mut self, address: u64);
    fn insert(&mut self, offset: u64, address: u64);
    fn get(&self, offset: u64) -> u64;
    fn sum(&self, from: u64, to: u64) -> u64;
}

impl Index for FlexTree {
    const NAME: &'static str = "flex_tree";
    const INSERTS_MAX: u64 = 10_000_000;
    const IS_SHIFTED: bool = true;

    fn empty() -> Self {
        Self::new()
    }

    fn append(&mut self, address: u64) {
        let extent = Extent::at(address).expect("48 bits");
        self.append(u64::from(LENGTH), extent).expect("there is room");
    }

    fn insert(&mut self, offset: u64, address: u64) {
        let extent = Extent::at(address).expect("48 bits");
        self.insert_range(offset, u64::from(LENGTH), extent).expect("there is room");
    }

    fn get(&self, offset: u64) -> u64 {
        let found = self.get(offset).expect("within the space");
        found.extent.address().expect("there are no holes") + (offset - found.offset)
    }

    fn sum(&self, from: u64, to: u64) -> u64 {
        self.query(from..to).map(|piece| piece.extent.address().unwrap_or(0)).sum()
    }
}

/// Addresses of which no two follow each other.
pub(super) fn address(number: u64) -> u64 {
    (number * 2) * u64::from(LENGTH)
}

pub(super) fn appended<I: Index>(count: u64) -> I {
    let mut index = I::empty();
    (0..count).for_each(|number| index.append(address(number)));
    index
}

/// Each insert between two random extents, as in the paper's section 2.
pub(super) fn inserted<I: Index>(count: u64, random: &mut Random) -> I {
    let mut index = I::empty();
    for number in 0..count {
        let offset = random.random_range(0..=number) * u64::from(LENGTH);
        index.insert(offset, address(number));
    }
    index
}

pub(super) fn offsets(count: u64, random: &mut Random) -> Vec<u64> {
    let len = count * u64::from(LENGTH);
    (0..(1 << 20)).map(|_| random.random_range(0..len)).collect()
}
