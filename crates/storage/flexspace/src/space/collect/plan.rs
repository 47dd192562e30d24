//! Which segments are collected: a view of all of them in, victims out.

use crate::data::SegmentView;

/// Most victims of one collection: their live bytes have room in a reserve of the same number of
/// segments.
const VICTIMS_MAX: usize = 64;
/// With room to spare, a segment is worth its copy if at most this share of it lives, of 32.
const SHARE_AT_EASE: u64 = 16;
/// Without, if at least one extent of the greatest length is won (Flex 4.2).
const SHARE_IN_NEED: u64 = 31;
const SHARES: u64 = 32;
/// Share of bytes in closed segments that are dead, of 32, from which on a collection is worth it;
/// and the same while writes are so frequent that they empty segments without it.
const DEAD_SHARE: u64 = 8;
const DEAD_SHARE_BESIDE_WRITES: u64 = 13;

/// Returns the victims, emptiest first chosen, in ascending order; none if it is not worth it.
pub(in crate::space) fn plan(view: &SegmentView) -> Vec<u32> {
    let is_short = view.available < view.demand || view.available <= view.reserved / 4;
    let in_need = is_short || view.is_device_full || view.is_thorough;
    let count = view.closed.len() as u64;
    let live: u64 = view.closed.iter().map(|(_, live)| live).sum();
    let room = count * view.payload_bytes;
    let dead_share = if view.is_beside_writes { DEAD_SHARE_BESIDE_WRITES } else { DEAD_SHARE };
    if !in_need && (room - live) * SHARES < room * dead_share {
        return Vec::new();
    }
    let share = if in_need { SHARE_IN_NEED } else { SHARE_AT_EASE };
    let is_worth = |live: u64| live * SHARES <= view.payload_bytes * share;
    let mut candidates: Vec<(u64, u32)> = view
        .closed
        .iter()
        .filter(|(_, live)| is_worth(*live))
        .map(|(segment, live)| (*live, *segment))
        .collect();
    candidates.sort_unstable();
    // The copies need room before the first victim is free.
    let room = u64::from(view.room) * view.payload_bytes / SHARES * SHARE_IN_NEED;
    let mut copied = 0;
    let fits = |(live, _): &&(u64, u32)| {
        copied += live;
        copied <= room
    };
    let chosen = candidates.iter().take_while(fits).take(VICTIMS_MAX);
    let mut victims: Vec<u32> = chosen.map(|(_, segment)| *segment).collect();
    victims.sort_unstable();
    if !wins(view, &victims) {
        victims.clear();
    }
    victims
}

/// Returns fewer victims, the emptiest first, with at most `extents_max` extents between them; with
/// more, if no fewer win a segment. `extents` has the number of each victim.
pub(super) fn fewer(
    view: &SegmentView,
    victims: &[u32],
    extents: &[u64],
    extents_max: u64,
) -> Vec<u32> {
    let live = |victim: &u32| {
        let found = view.closed.iter().find(|(segment, _)| segment == victim);
        found.map_or(0, |(_, live)| *live)
    };
    let mut by_live: Vec<(u64, u32, u64)> = victims
        .iter()
        .zip(extents)
        .map(|(victim, count)| (live(victim), *victim, *count))
        .collect();
    by_live.sort_unstable();
    let mut sum = 0;
    let fits = |(_, _, count): &&(u64, u32, u64)| {
        sum += count;
        sum <= extents_max
    };
    let few = by_live.iter().take_while(fits).count();
    let first = |count: usize| {
        let mut chosen: Vec<u32> = by_live.iter().take(count).map(|(_, it, _)| *it).collect();
        chosen.sort_unstable();
        chosen
    };
    let chosen = (few..=by_live.len()).map(first).find(|chosen| wins(view, chosen));
    chosen.unwrap_or_else(|| victims.to_vec())
}

/// Returns whether the victims have room in one segment less.
fn wins(view: &SegmentView, victims: &[u32]) -> bool {
    (packed(view, victims) as usize) < victims.len()
}

/// Returns the segments that the live bytes of `victims` take, packed with the gaps that extents
/// leave.
pub(super) fn packed(view: &SegmentView, victims: &[u32]) -> u32 {
    let is_victim = |segment: &u32| victims.binary_search(segment).is_ok();
    let live = view.closed.iter().filter(|(segment, _)| is_victim(segment));
    let live: u64 = live.map(|(_, live)| live).sum();
    (live * SHARES).div_ceil(view.payload_bytes * SHARE_IN_NEED) as u32
}
