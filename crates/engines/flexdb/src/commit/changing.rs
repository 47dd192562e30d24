//! Making the planned changes: the space and the index are changed together.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::{Corruption, SeqNo};
use engine::{Error, Result};
use flexspace::space::Together;

use super::merging::bytes_of;
use super::plan::{Edit, Known, Planner, Step};
use super::plan_parallel::{Inputs, Planning, Rest, bound_behind};
use super::{Committer, Place, is_refused, take_updates};
use crate::block::Block;
use crate::error::DATA;
use crate::fragmented_queue::Bounds;
use crate::index::{self, Head, Interval, Key, Lie};
use crate::memtable::{Batch, BatchWalker};
use crate::pair::StoreHeader;
use crate::state::Base;
use crate::store::Shared;

/// Chunks that are planned by one base, before the next base replaces it.
const SECTION_CHUNKS: usize = if cfg!(test) { 3 } else { 64 };
/// Part of the budget (one in this many) that copies of nodes may take before the base is replaced.
const COPIED_PARTS: u64 = 256;
/// Part of the pairs of a full interval (one in this many) up to which an interval is joined with
/// another. If pairs are not counted, part of its bytes up to which the two are, as at an opening.
const SMALL_PARTS: usize = 4;

/// The space and the index while a commit changes them.
pub(super) struct Changing<'a, 'b> {
    shared: &'a Arc<Shared>,
    space: &'a mut Together<'b>,
    pub(super) committer: &'a mut Committer,
    /// By how much offsets behind the last change are larger than in the base that is planned by.
    delta: u64,
    /// Bytes that were put into the space, and those of the updates that they were put for.
    written: u64,
    put: u64,
}

/// The progress of one base's section.
struct Section {
    updates: usize,
    /// Whether that is all of it, or the collector has to make room first.
    is_whole: bool,
    /// The key at which the next one begins; none behind the last.
    next: Option<Key>,
}

/// Returns the key behind a number of updates of memtables, counted from a key on.
fn key_behind(
    batch: &Batch,
    (above, upto): (SeqNo, SeqNo),
    from: &Key,
    updates: usize,
) -> Option<Key> {
    let mut walker = batch.walker(above, upto);
    walker.seek(Bound::Included(&**from));
    (0..updates).for_each(|_| _ = walker.pass());
    walker.here().map(|next| Key::from(next.key))
}

