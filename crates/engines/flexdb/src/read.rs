//! Reading one key: memtables from the youngest, then the kept pairs, then the key's interval.
//!
//! A pair that is found in the interval is kept.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::{Corruption, Reader, SeqNo};
use engine::Result;
use flexspace::Found as FoundEntry;
use flexspace::space::Reading;
use workers::Class;

use crate::block::Block;
use crate::error::{DATA, from_space};
use crate::index::{Head, Interval, Part, Parts, Tail};
use crate::memtable::Found;
use crate::pair::{Pair, StoreHeader};
use crate::state::{Base, State};
use crate::store::Shared;

/// Part of the budget (one in this many): once it was cached, the allocator has to return freed
/// memory.
const TRIM_PARTS: u64 = 16;

/// The progress of a search without the device.
pub(crate) enum MemoryLookup {
    /// It has ended; a value was copied.
    Ended(Option<Found>),
    /// It needs an interval that is not cached.
    Cold(UncachedInterval),
}

/// An interval that is to be read, or a part of it.
#[derive(Clone)]
pub(crate) struct UncachedInterval {
    base: Arc<Base>,
    head: Arc<Head>,
    offset: u64,
    length: u32,
    part: Part,
    /// The count of commits of the state in which it is read, if the pair that is found may be
    /// kept.
    commits: Option<u64>,
}

impl UncachedInterval {
    pub(crate) fn new(
        base: &Arc<Base>,
        found: &FoundEntry<'_, Interval>,
        head: &Arc<Head>,
    ) -> Self {
        let (base, head) = (Arc::clone(base), Arc::clone(head));
        let (offset, length) = (found.offset, found.length);
        Self { base, head, offset, length, part: Part::Whole, commits: None }
    }

    /// All of the interval.
    pub(crate) fn whole(&self) -> Self {
        Self { part: Part::Whole, ..self.clone() }
    }

    /// Returns the bytes of the space in which they are.
    pub(crate) fn span(&self) -> Range<u64> {
        let inside = self.head.range(self.part, self.length);
        let begin = self.offset + StoreHeader::BYTES as u64;
        begin + u64::from(inside.start)..begin + u64::from(inside.end)
    }

    pub(crate) fn head(&self) -> &Arc<Head> {
        &self.head
    }

    /// Returns the number of its pieces: extents that follow one another without a gap are one.
    pub(crate) fn pieces(&self) -> usize {
        let mut end = None;
        let extents = self.base.space.extents(self.span());
        let begins = extents.filter(|piece| {
            let address = piece.extent.address();
            let is_next = address.is_some() && address == end;
            end = address.map(|address| address + u64::from(piece.length));
            !is_next
        });
        begins.count()
    }

    /// Finds the places of its tail's updates, if they are not known. All pairs behind the extents
    /// that follow one another without a gap from its beginning on are taken for updates.
    fn learn(&self, bytes: &[u8]) {
        if !self.head.wants_tail() || self.part != Part::Whole {
            return;
        }
        let mut end: Option<u64> = None;
        let extents = self.base.space.extents(self.span());
        let first = extents.map_while(|piece| {
            let address = piece.extent.address()?;
            let length = u64::from(piece.length);
            let is_next = end.replace(address + length).is_none_or(|end| end == address);
            is_next.then_some(piece.length as usize)
        });
        let main_bytes: usize = first.sum();
        let mut fields = Reader::new(bytes);
        let (mut updates, mut is_cut) = (Vec::new(), false);
        while !fields.is_empty() {
            let at = fields.position();
            let Ok((_, pair)) = Pair::take(&mut fields) else { return };
            is_cut |= at == main_bytes;
            if at >= main_bytes {
                updates.push((at as u32, pair.key));
            }
        }
        // If it cannot be known, all of it is the main part.
        let tail = is_cut.then(|| Tail::default().appended(0, &updates)).flatten();
        self.head.learn_tail(tail.unwrap_or_default());
    }

    /// Whether its keys are known not to be in order.
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.head.lie.is_out_of_order
    }

    fn begin(&self) -> u64 {
        self.span().start
    }
}

