//! Whether the log is to be compacted, and how far.
//!
//! A round takes the oldest tenth, of the hot log three. With a budget of disk space it is due at
//! four fifths of that (section 5.2 of the paper). Without one, the bytes that users append pay for
//! it: for each byte of theirs [`BYTES_PER_BYTE`] are compacted, which in the long run leaves that
//! part of the log dead.
//!
//! The hot log is different: every live record leaves it, so a round always helps. And it is due,
//! too, when the hot index is crowded, with records that may all be in memory still.
//!
//! It is known about how much of the cold log is dead ([`crate::cold`], `live_bytes`). While that
//! is little the log is left alone, and while that is nearly nothing also if its budget is used up.
//!
//! A round that has failed is tried again ([`Figures::waits_after_failure`]), as described in
//! `failing_compactions`, while one is needed.
//!
//! If nearly all records are live, a round gains nothing. The next one then waits until users have
//! appended a share of the log again, so that compaction never runs for its own sake. The exception
//! is a log much of which is known to be dead: the dead part is further on, and the log would grow
//! until the rounds reach it.

use std::time::Duration;

use crate::address::LogAddress;
use crate::hybrid_log::Geometry;

/// Figures that the plan depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) begin: LogAddress,
    pub(crate) flushed: LogAddress,
    pub(crate) tail: LogAddress,
    /// Bytes that the log takes.
    pub(crate) bytes: u64,
    /// Bytes that users have appended since the last round, or since the store was opened.
    pub(crate) appended: u64,
    /// Share of the bytes that the last round read that was alive; 0 before the first.
    pub(crate) live_share: f64,
    /// Share of the log that is dead at least, if that is known.
    pub(crate) dead_share: Option<f64>,
    /// Rounds that have failed, if the last one did.
    pub(crate) failed: Option<Failed>,
}

/// Rounds that have failed since one did not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) rounds: u64,
    /// Bytes that users have appended since the last of them.
    pub(crate) appended: u64,
    /// How long that is ago.
    pub(crate) elapsed: Duration,
}

impl Figures {
    /// Whether it is too soon to try a failed round again: it is tried when more was appended, or
    /// after a while, and each time later.
    pub(crate) fn waits_after_failure(&self) -> bool {
        self.failed.is_some_and(|failed| {
            let times = 1_u32 << failed.rounds.saturating_sub(1).min(RETRY_DOUBLINGS_MAX);
            let appended = self.bytes as f64 * RETRY_SHARE * f64::from(times);
            (failed.appended as f64) < appended && failed.elapsed < RETRY_INTERVAL * times
        })
    }
}

/// Share of the budget at which compaction begins.
const TRIGGER_SHARE: f64 = 0.8;
/// Share of the log that one round takes.
const ROUND_SHARE: f64 = 0.1;
/// The same of the hot log: the more records leave it together, the fewer chunks of the cold index
/// are written for each.
const HOT_ROUND_SHARE: f64 = 0.3;
/// No round is longer: other background work waits for its end.
const ROUND_BYTES_MAX: u64 = 256 << 20;
/// Bytes compacted for each byte that users append, without a budget. Two fifths of the bytes that
/// a round reads are dead then, and the log is about half as large again as its live records.
const BYTES_PER_BYTE: f64 = 2.5;
/// A round that finds more than this alive was not worth it.
pub(super) const LIVE_SHARE_MAX: f64 = 0.9;
/// Share of the log that is dead below which it is left alone, if that share is known.
const DEAD_SHARE_MIN: f64 = 0.15;
/// The same with a budget, which needs more work for less gain.
const DEAD_SHARE_MIN_AT_BUDGET: f64 = 0.02;
/// Share of the log that is dead from which on it is compacted without waiting for users to append:
/// each byte that is copied releases at least one other. The usual pace keeps the share below this,
/// so this is for records that deletes have made dead.
const DEAD_SHARE_HALF: f64 = 0.5;
/// Share of the log that is dead from which on it is compacted at the usual pace even though its
/// oldest part is live: the dead part is behind that.
const DEAD_SHARE_MUCH: f64 = 0.3;
/// Bytes that users append, as a share of the log, before another round is tried after such a one.
const PATIENCE_SHARE: f64 = 0.5;
/// The same if the budget is nearly used up.
const PATIENCE_SHARE_AT_BUDGET: f64 = 0.02;
/// Bytes that users append, as a share of the log, or the time that passes, before a failed round
/// is tried again. Both double with each further failure, at most this number of times.
const RETRY_SHARE: f64 = 0.02;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS_MAX: u64 = 5;
/// Segments below which a log without a budget is left alone.
const SEGMENTS_MIN: u64 = 4;

