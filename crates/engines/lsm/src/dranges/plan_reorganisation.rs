//! Whether to reorganise, and how: a pure function of the writes that were counted.
//!
//! - *Minor*: one Drange has more than its share. It gives Tranges at its edges to its neighbours,
//!   until it is down to its share.
//! - *Major*: many Dranges have more or less than their share, or a minor reorganisation cannot
//!   help. Dranges and Tranges are rebuilt from a sample of writes. This also happens once the
//!   writes counted since the boundaries were made are enough to place them better: the first
//!   boundaries come from the writes of one memtable.
//!
//! - *Early*: of the newest writes alone, far more go to one Drange than its boundaries were made
//!   for. Dranges are rebuilt as for a major one, as if nothing had been counted before.
//!
//! A difference that causes a reorganisation is far more than chance makes of equal loads.

use super::construct::{Layout, Part, Weighed};

/// Share of the fair load: a Drange that is above or below the fair load by more than this, and
/// three times the noise of the counts, is unfair.
const UNFAIR: f64 = 0.2;
/// Share of all Dranges: if more than this are unfair, all are rebuilt.
const UNFAIR_MAX: f64 = 0.3;
/// Imbalance of the slots' loads, in addition to twice the noise, above which Dranges are rebuilt,
/// once better boundaries can be found.
const UNEVEN: f64 = 0.005;
/// Multiple of the writes that the boundaries were made from: with this number of writes, or with
/// half of [`WINDOW`] if that is less, better boundaries can be found.
const BETTER: u64 = 4;
/// Writes for each slot before anything is decided.
const WRITES_MIN: u64 = 100;
/// Excess of a Drange over its share, as a part of the share, from which on writes have moved; and
/// the same in standard deviations. The deviations are those of chance, for the number of new
/// writes and of the writes that the boundaries are from. At eight deviations, equal loads would be
/// mistaken once in 10^15 times; the rest is for samples that are not quite random.
const MOVED: f64 = 1.0;
const MOVED_DEVIATIONS: f64 = 8.0;
/// Newest writes that are examined, for each slot.
const NEWEST_MIN: u64 = 256;
/// Writes after which what was counted weighs half.
pub(crate) const WINDOW: u64 = 1 << 21;

/// The reorganisation to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    Nothing,
    /// Another layout of the same Tranges.
    Minor(Layout),
    /// A layout is to be made of a sample.
    Major,
}

/// See the file's head. `slots` is how many there should be.
pub(crate) fn plan(now: &Layout, slots: usize) -> Plan {
    let writes = now.writes();
    if now.slots() < slots.div_ceil(2) || now.slots() > 2 * slots {
        return Plan::Major;
    }
    let count = now.slots().max(1);
    if writes < WRITES_MIN * count as u64 {
        return Plan::Nothing;
    }
    let fair = writes as f64 / count as f64;
    let noise = (1.0 / fair).sqrt();
    let limit = UNFAIR + 3.0 * noise;
    let excess = |part: &Part| part.load() / fair - 1.0;
    let is_unfair = |part: &&Part| !part.is_point && excess(part).abs() > limit;
    let unfair = now.parts.iter().filter(is_unfair).count();
    // A hot key that is not hot any more, or another number of times.
    let wrong = |part: &Part| part.is_point && (excess(part) > 0.5 || excess(part) < -0.5);
    let is_far_off = unfair as f64 > UNFAIR_MAX * now.parts.len() as f64;
    let is_better_known = writes >= BETTER * now.basis.min(WINDOW / (2 * BETTER));
    if is_better_known && (is_far_off || now.parts.iter().any(wrong)) {
        return Plan::Major;
    }
    let hottest = now.parts.iter().enumerate().filter(|(_, part)| !part.is_point);
    let hottest = hottest.max_by(|a, b| a.1.load().total_cmp(&b.1.load()));
    if let Some((index, part)) = hottest
        && excess(part) > limit
    {
        return match give_away(now, index, fair) {
            Some(layout) => Plan::Minor(layout),
            None if is_better_known => Plan::Major,
            None => Plan::Nothing,
        };
    }
    let is_uneven = now.imbalance() > UNEVEN + 2.0 * noise;
    if is_uneven && is_better_known { Plan::Major } else { Plan::Nothing }
}

/// Returns whether the newest writes are enough to be distinguished from the earlier ones.
pub(crate) fn are_enough(newest: &Layout) -> bool {
    newest.writes() >= NEWEST_MIN * newest.slots() as u64
}

/// Returns whether the newest writes go to other keys than the writes from which the boundaries
/// were made.
pub(crate) fn have_moved(newest: &Layout) -> bool {
    let count = newest.slots().max(1) as f64;
    let fair = newest.writes() as f64 / count;
    let noise = (1.0 / fair + count / newest.basis.max(1) as f64).sqrt();
    let limit = MOVED.max(MOVED_DEVIATIONS * noise);
    newest.parts.iter().any(|part| part.load() / fair - 1.0 > limit)
}

/// Returns the layout in which a Drange has given Tranges to its neighbours, as long as it stays
/// above its share and they stay below it.
fn give_away(now: &Layout, index: usize, fair: f64) -> Option<Layout> {
    let mut parts = now.parts.clone();
    let mut has_given = false;
    loop {
        let load_of = |at: Option<usize>| {
            let part = at.and_then(|at| parts.get(at)).filter(|part| !part.is_point);
            part.map(Part::load).unwrap_or(f64::MAX)
        };
        let part = parts.get(index)?;
        let (before, behind) = (index.checked_sub(1), index + 1);
        let forward = load_of(Some(behind)) <= load_of(before);
        let edge = if forward { part.tranges.last() } else { part.tranges.first() };
        let (target, (_, writes)) = (if forward { Some(behind) } else { before }, edge?);
        let writes = *writes as f64;
        let is_good = part.tranges.len() > 1
            && part.load() - writes >= fair * (1.0 - UNFAIR / 2.0)
            && load_of(target) + writes < part.load();
        if !is_good {
            break;
        }
        let part = parts.get_mut(index)?;
        let moved = if forward { part.tranges.pop()? } else { part.tranges.remove(0) };
        let target = parts.get_mut(target?)?;
        let at = if forward { 0 } else { target.tranges.len() };
        target.tranges.insert(at, moved);
        has_given = true;
    }
    has_given.then_some(Layout { parts, basis: now.basis })
}

/// Returns the keys of a sample, weighed so that the weight of each Trange is the number of its
/// writes. The sample is in order; equal keys become one.
pub(crate) fn weigh(now: &Layout, sample: Vec<Vec<u8>>) -> Vec<Weighed> {
    let mut tranges = now.parts.iter().flat_map(|part| &part.tranges).peekable();
    let mut weighed: Vec<Weighed> = Vec::new();
    let mut sample = sample.into_iter().peekable();
    let (all, any) = (sample.len().max(1) as f64, now.writes() > 0);
    while let Some((_, writes)) = tranges.next() {
        let end = tranges.peek().map(|(start, _)| start);
        let first = weighed.len();
        while let Some(key) = sample.next_if(|key| end.is_none_or(|end| key < end)) {
            match weighed.last_mut().filter(|(last, _)| *last == key) {
                Some((_, weight)) => *weight += 1.0,
                None => weighed.push((key, 1.0)),
            }
        }
        let keys = weighed.get_mut(first..).unwrap_or_default();
        let sampled: f64 = keys.iter().map(|(_, weight)| weight).sum();
        let writes = if any { *writes as f64 } else { all };
        keys.iter_mut().for_each(|(_, weight)| *weight *= writes / sampled.max(1.0));
    }
    weighed
}
