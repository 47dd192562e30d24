//! What a commit does to one interval: a pure decision about its pairs and the updates to it.
//!
//! 1. Where the interval is not cached, is small, and was not appended to often: its updates are
//!    appended as they are, tombstones included, and nothing is read (*blind*). Those before its first
//!    pair go to its front, so that X2 holds.
//! 2. Else its pairs and the updates are merged. If few pairs change, and the interval has few
//!    extents, only these are replaced (*in place*).
//! 3. Else it is written anew, as one extent; as several, each with a tag, where it has become too
//!    large (*rewritten*).
//!
//! An interval that is damaged is appended to, up to a limit: its damage holds nothing up before that.
//! What cannot be read for another reason may be readable later: the commit is put off until then.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{Error, Result};
use flexspace::Found;

use crate::block::Block;
use crate::index::{Head, Interval, Lie, START};
use crate::memory_split::IntervalLimits;
use crate::memtable::Update;
use crate::pair::{Pair, StoreHeader};
use crate::state::Base;
use crate::store::Shared;

/// Parts of a full interval that each is filled to where one is cut into several.
const FILL: (usize, usize) = (3, 4);

/// A change of one interval.
#[derive(Debug)]
pub(crate) struct Edit {
    /// Where it begins in the base's index, and its length there; a new one has none.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// What is written.
    pub(crate) data: Vec<u8>,
    /// What is done to the space, one after the other.
    pub(crate) steps: Vec<Step>,
    /// What is in its place afterwards.
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

/// What becomes of the pairs and the updates of an interval, by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// This pair stays.
    Keep(usize),
    /// This pair goes.
    Drop(usize),
    /// This update is a pair from now on.
    Add(usize),
}

/// Plans the changes of a base's intervals.
pub(crate) struct Planner<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) base: &'a Base,
    pub(crate) limits: IntervalLimits,
}

/// The interval that is planned for, with its pairs.
struct Merging<'a, 'b> {
    place: Option<(&'a Found<'a, Interval>, &'a Arc<Head>)>,
    block: Option<&'a Block>,
    updates: &'a [Update<'b>],
    fates: Vec<Fate>,
}

