//! Options of a space.

use super::Error;
use crate::data::Geometry;

/// Options of a [`FlexSpace`](super::FlexSpace).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a segment, a power of two from 16 KiB to 1 GiB; an extent has at most 1/32 of it
    /// (Flex 4.2). Fixed when the space is created. Larger ones make the collector's work coarser,
    /// smaller ones the extents shorter. Default: 4 MiB.
    pub segment_bytes: u32,
    /// Most bytes of the data file: 64 segments beyond the reserve, or more. Less than 1/16 of it,
    /// and the reserve, stay unused, so that the collector can always proceed. Default: all
    /// addresses, 2^48 bytes.
    pub capacity_bytes: u64,
    /// Segments that are kept for the collector, 64 or more, so that it can proceed at the limit of
    /// live bytes. Default: 64.
    pub reserved_segments: u32,
    /// Bytes of records after which a change commits them, as [`FlexSpace::sync`] would. They are
    /// kept in memory. Default: 4 MiB.
    ///
    /// [`FlexSpace::sync`]: super::FlexSpace::sync
    pub log_buffer_bytes: usize,
    /// Bytes of the log after which a sync is followed by a checkpoint. More make checkpoints
    /// rarer, and opening after a crash slower. Default: 64 MiB.
    pub log_bytes_max: u64,
    /// Extents that are moved in one collection, unless no fewer would win a segment, and changes
    /// that are noted while it looks for them. Each takes about 80 bytes of memory meanwhile.
    /// Default: 2^20.
    pub collected_extents_max: u64,
}

/// The smallest reserve, and the fewest segments beyond it, with which a collection at the limit
/// wins a segment. Suppose that U of them hold 30/32 of their bytes, and one is being filled. From
/// U = 62 on the others are packed to 31/32 with one segment to spare, and need a reserve of the
/// same number.
const SEGMENTS_MIN: u32 = 64;

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 4 << 20,
            capacity_bytes: 1 << crate::extent::ADDRESS_BITS,
            reserved_segments: 64,
            log_buffer_bytes: 4 << 20,
            log_bytes_max: 64 << 20,
            collected_extents_max: 1 << 20,
        }
    }
}

impl Options {
    /// Checks that a space can have them.
    ///
    /// # Errors
    /// [`Error::Options`], in words for a user.
    pub fn check(&self) -> Result<(), Error> {
        self.geometry().map(drop)
    }

    /// Returns the sizes of the segments, and how many there may be.
    pub(super) fn geometry(&self) -> Result<(Geometry, u32), Error> {
        let geometry = Geometry::new(self.segment_bytes).ok_or_else(|| {
            let (min, max) = (Geometry::SEGMENT_BYTES_MIN, Geometry::SEGMENT_BYTES_MAX);
            let bytes = self.segment_bytes;
            Error::Options(format!(
                "segments of {bytes} bytes: choose a power of two from {min} to {max}"
            ))
        })?;
        let count = self.capacity_bytes / u64::from(self.segment_bytes);
        let count = count.min(u64::from(geometry.segments_max())) as u32;
        let usable = count.saturating_sub(self.reserved_segments);
        if self.reserved_segments < SEGMENTS_MIN || usable < SEGMENTS_MIN {
            return Err(Error::Options(format!(
                "{} bytes are {count} segments, of which {} are reserved: give capacity for \
                 {SEGMENTS_MIN} reserved segments and {SEGMENTS_MIN} others, or choose smaller segments",
                self.capacity_bytes, self.reserved_segments
            )));
        }
        Ok((geometry, count))
    }
}
