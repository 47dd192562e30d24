//! Whether the log is to be compacted, and how far.
//!
//! With a budget of disk space, compaction begins at four fifths of it and takes the oldest tenth
//! (section 5.2 of the paper). Without one, the log may grow by half over what is estimated to live:
//! the share that the last round found alive stands for the whole.

use crate::address::LogAddress;
use crate::hybrid_log::Geometry;

/// What the plan depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) begin: LogAddress,
    pub(crate) flushed: LogAddress,
    pub(crate) tail: LogAddress,
    /// Of what the last round read, the share that was alive.
    pub(crate) live_share: f64,
}

/// Share of the budget at which compaction begins.
const TRIGGER_SHARE: f64 = 0.8;
/// Share of the log that one round takes.
const ROUND_SHARE: f64 = 0.1;
/// What the log may be of what lives, where there is no budget.
const GROWTH: f64 = 1.5;
/// Without a budget the log is left alone below so many segments.
const SEGMENTS_MIN: u64 = 4;

/// Up to where to compact, if at all: a segment's end that is on disk.
pub(crate) fn plan(
    figures: &Figures,
    disk_bytes_max: Option<u64>,
    geometry: &Geometry,
) -> Option<LogAddress> {
    let bytes = figures.tail.get().saturating_sub(figures.begin.get());
    let is_due = match disk_bytes_max {
        Some(max) => bytes as f64 >= max as f64 * TRIGGER_SHARE,
        None => {
            // Until a round was made nobody knows; a log of some segments is worth a look.
            let live = bytes as f64 * figures.live_share;
            bytes > SEGMENTS_MIN * geometry.segment_bytes() && bytes as f64 > live * GROWTH
        }
    };
    if !is_due {
        return None;
    }
    let round = (bytes as f64 * ROUND_SHARE) as u64;
    let last = geometry.segment(figures.begin.plus(round.max(1) - 1));
    let until = geometry.segment_begin(last + 1);
    let on_disk = geometry.segment_begin(geometry.segment(figures.flushed));
    let until = until.min(on_disk);
    (until > figures.begin).then_some(until)
}