impl Planner<'_> {
    /// The change that the updates mean, all of them of this interval; none if there is nothing to
    /// do. Without an interval, of a store that has none.
    pub(crate) fn plan(
        &self,
        found: Option<&Found<'_, Interval>>,
        updates: &[Update<'_>],
    ) -> Result<Option<Edit>> {
        let Some((found, head)) = found.and_then(|found| Some((found, found.entry.head()?))) else {
            return Ok(self.merge(None, None, updates));
        };
        if let Some(block) = &*head.cached() {
            return Ok(self.merge(Some((found, head)), Some(block), updates));
        }
        if self.may_append(found.length, head, updates) {
            return Ok(self.append(found, head, updates));
        }
        match self.shared.load_uncached(self.base, found.offset, found.length) {
            Ok(block) => Ok(self.merge(Some((found, head)), Some(&block), updates)),
            Err(error @ Error::Corruption(_)) => {
                self.count(&self.shared.counts.damaged);
                // The tree's lengths have 32 bits.
                let bytes_max = self.shared.options.damaged_bytes_max;
                if u64::from(found.length) + bytes_of(updates) > u64::from(bytes_max) {
                    return Err(error);
                }
                Ok(self.append(found, head, updates))
            }
            // It may pass.
            Err(error) => Err(error),
        }
    }

    fn count(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    fn may_append(&self, length: u32, head: &Head, updates: &[Update<'_>]) -> bool {
        let options = &self.shared.options;
        let pairs = usize::from(head.lie.tail) + updates.len();
        let bytes = u64::from(length) + bytes_of(updates);
        pairs <= usize::from(options.tail_pairs_max)
            && head.lie.fragments < options.fragments_max
            && bytes <= u64::from(self.limits.bytes)
    }

    /// The first way.
    fn append(
        &self,
        found: &Found<'_, Interval>,
        head: &Arc<Head>,
        updates: &[Update<'_>],
    ) -> Option<Edit> {
        let mut data = Vec::new();
        let front = updates.partition_point(|update| update.key() < head.first_key());
        let (before, behind) = updates.split_at(front);
        // Before the first pair there is nothing that a tombstone could hide.
        let mut before = before.iter().map(pair).filter(|pair| pair.value.is_some()).peekable();
        let first = before.peek().map_or(head.first_key(), |pair| pair.key);
        let (mut fragments, tail) =
            (head.lie.fragments, head.lie.tail.saturating_add(behind.len() as u16));
        let mut steps = self.inner_tags(found, head);
        let no_steps = steps.len();
        before.for_each(|pair| pair.encode(&mut data));
        let front = data.len();
        if front > 0 {
            steps.push(Step::Splice { at: 0, removed: 0, data: 0..front, tag: START });
            steps.push(Step::Tag { at: front as u64, tag: 0 });
            fragments = fragments.saturating_add(1);
        }
        behind.iter().for_each(|update| pair(update).encode(&mut data));
        if data.len() > front {
            let at = front as u64 + u64::from(found.length);
            steps.push(Step::Splice { at, removed: 0, data: front..data.len(), tag: 0 });
            fragments = fragments.saturating_add(1);
        }
        if steps.len() == no_steps {
            return None;
        }
        self.count(&self.shared.counts.blind);
        let lie = Lie { fragments, tail, has_inner_tags: false };
        let next = Head::new(bound(found, head, first), first, lie, &self.shared.heads);
        let length = found.length.saturating_add(data.len() as u32);
        let pieces = vec![(length, Interval::new(next))];
        Some(Edit { offset: found.offset, length: found.length, data, steps, pieces })
    }

    /// The steps that take tags within an interval away, since what is appended to it has any key
    /// of it (X2).
    fn inner_tags(&self, found: &Found<'_, Interval>, head: &Head) -> Vec<Step> {
        if !head.lie.has_inner_tags {
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
        updates: &'a [Update<'_>],
    ) -> Option<Edit> {
        let fates = fates(block, updates);
        let is_empty = fates.is_empty() && place.is_some();
        if !is_empty && fates.iter().all(|fate| matches!(fate, Fate::Keep(_))) {
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
        let planned = self.in_place(&merging, &cuts, image.len());
        let lie = planned.as_ref().map_or(Lie { fragments: 1, ..Lie::default() }, |(.., lie)| *lie);
        let pieces = self.pieces(place, &image, &cuts, lie);
        let counts = &self.shared.counts;
        self.count(if planned.is_some() { &counts.in_place } else { &counts.rewritten });
        let (data, steps) = match planned {
            Some((data, steps, _)) => (data, steps),
            None => (image, rewrite(length, &cuts)),
        };
        Some(Edit { offset, length, data, steps, pieces })
    }

    /// The intervals of an image, cached if the one before was, or if there is room.
    fn pieces(
        &self,
        place: Option<(&Found<'_, Interval>, &Arc<Head>)>,
        image: &[u8],
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
                None => first.into(),
            };
            let head = Head::new(bound, first, lie, &self.shared.heads);
            if is_wanted && let Ok(block) = Block::decode(bytes.to_vec(), &cache.tally) {
                cache.insert(&head, &Arc::new(block), share);
            }
            pieces.push((cut.len() as u32, Interval::new(head)));
        }
        pieces
    }

    /// The steps that replace single pairs, what they write, and how the interval lies then; none if it is better written anew.
    fn in_place(
        &self,
        merging: &Merging<'_, '_>,
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
        Some((data, steps, Lie { fragments: fragments as u16, tail: 0, has_inner_tags }))
    }
}

impl Merging<'_, '_> {
    /// All pairs as they are afterwards, and where each ends.
    fn image(&self) -> (Vec<u8>, Vec<usize>) {
        let (mut image, mut ends) = (Vec::new(), Vec::new());
        for fate in &self.fates {
            match fate {
                Fate::Keep(index) => image.extend_from_slice(self.kept(*index)),
                Fate::Add(index) => self.add(*index, &mut image),
                Fate::Drop(_) => continue,
            }
            ends.push(image.len());
        }
        (image, ends)
    }

    fn kept(&self, index: usize) -> &[u8] {
        self.block.and_then(|block| block.pair(index)).unwrap_or_default()
    }

    fn add(&self, index: usize, into: &mut Vec<u8>) {
        if let Some(update) = self.updates.get(index) {
            pair(update).encode(into);
        }
    }

    /// A step for each run of pairs that change, and what they write. The block's pairs are all that
    /// the interval has, in their order.
    fn steps(&self, block: &Block) -> (Vec<u8>, Vec<Step>) {
        let (mut data, mut steps) = (Vec::new(), Vec::new());
        let mut at = 0_u64;
        let mut run: Option<(u32, usize)> = None;
        let mut end_run = |run: &mut Option<(u32, usize)>, at: &mut u64, data: &[u8]| {
            let Some((removed, begin)) = run.take() else { return };
            let tag = if *at == 0 { START } else { 0 };
            let written = data.len() - begin;
            steps.push(Step::Splice { at: *at, removed, data: begin..data.len(), tag });
            if *at == 0 && written == 0 {
                // The tag went with the first pair.
                steps.push(Step::Tag { at: 0, tag: START });
            } else if *at == 0 && removed == 0 {
                // It is the new pair's now.
                steps.push(Step::Tag { at: written as u64, tag: 0 });
            }
            *at += written as u64;
        };
        for fate in &self.fates {
            match fate {
                Fate::Keep(index) => {
                    end_run(&mut run, &mut at, &data);
                    at += block.pair(*index).map_or(0, <[u8]>::len) as u64;
                }
                Fate::Drop(index) => {
                    let len = block.pair(*index).map_or(0, <[u8]>::len) as u32;
                    run.get_or_insert((0, data.len())).0 += len;
                }
                Fate::Add(index) => {
                    run.get_or_insert((0, data.len()));
                    self.add(*index, &mut data);
                }
            }
        }
        end_run(&mut run, &mut at, &data);
        (data, steps)
    }
}

/// The bound of what comes in an interval's place. The first of all has keys below its own: the others
/// that it is cut into could not ascend from that.
fn bound(found: &Found<'_, Interval>, head: &Head, first: &[u8]) -> Arc<[u8]> {
    let is_lower = found.offset == 0 && *first < **head.bound();
    if is_lower { first.into() } else { Arc::clone(head.bound()) }
}

/// An update as a pair.
fn pair<'a>(update: &'a Update<'_>) -> Pair<'a> {
    Pair { key: update.key(), value: update.value() }
}

/// Bytes that updates take as pairs.
fn bytes_of(updates: &[Update<'_>]) -> u64 {
    updates.iter().map(|update| pair(update).encoded_len() as u64).sum()
}

/// The key of the first pair of an image.
fn first_key(image: &[u8]) -> &[u8] {
    // It was encoded just now.
    Pair::take(&mut codec::Reader::new(image)).map_or(&[], |(_, pair)| pair.key)
}

/// What becomes of pairs and updates, both by ascending key.
fn fates(block: Option<&Block>, updates: &[Update<'_>]) -> Vec<Fate> {
    let pairs = block.map_or(0, Block::len);
    let mut fates = Vec::with_capacity(pairs + updates.len());
    let mut old = 0;
    for (new, update) in updates.iter().enumerate() {
        let mut is_same = false;
        while let Some(key) =
            block.and_then(|block| block.key(old)).filter(|it| *it <= update.key())
        {
            if key == update.key() {
                is_same = block.and_then(|block| block.value(old)) == update.value();
                fates.push(if is_same { Fate::Keep(old) } else { Fate::Drop(old) });
            } else {
                fates.push(Fate::Keep(old));
            }
            old += 1;
        }
        if update.value().is_some() && !is_same {
            fates.push(Fate::Add(new));
        }
    }
    fates.extend((old..pairs).map(Fate::Keep));
    fates
}

/// Where an image is cut into intervals: nowhere, if it is small enough for one.
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

/// The steps that write an interval anew: one that wants room, then a tag for each interval that it is
/// cut into.
fn rewrite(length: u32, cuts: &[Range<usize>]) -> Vec<Step> {
    let end = cuts.last().map_or(0, |cut| cut.end);
    let written = Step::Splice { at: 0, removed: length, data: 0..end, tag: START };
    let tag = |cut: &Range<usize>| Step::Tag { at: cut.start as u64, tag: START };
    std::iter::once(written).chain(cuts.iter().skip(1).map(tag)).collect()
}

#[cfg(test)]
mod tests;
