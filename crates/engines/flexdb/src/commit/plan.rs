//! A commit's change of one interval: a decision about its pairs and the updates to it.
//!
//! 1. If the interval is small and was not appended to often, its updates are appended unchanged,
//!    tombstones included, and nothing is read (*appended*). With deletes among them, the tail
//!    stays shorter than half of the interval's pairs. Updates before its first pair go to
//!    its front, so that X2 holds. If the interval is cached, updates that change nothing are left
//!    out.
//! 2. Otherwise the interval is read if it is not cached, and its pairs and the updates are merged.
//!    If few pairs change, and the interval has few extents, only these pairs are replaced (*in
//!    place*).
//! 3. Otherwise it is rewritten as one extent, or as several, each with a tag, if it has become too
//!    large (*rewritten*). Neighbours are rewritten together (`commit/rewrite_run.rs`) before any
//!    of them has to be.
//!
//! Updates are appended to a damaged interval, up to a limit: until then its damage delays nothing.
//! An interval that cannot be read for another reason may be readable later: the commit is put off
//! until then.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{Error, Result};
use flexspace::Found;

use super::merging::{Fate, Merging, bytes_of, fates, pair};
use crate::block::Block;
use crate::index::{Head, Interval, Lie, START};
use crate::memory_split::IntervalLimits;
use crate::memtable::Update;
use crate::pair::{Pair, StoreHeader};
use crate::read::UncachedInterval;
use crate::state::Base;
use crate::store::Shared;

/// Part of a full interval to which each interval is filled if one is cut into several.
pub(super) const FILL: (usize, usize) = (3, 4);

/// Updates behind an interval's pairs, at most: a little fewer than the number whose places can be
/// known ([`Tail`](crate::index::Tail)).
pub(crate) const TAIL_MAX: u16 = 56;

/// A change of one interval.
#[derive(Debug)]
pub(crate) struct Edit {
    /// Its offset in the base's index, and its length there; a new one has none.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// The bytes that are written.
    pub(crate) data: Vec<u8>,
    /// The changes of the space, in order.
    pub(crate) steps: Vec<Step>,
    /// The intervals that are in its place afterwards.
    pub(crate) pieces: Vec<(u32, Interval)>,
}

/// A change of the space; `at` counts from the interval's beginning, after the steps before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Some data in the place of removed bytes.
    Splice { at: u64, removed: u32, data: Range<usize>, tag: u16 },
    /// Another tag.
    Tag { at: u64, tag: u16 },
}

/// Plans the changes of a base's intervals.
pub(crate) struct Planner<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) base: &'a Arc<Base>,
    pub(crate) limits: IntervalLimits,
}

/// The knowledge of an interval's pairs before a change of it is planned.
pub(crate) enum Known {
    /// All of them.
    Pairs(Arc<Block>),
    /// Nothing, and nothing has to be known.
    Nothing,
    /// It has to be read.
    Cold(UncachedInterval),
    /// It cannot be read.
    Damaged(Error),
}

impl Known {
    /// The same, after the interval was read if it has to be read.
    pub(crate) fn read(self, shared: &Shared) -> Result<Self> {
        let Self::Cold(cold) = &self else { return Ok(self) };
        let mut known = Self::Nothing;
        shared.read_intervals(std::slice::from_ref(cold), &mut |_, block| {
            known = block.map_or_else(Self::Damaged, Self::Pairs);
        });
        Ok(known)
    }
}