impl<'a, 'b> Changing<'a, 'b> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        space: &'a mut Together<'b>,
        committer: &'a mut Committer,
    ) -> Self {
        Self { shared, space, committer, delta: 0, written: 0, put: 0 }
    }

    pub(super) fn space(&mut self) -> &mut Together<'b> {
        self.space
    }

    /// Returns a base of the present state.
    pub(super) fn base(&self) -> Result<Base> {
        self.shared.base_of(&self.committer.index)
    }

    /// Puts the writes above one number, up to another, into the space, from the key at which an
    /// earlier try stopped. Returns `false` if the collector has to make room first.
    pub(super) fn put_between(&mut self, batch: &Batch, above: SeqNo, upto: SeqNo) -> Result<bool> {
        let (ids, range) = (batch.ids(), (above, upto));
        let mut pairs = 0;
        let mut next = self.committer.place_of(ids, range);
        let mut is_done = true;
        while let Some(begin) = next.take() {
            let section = self.put_section(batch, range, &begin)?;
            pairs += section.updates;
            is_done = section.is_whole;
            if !is_done {
                next = key_behind(batch, range, &begin, section.updates);
                break;
            }
            next = section.next;
            if next.is_some() {
                // Readers release the copied nodes.
                self.shared.renew_base(self.committer)?;
            }
        }
        self.committer.stopped = Some(Place { ids, range, key: next });
        self.shared.figures.counts.committed_pairs.fetch_add(pairs as u64, Relaxed);
        let (put, written) = (std::mem::take(&mut self.put), std::mem::take(&mut self.written));
        let bounds = Bounds::of(self.shared.host.memory.limit());
        self.shared.background.note_commit(pairs as u64, put, written, bounds);
        Ok(is_done)
    }

    /// Puts the updates that are planned by one base, from a key on.
    fn put_section(
        &mut self,
        batch: &Batch,
        range: (SeqNo, SeqNo),
        begin: &Key,
    ) -> Result<Section> {
        self.delta = 0;
        let mut updates = 0;
        let shared = self.shared;
        let memory = &shared.index_memory;
        memory.count_nodes(&self.committer.index, &shared.space);
        let nodes_max = memory.node_bytes() + shared.host.memory.limit() / COPIED_PARTS;
        let mut planning = self.plan(batch, range, begin.clone())?;
        while let Some(chunk) = planning.next() {
            // Each change copies the nodes that the base holds, and the cache shrinks.
            memory.count_nodes(&self.committer.index, &shared.space);
            shared.cache.shrink_blocks(shared.cache_share());
            if memory.node_bytes() > nodes_max {
                planning.end_section();
            }
            let chunk = chunk?;
            let before = updates;
            for planned in chunk.planned {
                if let Some(edit) = planned.edit
                    && !self.change_planned(&edit)?
                {
                    return Ok(Section { updates, is_whole: false, next: None });
                }
                updates += planned.updates;
                self.put += planned.bytes;
            }
            shared.writes.steps.advance(&shared.background.group, (updates - before) as u64);
            let Some(rest) = chunk.rest else { continue };
            let mut walker = batch.walker(range.0, range.1);
            let (count, is_whole) = self.put_rest(&mut walker, &rest)?;
            updates += count;
            // It may have changed the interval behind, too.
            return Ok(Section { updates, is_whole, next: rest.bound });
        }
        Ok(Section { updates, is_whole: true, next: planning.rest() })
    }

    /// Begins to plan the writes between two numbers, from a key on, by the present state.
    fn plan(
        &self,
        batch: &Batch,
        (above, upto): (SeqNo, SeqNo),
        from: Key,
    ) -> Result<Planning<'a>> {
        let shared = self.shared;
        let inputs = Inputs {
            base: Arc::new(self.base()?),
            batch: batch.clone(),
            above,
            upto,
            from,
            limits: shared.interval_limits(),
            chunks_max: SECTION_CHUNKS,
            chunk: shared.memory_split().chunk(&shared.options),
            is_short_of_room: self.committer.is_short_of_room,
            run: Arc::default(),
        };
        Ok(Planning::begin(shared, inputs))
    }

    /// Puts the rest of an interval's updates to its present state. Returns none if the collector
    /// has to make room first, otherwise how many there were. If nothing is left of the interval,
    /// they are put to the interval behind it, but without that interval's own updates, which are
    /// planned afterwards (P1).
    fn put_rest(&mut self, walker: &mut BatchWalker<'_>, rest: &Rest) -> Result<(usize, bool)> {
        let mut count = 0;
        walker.seek(Bound::Included(&rest.from));
        loop {
            let end = rest.bound.as_deref();
            let is_left = |key: &[u8]| end.is_none_or(|end| key < end);
            let Some(first) = walker.here().filter(|next| is_left(next.key)) else {
                return Ok((count, true));
            };
            let base = Arc::new(self.base()?);
            let found = base.interval_of(first.key);
            let bound = found.as_ref().and_then(|found| bound_behind(&base, found));
            let bound = bound.map(|bound| &**bound).into_iter().chain(end).min();
            let (updates, _) = take_updates(walker, bound, &self.shared.options);
            let limits = self.shared.interval_limits();
            let planner = Planner { shared: self.shared, base: &base, limits };
            let known = found.as_ref().map_or(Known::Nothing, |it| planner.look(it, &updates));
            let known = known.read(self.shared)?;
            if let Some(edit) = planner.plan(found.as_ref(), &updates, known)?
                && !self.change(&edit, edit.offset)?
            {
                return Ok((count, false));
            }
            count += updates.len();
            self.put += bytes_of(&updates);
            self.shared.writes.steps.advance(&self.shared.background.group, updates.len() as u64);
        }
    }

    /// Refuses a change of an interval that is not at its planned place (C5).
    fn check_place(&self, edit: &Edit, offset: u64) -> Result<()> {
        let index = self.committer.index.now();
        let is_there = match edit.length {
            0 => index.is_empty(),
            length => {
                index.get(offset).is_some_and(|it| (it.offset, it.length) == (offset, length))
            }
        };
        if is_there {
            return Ok(());
        }
        let what =
            format!("no interval of {} bytes, though a change of one was planned,", edit.length);
        let error =
            Error::Corruption(Corruption::new(what, offset).at(DATA, StoreHeader::BYTES as u64));
        self.shared.health.fail(&error);
        Err(error)
    }

    /// Makes a change that was planned by the base, to which changes were made since in the order
    /// of the keys. Returns `false` if there is no room for all of it.
    pub(super) fn change_planned(&mut self, edit: &Edit) -> Result<bool> {
        self.change(edit, edit.offset.wrapping_add(self.delta))
    }

    /// Makes a planned change at an offset of the index; `false` if there is no room for all of it.
    pub(super) fn change(&mut self, edit: &Edit, offset: u64) -> Result<bool> {
        self.check_place(edit, offset)?;
        self.committer.is_amid = true;
        let done = self.change_here(edit, offset);
        self.committer.is_amid = false;
        done
    }

    /// The same, of an interval that is there.
    fn change_here(&mut self, edit: &Edit, offset: u64) -> Result<bool> {
        let begin = offset + StoreHeader::BYTES as u64;
        let mut length = u64::from(edit.length);
        for (done, step) in edit.steps.iter().enumerate() {
            let made = match step {
                Step::Splice { at, removed, data, tag } => {
                    let data = edit.data.get(data.clone()).unwrap_or_default();
                    let made = self.space.splice(begin + at, u64::from(*removed), data, *tag);
                    made.map(|()| length = length + data.len() as u64 - u64::from(*removed))
                }
                Step::Tag { at, tag } => self.space.set_tag(begin + at, *tag),
            };
            match made {
                Ok(()) => {}
                Err(error) if is_refused(&error) => {
                    let steps = edit.steps.get(..done).unwrap_or_default();
                    if steps.iter().any(|step| matches!(step, Step::Splice { .. })) {
                        self.shared.figures.counts.broken_off.fetch_add(1, Relaxed);
                        self.leave(edit, offset, length);
                    }
                    // Otherwise only tags were removed, and the interval has the pairs that it had.
                    return Ok(false);
                }
                made => return self.shared.noted(made).map(|()| false),
            }
        }
        let tree = &mut self.committer.index;
        if edit.length > 0 {
            index::replace(tree, offset, edit.length, &edit.pieces);
        } else {
            for (length, interval) in &edit.pieces {
                index::append(tree, *length, interval.clone());
            }
        }
        self.delta = self.delta.wrapping_add(length.wrapping_sub(u64::from(edit.length)));
        self.written += edit.data.len() as u64;
        if let [(length, interval)] = &edit.pieces[..] {
            self.join_with_the_one_before(offset, *length, interval);
        }
        Ok(true)
    }

    /// Joins a small interval that was left with the one before it, if they are small together: in
    /// the index alone, as when a store is opened. If the pairs of both were not counted, it joins
    /// them if the next opening would. Nothing is planned for either any more.
    fn join_with_the_one_before(&mut self, offset: u64, length: u32, interval: &Interval) {
        let limits = self.shared.interval_limits();
        let is_small = |lie: Lie| match lie.pairs {
            Lie::UNKNOWN => length <= limits.bytes / SMALL_PARTS as u32,
            pairs => usize::from(pairs) <= limits.pairs / SMALL_PARTS,
        };
        let Some(right) = interval.head().filter(|head| is_small(head.lie)) else { return };
        let index = self.committer.index.now();
        let before = offset.checked_sub(1).and_then(|at| index.get(at));
        let (Some(before), Some(here)) = (before, index.get(offset)) else { return };
        let Some(left) = before.entry.head() else { return };
        let lie = Lie {
            fragments: left.lie.fragments.saturating_add(right.lie.fragments),
            tail: left.lie.tail.saturating_add(right.lie.tail),
            pairs: left.lie.pairs.saturating_add(right.lie.pairs),
            has_inner_tags: true,
            is_out_of_order: left.lie.is_out_of_order || right.lie.is_out_of_order,
        };
        let lengths = [before.length, here.length];
        let bytes = u64::from(before.length) + u64::from(here.length);
        let (pairs_max, bytes_max) = match lie.pairs {
            Lie::UNKNOWN => (usize::from(Lie::UNKNOWN), limits.bytes / SMALL_PARTS as u32),
            _ => (limits.pairs / 2, limits.bytes / 2),
        };
        let are_small = usize::from(lie.pairs) <= pairs_max
            && bytes <= u64::from(bytes_max)
            && lie.fragments <= self.shared.options.fragments_max / 2
            && !lie.is_out_of_order;
        if !are_small {
            return;
        }
        let heads = &self.shared.index_memory.heads;
        let joined = Head::new(left.bound(), left.first_key(), lie, heads);
        if let (Some(left), Some(right)) = (left.whole(), right.whole()) {
            let cache = &self.shared.cache;
            let block = Block::joined(&left, &right, &cache.memory);
            cache.insert(&joined, &Arc::new(block), self.shared.cache_share());
        }
        self.shared.figures.counts.joined.fetch_add(1, Relaxed);
        let at = before.offset;
        index::join(&mut self.committer.index, at, lengths, Interval::new(joined));
    }

    /// Leaves a change of which only some of the steps that put updates to their places are done.
    /// They are done from the smallest key on, so the result is an interval that only lacks the
    /// other updates.
    fn leave(&mut self, edit: &Edit, offset: u64, length: u64) {
        let Some(head) = edit.pieces.first().and_then(|(_, interval)| interval.head()) else {
            return;
        };
        let (bound, first) = (head.bound(), head.first_key());
        let left = Head::new(bound, first, head.lie, &self.shared.index_memory.heads);
        // Its length is between those of before and after; of the pieces there is only one yet.
        let pieces = [(length as u32, Interval::new(left))];
        index::replace(&mut self.committer.index, offset, edit.length, &pieces);
    }
}
