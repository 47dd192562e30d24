//! Live bytes of segments that are added and removed; and samples of many.

use super::{Covered, LiveBytes};
use crate::address::LogAddress;
use crate::checkpoint::Span;
use crate::hybrid_log::{Gaps, Geometry};

const SEGMENT: u64 = 1 << 20;

fn at(segment: u64, offset: u64) -> LogAddress {
    LogAddress::new(segment * SEGMENT + offset)
}

fn restored(begin: LogAddress, end: LogAddress, live: u64) -> LiveBytes {
    let geometry = Geometry::new(1 << 16, SEGMENT, 8, 0.9);
    LiveBytes::restored(geometry, &Gaps::default(), Span { begin, end }, live)
}

#[test]
fn what_is_wrong_goes_with_its_segment() {
    let live = restored(LogAddress::default(), LogAddress::default(), 0);
    live.add(at(0, 64), 1000);
    live.add(at(3, 0), 5000);
    assert_eq!(live.sum(), 6000);
    live.take(at(0, 512), 4000);
    assert_eq!(live.sum(), 5000, "a segment has no less than nothing");
    live.take(at(3, 512), 2000);
    live.take(at(9, 0), 1);
    assert_eq!(live.sum(), 3000);
    live.forget_below(at(3, 0));
    live.add(at(2, 0), 7);
    live.take(at(2, 0), 7);
    assert_eq!(live.sum(), 3000, "nothing is below the beginning");
    live.forget_below(at(7, 0));
    assert_eq!(live.sum(), 0);
    live.add(at(8, 0), 3);
    assert_eq!(live.sum(), 3);
}

#[test]
fn a_sum_is_spread_over_the_segments_and_comes_back() {
    for (begin, end, sum) in [
        (at(2, 0), at(2, 0), 0),
        (at(2, 0), at(5, 4096), 1_234_567),
        (at(0, 0), at(1, 0), 999),
        (at(7, 0), at(7, 4096), 4096),
    ] {
        let live = restored(begin, end, sum);
        assert_eq!(live.sum(), sum, "{begin:?} {end:?}");
        live.forget_below(LogAddress::new(end.get().next_multiple_of(SEGMENT)));
        assert_eq!(live.sum(), 0, "{begin:?} {end:?}");
    }
    let live = restored(at(1, 0), at(5, 0), 4000);
    live.forget_below(at(2, 0));
    assert_eq!(live.sum(), 3000);
}

#[test]
fn some_of_many_stand_for_all() {
    for count in [0, 1, 5, 32, 33, 64, 65, 1000, 1_000_000] {
        let mut covered = Covered::default();
        (0..count).for_each(|number| covered.push(LogAddress::new(16 * number)));
        let some = covered.some();
        assert!(some.len() <= Covered::MOST && (some.len() as u64) >= count.min(8), "{count}");
        let stood_for = some.len() as u64 * covered.weight_permille();
        assert!((count * 1000).abs_diff(stood_for) <= 1000, "{count}: {stood_for}");
        // From the whole of them.
        assert!(count == 0 || some.last().expect("one").get() >= 16 * (count - 1) * 3 / 4);
    }
}