impl Planner<'_> {
    /// Returns the knowledge of the interval to which these updates belong.
    pub(crate) fn look(&self, found: &Found<'_, Interval>, updates: &[Update]) -> Known {
        let Some(head) = found.entry.head() else { return Known::Nothing };
        if let Some(block) = head.whole() {
            return Known::Pairs(block);
        }
        match self.may_append(found.length, head, updates) {
            true => Known::Nothing,
            false => Known::Cold(UncachedInterval::new(self.base, found, head)),
        }
    }

    /// Returns the change that the updates mean, all of them of this interval; none if there is
    /// nothing to do. Without an interval, the store has none.
    pub(crate) fn plan(
        &self,
        found: Option<&Found<'_, Interval>>,
        updates: &[Update],
        known: Known,
    ) -> Result<Option<Edit>> {
        let Some((found, head)) = found.and_then(|found| Some((found, found.entry.head()?))) else {
            return Ok(self.merge(None, None, updates, false));
        };
        match known {
            Known::Pairs(block) if self.may_append(found.length, head, updates) => {
                Ok(self.append_to_known(found, head, &block, updates))
            }
            Known::Pairs(block) => {
                Ok(self.merge(Some((found, head)), Some(&block), updates, false))
            }
            Known::Nothing => Ok(self.append(found, head, updates.iter(), None)),
            Known::Damaged(error @ Error::Corruption(_)) => {
                self.count(&self.shared.figures.counts.damaged);
                // The tree's lengths have 32 bits.
                let bytes_max = self.shared.options.damaged_bytes_max;
                if u64::from(found.length) + bytes_of(updates) > u64::from(bytes_max) {
                    return Err(error);
                }
                Ok(self.append(found, head, updates.iter(), None))
            }
            // It may pass.
            Known::Damaged(error) => Err(error),
            Known::Cold(_) => unreachable!("what has to be read was read"),
        }
    }

    /// Returns the change that rewrites an interval, with or without updates to it. An interval
    /// that cannot be read stays unchanged if possible.
    pub(crate) fn plan_rewrite(
        &self,
        found: Option<&Found<'_, Interval>>,
        updates: &[Update],
        known: Known,
    ) -> Result<Option<Edit>> {
        let place = found.and_then(|found| Some((found, found.entry.head()?)));
        match (known, place) {
            (Known::Pairs(block), Some(place)) => {
                Ok(self.merge(Some(place), Some(&block), updates, true))
            }
            (Known::Damaged(_), _) if updates.is_empty() => Ok(None),
            (known, _) => self.plan(found, updates, known),
        }
    }

    /// The first way, for an interval whose pairs are known: updates that change nothing are left
    /// out, and a cached interval stays cached.
    fn append_to_known(
        &self,
        found: &Found<'_, Interval>,
        head: &Arc<Head>,
        block: &Block,
        updates: &[Update],
    ) -> Option<Edit> {
        let fates = fates(Some(block), updates);
        let merging = Merging { place: None, block: Some(block), updates, fates };
        let (image, ends) = merging.image();
        if ends.is_empty() {
            // Nothing is left of it.
            return self.merge(Some((found, head)), Some(block), updates, false);
        }
        let changes = updates.iter().filter(|update| {
            let old = block.find(update.key());
            old != update.value()
        });
        let edit = self.append(found, head, changes, Some(ends.len()))?;
        if let Some(next) = edit.pieces.first().and_then(|(_, interval)| interval.head()) {
            let (cache, share) = (&self.shared.cache, self.shared.cache_share());
            let block = Block::of_image(&image, &ends, false, &cache.memory);
            cache.insert(next, &Arc::new(block), share);
        }
        Some(edit)
    }

    fn count(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    fn may_append(&self, length: u32, head: &Head, updates: &[Update]) -> bool {
        let options = &self.shared.options;
        let pairs = usize::from(head.lie.tail) + updates.len();
        let bytes = u64::from(length) + bytes_of(updates);
        // A larger interval may have proportionally more behind it, as far as the places can be
        // known.
        let (main, usual) = (usize::from(head.lie.main_pairs()), options.interval_pairs.max(1));
        let scaled = |most: u16| usize::from(most) * main.max(usual) / usual;
        // A long tail with tombstones would keep deleted bytes on the device. Of an interval whose
        // pairs were not counted, one may be all of it.
        let deletes = updates.iter().any(|update| update.value().is_none());
        let may_free_half = deletes && 2 * pairs >= main.max(head.lie.pairs_or(0) / 2);
        let fragments_max = options.fragments_max.max(TAIL_MAX);
        !may_free_half
            && pairs <= scaled(options.tail_pairs_max).min(usize::from(TAIL_MAX))
            && usize::from(head.lie.fragments)
                < scaled(options.fragments_max).min(usize::from(fragments_max))
            && bytes <= self.bytes_with_tail_max()
    }

    /// The first way; `live` pairs are there then, if they are known.
    fn append<'a>(
        &self,
        found: &Found<'_, Interval>,
        head: &Arc<Head>,
        updates: impl Iterator<Item = &'a Update>,
        live: Option<usize>,
    ) -> Option<Edit> {
        let mut data = Vec::new();
        let updates: Vec<&Update> = updates.collect();
        let front = updates.partition_point(|update| update.key() < head.first_key());
        let (before, behind) = updates.split_at(front);
        // Before the first pair there is nothing that a tombstone could hide.
        let mut before =
            before.iter().map(|it| pair(it)).filter(|it| it.value.is_some()).peekable();
        let first = before.peek().map_or(head.first_key(), |pair| pair.key);
        let (mut fragments, tail) =
            (head.lie.fragments, head.lie.tail.saturating_add(count_of(behind)));
        let mut steps = self.inner_tags(found, head);
        let no_steps = steps.len();
        before.for_each(|pair| pair.encode(&mut data));
        let front = data.len();
        if front > 0 {
            steps.push(Step::Splice { at: 0, removed: 0, data: 0..front, tag: START });
            steps.push(Step::Tag { at: front as u64, tag: 0 });
            fragments = fragments.saturating_add(1);
        }
        let mut places = Vec::with_capacity(behind.len());
        for update in behind {
            places.push((found.length.saturating_add(data.len() as u32), update.key()));
            pair(update).encode(&mut data);
        }
        if data.len() > front {
            let at = front as u64 + u64::from(found.length);
            steps.push(Step::Splice { at, removed: 0, data: front..data.len(), tag: 0 });
            fragments = fragments.saturating_add(1);
        }
        if steps.len() == no_steps {
            return None;
        }
        self.count(&self.shared.figures.counts.blind);
        self.shared.figures.counts.appended_bytes.fetch_add(data.len() as u64, Relaxed);
        let is_out_of_order = head.lie.is_out_of_order;
        let pairs = match live {
            Some(live) => live.min(usize::from(Lie::UNKNOWN)) as u16,
            None => head.lie.pairs.saturating_add(count_of(&updates)),
        };
        let has_inner_tags = head.lie.has_inner_tags && is_out_of_order;
        let lie = Lie { fragments, tail, pairs, has_inner_tags, is_out_of_order };
        let tail = head.tail_after(front as u32, &places);
        // If the tail becomes known only later, the indexes of these updates in it are not known
        // now.
        let is_known = tail.is_some();
        let bound = bound(found, head, first);
        let next = Head::with_tail(bound, first, (lie, tail), &self.shared.index_memory.heads);
        let cached = head.cached();
        let is_carried = |block: &Arc<Block>| is_known && front == 0 && !block.is_whole();
        if let Some(parts) = cached.as_ref().filter(|block| is_carried(block)) {
            // The interval of which these are parts has the same place as before.
            self.shared.cache.insert(&next, parts, self.shared.cache_share());
        }
        let length = found.length.saturating_add(data.len() as u32);
        let pieces = vec![(length, Interval::new(next))];
        Some(Edit { offset: found.offset, length: found.length, data, steps, pieces })
    }

    /// Returns the steps that remove tags within an interval, since an update appended to it can
    /// have any of its keys (X2). If its pairs are not in order the tags stay, so that the next
    /// opening also detects that.
    fn inner_tags(&self, found: &Found<'_, Interval>, head: &Head) -> Vec<Step> {
        if !head.lie.has_inner_tags || head.lie.is_out_of_order {
            return Vec::new();
        }
        let begin = found.offset + StoreHeader::BYTES as u64;
        let extents = self.base.space.extents(begin..begin + u64::from(found.length)).skip(1);
        let tagged = extents.filter(|extent| extent.extent.tag() == START);
        tagged.map(|extent| Step::Tag { at: extent.offset - begin, tag: 0 }).collect()
    }

    /// The second way and the third.
    fn merge<'a>(
        &self,
        place: Option<(&'a Found<'a, Interval>, &'a Arc<Head>)>,
        block: Option<&'a Block>,
        updates: &'a [Update],
        is_rewrite: bool,
    ) -> Option<Edit> {
        let fates = fates(block, updates);
        let is_empty = fates.is_empty() && place.is_some();
        if !is_rewrite && !is_empty && fates.iter().all(|fate| matches!(fate, Fate::Keep(_))) {
            return None;
        }
        let merging = Merging { place, block, updates, fates };
        let (image, ends) = merging.image();
        let (offset, length) = place.map_or((0, 0), |(found, _)| (found.offset, found.length));
        if ends.is_empty() {
            let removed = Step::Splice { at: 0, removed: length, data: 0..0, tag: 0 };
            // Only tombstones, and nothing to hide.
            let steps = if length > 0 { vec![removed] } else { return None };
            return Some(Edit { offset, length, data: Vec::new(), steps, pieces: Vec::new() });
        }
        let cuts = cuts(&ends, self.limits);
        let planned = if is_rewrite { None } else { self.in_place(&merging, &cuts, image.len()) };
        let lie = planned.as_ref().map_or(Lie { fragments: 1, ..Lie::default() }, |(.., lie)| *lie);
        let pieces = self.pieces(place, &image, &ends, &cuts, lie);
        let counts = &self.shared.figures.counts;
        self.count(if planned.is_some() { &counts.in_place } else { &counts.rewritten });
        let (data, steps) = match planned {
            Some((data, steps, _)) => (data, steps),
            None => {
                counts.rewritten_bytes.fetch_add(image.len() as u64, Relaxed);
                (image, rewrite(length, &cuts))
            }
        };
        Some(Edit { offset, length, data, steps, pieces })
    }

    /// Takes pairs out of an interval, whatever the cost for its readers, and returns how many.
    /// Pairs with updates behind them stay, since they would have to be rewritten.
    pub(crate) fn take_out(
        &self,
        found: &Found<'_, Interval>,
        keys: &[Vec<u8>],
    ) -> Result<Option<(Edit, u64)>> {
        let Some(head) = found.entry.head() else { return Ok(None) };
        let known = match head.whole() {
            Some(block) => Known::Pairs(block),
            None => Known::Cold(UncachedInterval::new(self.base, found, head)).read(self.shared)?,
        };
        let Known::Pairs(block) = known else { return Ok(None) };
        let is_gone = |index: &usize| {
            let key = block.key(*index).unwrap_or_default();
            keys.binary_search_by(|gone| (**gone).cmp(key)).is_ok()
        };
        let fates: Vec<Fate> = (0..block.len())
            .map(|index| if is_gone(&index) { Fate::Drop(index) } else { Fate::Keep(index) })
            .collect();
        let count = fates.iter().filter(|fate| matches!(fate, Fate::Drop(_))).count();
        let is_all = count == block.len();
        if count == 0 || !(is_all || block.is_plain()) {
            return Ok(None);
        }
        let place = Some((found, head));
        let merging = Merging { place, block: Some(&block), updates: &[], fates };
        let (offset, length) = (found.offset, found.length);
        if is_all {
            let steps = vec![Step::Splice { at: 0, removed: length, data: 0..0, tag: 0 }];
            let edit = Edit { offset, length, data: Vec::new(), steps, pieces: Vec::new() };
            return Ok(Some((edit, count as u64)));
        }
        let (image, ends) = merging.image();
        let (data, steps) = merging.steps(&block);
        debug_assert!(data.is_empty(), "nothing is written");
        let cuts = std::iter::once(0..image.len()).collect::<Vec<_>>();
        let more = (2 * steps.len()).min(usize::from(u16::MAX)) as u16;
        let lie = Lie { fragments: head.lie.fragments.saturating_add(more), tail: 0, ..head.lie };
        let pieces = self.pieces(place, &image, &ends, &cuts, lie);
        Ok(Some((Edit { offset, length, data, steps, pieces }, count as u64)))
    }

    /// The intervals of an image, cached if the one before was, or if there is room.
    fn pieces(
        &self,
        place: Option<(&Found<'_, Interval>, &Arc<Head>)>,
        image: &[u8],
        ends: &[usize],
        cuts: &[Range<usize>],
        lie: Lie,
    ) -> Vec<(u32, Interval)> {
        let (cache, share) = (&self.shared.cache, self.shared.cache_share());
        let was_cached = place.is_some_and(|(_, head)| head.is_cached());
        let is_wanted = was_cached || cache.has_room(share);
        let mut pieces = Vec::with_capacity(cuts.len());
        for cut in cuts {
            let bytes = image.get(cut.clone()).unwrap_or_default();
            let first = first_key(bytes);
            let bound = match place.filter(|_| pieces.is_empty()) {
                Some((found, head)) => bound(found, head, first),
                None => first,
            };
            let before = |offset| ends.partition_point(|end| *end <= offset);
            let pairs = (before(cut.end) - before(cut.start)).min(usize::from(Lie::UNKNOWN));
            let lie = Lie { pairs: pairs as u16, ..lie };
            let head = Head::new(bound, first, lie, &self.shared.index_memory.heads);
            if is_wanted && let Ok(block) = Block::decode(bytes, &cache.memory) {
                cache.insert(&head, &Arc::new(block), share);
            }
            pieces.push((cut.len() as u32, Interval::new(head)));
        }
        pieces
    }

    /// Returns the steps that replace single pairs, the bytes that they write, and the resulting
    /// layout of the interval; none if it is better to rewrite it.
    fn in_place(
        &self,
        merging: &Merging<'_>,
        cuts: &[Range<usize>],
        image_len: usize,
    ) -> Option<(Vec<u8>, Vec<Step>, Lie)> {
        let (_, head) = merging.place?;
        let block = merging.block.filter(|block| block.is_plain())?;
        let (data, mut steps) = merging.steps(block);
        let more = 2 * steps.len() + cuts.len() - 1;
        let fragments = usize::from(head.lie.fragments) + more;
        let fragments_max = usize::from(self.shared.options.fragments_max);
        if fragments > fragments_max || 2 * data.len() > image_len {
            return None;
        }
        let begins = cuts.iter().skip(1).map(|cut| cut.start as u64);
        steps.extend(begins.map(|at| Step::Tag { at, tag: START }));
        let has_inner_tags = head.lie.has_inner_tags;
        let fragments = fragments as u16;
        Some((data, steps, Lie { fragments, has_inner_tags, ..Lie::default() }))
    }
}

