//! The buckets themselves, in segments that are never moved while the table doubles.
//!
//! Segment 0 has the base buckets. Segment `i` has the same number of buckets as all segments
//! before it together, and holds the buckets that the `i`th doubling makes.

use std::sync::OnceLock;

use super::LEVEL_MAX;
use super::bucket::{Bucket, Buckets, Control};

pub(super) struct Table {
    base_bits: u32,
    segments: [OnceLock<Buckets>; LEVEL_MAX as usize + 1],
}

impl Table {
    /// A table of `1 << base_bits` buckets.
    pub(super) fn new(base_bits: u32) -> Self {
        let table =
            Self { base_bits, segments: [const { OnceLock::new() }; LEVEL_MAX as usize + 1] };
        table.add_segment(0, Control::new(0, 0));
        table
    }

    pub(super) fn base_bits(&self) -> u32 {
        self.base_bits
    }

    /// How many buckets there are at `level`.
    #[inline]
    pub(super) fn buckets(&self, level: u32) -> usize {
        1 << (self.base_bits + level)
    }

    /// Makes the segment of the doubling to `level`, unless it is there.
    pub(super) fn add_segment(&self, level: u32, control: Control) {
        self.segments[level as usize].get_or_init(|| {
            let buckets = Buckets::new(self.buckets(level.saturating_sub(1)));
            if control != Control::new(0, 0) {
                (0..buckets.len()).for_each(|number| buckets.get(number).publish(control));
            }
            buckets
        });
    }

    /// Returns the bucket of this number. Its segment must be there: the caller has acquired a
    /// level at which this number exists.
    #[inline]
    pub(super) fn bucket(&self, number: usize) -> Bucket<'_> {
        let segment = usize::BITS - (number >> self.base_bits).leading_zeros();
        let first = if segment == 0 { 0 } else { self.buckets(segment - 1) };
        let buckets = self.segments[segment as usize].get();
        buckets.expect("a level is published after its segment").get(number - first)
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().filter_map(OnceLock::get).map(Buckets::bytes).sum()
    }
}