impl Shared {
    /// Returns the value that the block of the read part has for a key, and keeps it as a pair.
    pub(crate) fn found_in(
        &self,
        block: &Block,
        cold: &UncachedInterval,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Option<Found> {
        let value = block.find(key)?;
        self.keep_pair(cold.commits, key, value);
        Some(Found::in_space(value, into))
    }

    /// Keeps a pair that was found in the base of the state with this count of commits.
    fn keep_pair(&self, commits: Option<u64>, key: &[u8], value: &[u8]) {
        if let Some(commits) = commits.filter(|_| self.options.pairs) {
            self.cache.keep_pair(commits, key, value, self.cache_share());
        }
    }

    /// Looks for a key in memtables and in the cache: as a pair, or with its interval.
    pub(crate) fn find_in_memory(
        &self,
        state: &State,
        key: &[u8],
        seqno: SeqNo,
        into: &mut Vec<u8>,
    ) -> Result<MemoryLookup> {
        let sources = state.at(seqno);
        for memtable in sources.memtables() {
            if let Some(found) = memtable.get(key, seqno, into) {
                return Ok(MemoryLookup::Ended(Some(found)));
            }
        }
        // A reader of this state gets the pair that its base has (A4 of `cache`).
        let pair = sources.commits.and_then(|upto| self.cache.pairs.get(key, upto, into));
        if pair.is_some() {
            return Ok(MemoryLookup::Ended(Some(Found::IN_SPACE)));
        }
        let interval = sources.base.interval_of(key);
        let place = interval.and_then(|found| Some((found.entry.head()?, found)));
        let Some((head, interval)) = place else { return Ok(MemoryLookup::Ended(None)) };
        let cached = head.cached();
        let cached = cached.as_ref();
        if let Some(answer) = cached.and_then(|block| block.answer(key, || head.part_of(key))) {
            self.cache.hits.fetch_add(1, Relaxed);
            let found = answer.map(|value| {
                self.keep_pair(sources.commits, key, value);
                Found::in_space(value, into)
            });
            return Ok(MemoryLookup::Ended(found));
        }
        let part = head.part_of(key);
        // If the part is cached and does not decide, it is an update whose key is only similar.
        let is_there = cached.is_some_and(|block| block.parts().has(part));
        let cold = UncachedInterval {
            commits: sources.commits,
            ..UncachedInterval::new(sources.base, &interval, head)
        };
        Ok(MemoryLookup::Cold(if is_there { cold } else { UncachedInterval { part, ..cold } }))
    }

    /// Caches the block of an interval that was read.
    pub(crate) fn cache_block(&self, cold: &UncachedInterval, block: &Arc<Block>) {
        self.cache.insert(&cold.head, block, self.cache_share());
        let many = self.host.memory.limit() / TRIM_PARTS;
        if self.cache.note_cached(block.memory_bytes(), many) {
            // The blocks that were evicted for it were of other sizes, and between blocks that
            // stay.
            let task = |_: &workers::StopToken| arena::trim_heaps();
            // A pool that is stopping runs nothing more.
            let _ = self.background.group.submit(Class::Collect, "flexdb trim heaps", task);
        }
    }

    /// Begins to read an interval, or a part of it.
    pub(crate) fn begin_read(&self, cold: &UncachedInterval) -> Result<Reading> {
        if cold.is_out_of_order() {
            let what = "intervals that are damaged, or not in the order of their keys";
            return Err(Corruption::new(what, cold.begin()).at(DATA, 0).into());
        }
        let span = cold.span();
        cold.base.space.begin_read(span.start, span.end - span.start).map_err(from_space)
    }

    /// Caches the part that was read for a key, with other parts of the interval that are cached
    /// (`index`, X4). Returns none if the part is an update of another key: then the whole interval
    /// has to be read.
    pub(crate) fn keep(
        &self,
        cold: &UncachedInterval,
        key: &[u8],
        bytes: Vec<u8>,
    ) -> Result<Option<Arc<Block>>> {
        let cached = cold.head.cached();
        let cached = cached.as_ref().filter(|_| cold.part != Part::Whole);
        if let Some(block) = cached.filter(|block| block.answer(key, || cold.part).is_some()) {
            // Another thread has read it meanwhile.
            return Ok(Some(Arc::clone(block)));
        }
        let (pairs, parts) = cached.map_or((&[][..], None), |it| (it.pairs(), Some(it.parts())));
        let has_main = parts.is_some_and(|parts| parts.has(Part::Main));
        let mut is_kept = true;
        let bytes = match cold.part {
            Part::Whole => {
                cold.learn(&bytes);
                bytes
            }
            Part::Main => {
                let mut bytes = bytes;
                bytes.extend_from_slice(pairs);
                bytes
            }
            Part::Update(_) => {
                let pair = Pair::take(&mut Reader::new(&bytes));
                let (_, pair) = pair.map_err(|damage| damage.at(DATA, cold.begin()))?;
                if pair.key != key {
                    return Ok(None);
                }
                is_kept = pair.value.is_some() || has_main;
                [pairs, &bytes].concat()
            }
            Part::Newest(index) => {
                let pair = Pair::take(&mut Reader::new(&bytes));
                let (_, pair) = pair.map_err(|damage| damage.at(DATA, cold.begin()))?;
                if pair.key != key {
                    return Ok(None);
                }
                let block = Block::decode(&bytes, &self.cache.memory);
                let block = block.map_err(|damage| damage.at(DATA, cold.begin()))?;
                // The block says nothing about other keys that are like it.
                return Ok(Some(Arc::new(block.of_parts(Parts::of(Part::Update(index))))));
            }
        };
        let own = Parts::of(cold.part);
        let block = Block::decode(&bytes, &self.cache.memory);
        let block = block.map_err(|damage| damage.at(DATA, cold.begin()))?;
        let block = Arc::new(block.of_parts(parts.map_or(own, |others| own.with(others))));
        if is_kept {
            self.cache_block(cold, &block);
        }
        Ok(Some(block))
    }

    /// The pairs of an interval that was read.
    pub(crate) fn decode(&self, cold: &UncachedInterval, bytes: Vec<u8>) -> Result<Arc<Block>> {
        cold.learn(&bytes);
        let block = Block::decode(&bytes, &self.cache.memory);
        Ok(Arc::new(block.map_err(|damage| damage.at(DATA, cold.begin()))?))
    }
}