/// Returns the bound of the first piece that replaces an interval. The first interval of all has
/// keys below its own bound: the other pieces that it is cut into could not ascend from that bound.
fn bound<'a>(found: &Found<'_, Interval>, head: &'a Head, first: &'a [u8]) -> &'a [u8] {
    let is_lower = found.offset == 0 && *first < **head.bound();
    if is_lower { first } else { head.bound() }
}

/// How many there are, as far as that is counted.
fn count_of<T>(updates: &[T]) -> u16 {
    u16::try_from(updates.len()).unwrap_or(u16::MAX)
}

/// The key of the first pair of an image.
fn first_key(image: &[u8]) -> &[u8] {
    // It was encoded just now.
    Pair::take(&mut codec::Reader::new(image)).map_or(&[], |(_, pair)| pair.key)
}

/// Returns the parts of an image that become intervals: one if it is small enough for one.
fn cuts(ends: &[usize], limits: IntervalLimits) -> Vec<Range<usize>> {
    let len = ends.last().copied().unwrap_or(0);
    let bytes_max = limits.bytes as usize;
    if ends.len() <= limits.pairs && (len <= bytes_max || ends.len() == 1) {
        return std::iter::once(0..len).collect();
    }
    let fill = |full: usize| (full * FILL.0 / FILL.1).max(1);
    let count = ends.len().div_ceil(fill(limits.pairs)).max(len.div_ceil(fill(bytes_max)));
    let pairs_each = ends.len().div_ceil(count);
    let bytes_each = len.div_ceil(count);
    let mut cuts = Vec::with_capacity(count);
    let (mut begin, mut pairs, mut last) = (0, 0, 0);
    for &end in ends {
        // Long pairs have intervals of their own, short ones share one evenly.
        let is_full = pairs >= pairs_each || last - begin >= bytes_each || end - begin > bytes_max;
        if pairs > 0 && is_full {
            cuts.push(begin..last);
            (begin, pairs) = (last, 0);
        }
        pairs += 1;
        last = end;
    }
    cuts.push(begin..last);
    cuts
}

/// Returns the steps that rewrite an interval: one that needs room, then a tag for each interval
/// that it is cut into.
fn rewrite(length: u32, cuts: &[Range<usize>]) -> Vec<Step> {
    let end = cuts.last().map_or(0, |cut| cut.end);
    let written = Step::Splice { at: 0, removed: length, data: 0..end, tag: START };
    let tag = |cut: &Range<usize>| Step::Tag { at: cut.start as u64, tag: START };
    std::iter::once(written).chain(cuts.iter().skip(1).map(tag)).collect()
}

#[cfg(all(test, not(shuttle)))]
mod tests;