/// Returns the address up to which to compact, if at all: a segment's end that is on disk.
pub(crate) fn plan(
    figures: &Figures,
    disk_bytes_max: Option<u64>,
    geometry: &Geometry,
) -> Option<LogAddress> {
    if figures.waits_after_failure() || !is_wanted(figures, disk_bytes_max, geometry) {
        return None;
    }
    let bytes = figures.bytes as f64;
    let is_much_dead = figures.dead_share.is_some_and(|dead| dead >= DEAD_SHARE_MUCH);
    let was_worth_it = figures.live_share <= LIVE_SHARE_MAX || is_much_dead;
    let spin_wait = match disk_bytes_max {
        None if is_half_dead(figures, geometry) => 0.0,
        Some(_) if was_worth_it => 0.0,
        Some(_) => PATIENCE_SHARE_AT_BUDGET,
        None if was_worth_it => ROUND_SHARE / BYTES_PER_BYTE,
        None => PATIENCE_SHARE,
    };
    if (figures.appended as f64) < bytes * spin_wait {
        return None;
    }
    let round = ((bytes * ROUND_SHARE) as u64).min(ROUND_BYTES_MAX);
    let last = geometry.segment(figures.begin.plus(round.max(1) - 1));
    let until = geometry.segment_begin(last + 1);
    let on_disk = geometry.segment_begin(geometry.segment(figures.flushed));
    let until = until.min(on_disk);
    (until > figures.begin).then_some(until)
}

/// Whether there is anything that compaction would be for, be it now or later.
pub(crate) fn is_wanted(
    figures: &Figures,
    disk_bytes_max: Option<u64>,
    geometry: &Geometry,
) -> bool {
    let (is_large, dead_min) = match disk_bytes_max {
        Some(max) => (figures.bytes as f64 >= max as f64 * TRIGGER_SHARE, DEAD_SHARE_MIN_AT_BUDGET),
        None => (figures.bytes > SEGMENTS_MIN * geometry.segment_bytes(), DEAD_SHARE_MIN),
    };
    let is_half_dead = disk_bytes_max.is_none() && is_half_dead(figures, geometry);
    is_half_dead || is_large && figures.dead_share.is_none_or(|dead| dead >= dead_min)
}

/// Whether half of it is dead, and it has more than the segment at its tail.
fn is_half_dead(figures: &Figures, geometry: &Geometry) -> bool {
    figures.bytes > geometry.segment_bytes()
        && figures.dead_share.is_some_and(|dead| dead >= DEAD_SHARE_HALF)
}

/// The same of the hot log of two.
pub(crate) fn is_wanted_of_hot(
    figures: &Figures,
    disk_bytes_max: Option<u64>,
    is_index_crowded: bool,
) -> bool {
    let is_over = |max: u64| figures.bytes as f64 >= max as f64 * TRIGGER_SHARE;
    is_index_crowded || disk_bytes_max.is_some_and(is_over)
}

/// Returns the address up to which to move the live records of the hot log to the cold one, if at
/// all. It is a page's end, which may not be on disk yet if the index is crowded.
pub(crate) fn plan_hot(
    figures: &Figures,
    disk_bytes_max: Option<u64>,
    is_index_crowded: bool,
    geometry: &Geometry,
) -> Option<LogAddress> {
    let is_wanted = is_wanted_of_hot(figures, disk_bytes_max, is_index_crowded);
    if !is_wanted || figures.waits_after_failure() {
        return None;
    }
    let until = hot_round_end(figures, geometry);
    let on_disk = geometry.page_begin(geometry.page(figures.flushed));
    if on_disk > figures.begin {
        return Some(until.min(on_disk));
    }
    // The page at the tail is being written.
    let tail_page = geometry.page_begin(geometry.page(figures.tail));
    let until = until.min(tail_page);
    (is_index_crowded && until > figures.begin).then_some(until)
}

/// Returns the end of a round of the hot log: a page's end, whether that is on disk or not.
pub(super) fn hot_round_end(figures: &Figures, geometry: &Geometry) -> LogAddress {
    let round = ((figures.bytes as f64 * HOT_ROUND_SHARE) as u64).clamp(1, ROUND_BYTES_MAX);
    geometry.page_begin(geometry.page(figures.begin.plus(round - 1)) + 1)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
