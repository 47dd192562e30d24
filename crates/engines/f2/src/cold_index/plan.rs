//! Whether the chunk log is to be compacted, and how far.
//!
//! It is left alone while at least half of it is live. Then a round takes its oldest quarter, of
//! which hardly more than half is live, so that each byte that is copied releases at least one
//! other.

use super::Figures;
use crate::address::LogAddress;
use crate::hybrid_log::Geometry;

/// Length of the log at which it is compacted, as a multiple of its live bytes.
const BYTES_PER_LIVE_BYTE: u64 = 2;
/// A round takes this part of the log.
const ROUND_PART: u64 = 4;
/// Segments up to which the log is left alone.
const SEGMENTS_MIN: u64 = 4;

/// Whether there is anything that compaction would be for.
pub(super) fn is_wanted(figures: &Figures, geometry: &Geometry) -> bool {
    figures.log_bytes > SEGMENTS_MIN * geometry.segment_bytes()
        && figures.log_bytes > BYTES_PER_LIVE_BYTE * figures.live_bytes
}

/// Returns the address up to which to compact, if at all: a segment's end that is on disk.
pub(super) fn plan(
    figures: &Figures,
    begin: LogAddress,
    flushed: LogAddress,
    geometry: &Geometry,
) -> Option<LogAddress> {
    if !is_wanted(figures, geometry) {
        return None;
    }
    let round = geometry.segment(begin.plus(figures.log_bytes / ROUND_PART));
    let wanted = geometry.segment_begin(round.max(geometry.segment(begin) + 1));
    let on_disk = geometry.segment_begin(geometry.segment(flushed));
    let until = wanted.min(on_disk);
    (until > begin).then_some(until)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
