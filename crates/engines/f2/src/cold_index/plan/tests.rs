//! When the plan asks for a compaction, and how far.

use super::plan;
use crate::address::LogAddress;
use crate::cold_index::Figures;
use crate::hybrid_log::Geometry;

const SEGMENT: u64 = 1 << 20;

fn until(log_segments: u64, live_segments: u64, flushed_segments: u64) -> Option<u64> {
    let geometry = Geometry::new(4096, SEGMENT, Geometry::FRAMES_MIN, 0.5);
    let begin = LogAddress::new(10 * SEGMENT);
    let figures = Figures {
        log_bytes: log_segments * SEGMENT,
        live_bytes: live_segments * SEGMENT,
        ..Figures::default()
    };
    plan(&figures, begin, begin.plus(flushed_segments * SEGMENT + 5), &geometry)
        .map(|until| (until.get() - begin.get()) / SEGMENT)
}

#[test]
fn a_log_that_lives_to_a_half_is_left_alone() {
    assert_eq!(until(20, 10, 20), None);
    assert_eq!(until(20, 9, 20), Some(5), "the oldest quarter");
}

#[test]
fn a_small_log_is_left_alone() {
    assert_eq!(until(4, 0, 4), None);
    assert_eq!(until(5, 0, 5), Some(1), "at least a segment");
}

#[test]
fn only_what_is_on_disk_is_compacted() {
    assert_eq!(until(20, 0, 3), Some(3));
    assert_eq!(until(20, 0, 0), None);
}
