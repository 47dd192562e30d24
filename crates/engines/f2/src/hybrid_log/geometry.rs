//! The pages, frames and segments that the log's addresses are divided into.

use crate::address::LogAddress;
use crate::record::{HEAD_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The unit in which the log is written and read. Small under the checkers, which follow every
/// word.
pub(crate) const BLOCK_BYTES: u64 = if cfg!(any(loom, shuttle)) { 64 } else { 4096 };

/// Bytes of the filler at the beginning of the first page, so that no record has the address 0.
pub(crate) const FIRST_BYTES: u64 = if cfg!(any(loom, shuttle)) { 16 } else { 64 };

/// Sizes of a log's parts, all powers of two but the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Geometry {
    page_shift: u32,
    segment_shift: u32,
    /// Pages in memory at first.
    pub(crate) frames: usize,
    /// Pages in memory at most; how many there are may change in between.
    pub(crate) frames_max: usize,
    /// Share of the pages in memory that is changed in place.
    mutable: f64,
}

impl Geometry {
    /// Fewest pages in memory: one being filled, one to come, one read-only, one between.
    pub(crate) const FRAMES_MIN: usize = 4;
    /// The same of a log whose writers reserve room: the page at the tail, three that the longest
    /// record reserves, and one for credit (R3 of `reserve`).
    pub(crate) const FRAMES_MIN_TO_RESERVE: usize = 5;

    /// A log of `frames` pages in memory, of which the share `mutable` is changed in place.
    pub(crate) fn new(page_bytes: u64, segment_bytes: u64, frames: usize, mutable: f64) -> Self {
        assert!(page_bytes.is_power_of_two() && page_bytes >= BLOCK_BYTES);
        assert!(segment_bytes.is_power_of_two() && segment_bytes >= page_bytes);
        assert!(frames >= Self::FRAMES_MIN);
        Self {
            page_shift: page_bytes.trailing_zeros(),
            segment_shift: segment_bytes.trailing_zeros(),
            frames,
            frames_max: frames,
            mutable,
        }
    }

    /// The same for a log that may get `memory_bytes` of memory.
    pub(crate) fn growing_to(self, memory_bytes: u64) -> Self {
        let frames_max = (memory_bytes >> self.page_shift) as usize;
        Self { frames_max: frames_max.max(self.frames), ..self }
    }

    /// Pages, counted from the tail's, that are changed in place if `frames` are in memory.
    pub(crate) fn mutable_pages(&self, frames: u64) -> u64 {
        ((frames as f64 * self.mutable) as u64).clamp(1, frames - 2)
    }

    pub(crate) const fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    pub(crate) const fn segment_bytes(&self) -> u64 {
        1 << self.segment_shift
    }

    /// The page that contains an address.
    pub(crate) const fn page(&self, address: LogAddress) -> u64 {
        address.get() >> self.page_shift
    }

    /// The offset of an address in its page.
    pub(crate) const fn offset(&self, address: LogAddress) -> u64 {
        address.get() & (self.page_bytes() - 1)
    }

    /// The address at which a page begins.
    pub(crate) const fn page_begin(&self, page: u64) -> LogAddress {
        LogAddress::new(page << self.page_shift)
    }

    /// The segment that contains an address.
    pub(crate) const fn segment(&self, address: LogAddress) -> u64 {
        address.get() >> self.segment_shift
    }

    /// The address at which a segment begins.
    pub(crate) const fn segment_begin(&self, segment: u64) -> LogAddress {
        LogAddress::new(segment << self.segment_shift)
    }

    /// Bytes of the longest record: it is in one page, and fits the first too, behind its filler.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let fields = HEAD_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX;
        fields.min((self.page_bytes() - FIRST_BYTES) as usize)
    }
}
