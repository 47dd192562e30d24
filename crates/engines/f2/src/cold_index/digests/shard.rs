//! A part of the digests: pages that are filled sequentially, and the place of each chunk's digest
//! in them.
//!
//! 1. A digest is put behind the last one, whole within a page; the table of slots has its place.
//!    The one that it replaces is not moved, and is dead.
//! 2. If no page may be added, the oldest one is dropped. Its live digests are appended again if
//!    the shard's live digests leave room for that. So the pages are those of a log that is
//!    compacted, or else of a queue.
//!
//! # Invariants
//! - S1. A slot names a digest of its own in a page that is there, or nothing. So the part of a
//!   page that no slot names is dead.

use std::sync::Arc;

use memory_budget::{Account, MemoryBudget};
use sync::atomic::Ordering::Relaxed;

use super::packed::{HEAD_WORDS, Head};
use crate::address::LogAddress;
use crate::cold_index::chunk::Entry;
use crate::page_ring::PageRing;
use crate::record::WORD_BYTES;

/// Live digests are appended again while they take at most this share of the allowed words: (7, 8)
/// is seven eighths.
const LIVE_SHARE: (u64, u64) = (7, 8);
/// Pages that one digest may have compacted at most.
const PAGES_PER_TURN: usize = 4;

/// No digest: the last word of a page, where none begins.
const NOWHERE: u32 = u32::MAX;

/// Returns the part of the allowed memory that may be live where pages are compacted.
pub(super) const fn compacted(allowed: u64) -> u64 {
    allowed / LIVE_SHARE.1 * LIVE_SHARE.0
}

pub(super) struct Shard {
    ring: PageRing,
    page_words: u64,
    /// For each slot the number of its digest's first word, its lowest bits.
    slots: Vec<u32>,
    slots_charge: Account,
    /// Pages that may have memory.
    allowed: u64,
    /// The first word that is there, a page's first one, and the one behind the last.
    begin: u64,
    tail: u64,
    live_words: u64,
    /// Slots that name a digest.
    kept: u64,
    /// Of a digest on its way.
    words: Vec<u64>,
}

impl Shard {
    /// One of `pages_max` pages at most, of which none is allowed yet.
    pub(super) fn new(page_bytes: u64, pages_max: u64, memory: Arc<MemoryBudget>) -> Self {
        let page_words = page_bytes / WORD_BYTES as u64;
        Self {
            ring: PageRing::new(page_bytes, pages_max, Arc::clone(&memory)),
            page_words,
            slots: Vec::new(),
            slots_charge: Account::new(&memory),
            allowed: 0,
            begin: 0,
            tail: 0,
            live_words: 0,
            kept: 0,
            words: Vec::new(),
        }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    pub(super) fn slot_bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<u32>()) as u64
    }

    /// Digests that are there, and the bytes of these.
    pub(super) fn kept(&self) -> (u64, u64) {
        (self.kept, self.live_words * WORD_BYTES as u64)
    }

    /// Sets the number of pages that may have memory; the oldest of the others are dropped.
    pub(super) fn allow(&mut self, pages: u64) {
        self.allowed = pages;
        while self.pages() > pages {
            self.drop_oldest(false);
        }
        if pages == 0 {
            (self.slots, self.words) = (Vec::new(), Vec::new());
            self.slots_charge.set(0);
        }
    }

    /// Appends the addresses that the digest of the chunk at `chunk`, for a level, has for a tag to
    /// `into`; `None`: it is not here.
    pub(super) fn find(
        &self,
        slot: usize,
        level: u32,
        chunk: LogAddress,
        tag: u32,
        into: &mut Vec<LogAddress>,
    ) -> Option<()> {
        let (at, head) = self.head_of(slot, level, chunk)?;
        let entries = at + HEAD_WORDS as u64;
        head.addresses(tag, |word| self.word(entries + word as u64), into);
        Some(())
    }

    /// Whether the digest of the chunk at `chunk`, for a level, is here.
    pub(super) fn has(&self, slot: usize, level: u32, chunk: LogAddress) -> bool {
        self.head_of(slot, level, chunk).is_some()
    }

    /// Returns the place of that digest, and its head. [G1]
    fn head_of(&self, slot: usize, level: u32, chunk: LogAddress) -> Option<(u64, Head)> {
        let at = self.place(slot)?;
        let head = self.head(at);
        ((head.chunk, head.level) == (chunk, level)).then_some((at, head))
    }

    /// Keeps the digest of a chunk of these entries in the place of the digest that `slot` names,
    /// if no other one has to be dropped for that. `false`: there is no room.
    pub(super) fn keep_if_room(
        &mut self,
        slot: usize,
        level: u32,
        chunk: LogAddress,
        entries: &[Entry],
    ) -> bool {
        let words = Head::of(slot, level, chunk, entries).map_or(0, |head| head.words() as u64);
        let replaced = self.place(slot).map_or(0, |at| self.head(at).words() as u64);
        let has_room = self.has_room_without_compaction(words)
            || self.live_words + words - replaced <= self.compacted_words();
        if has_room {
            self.keep(slot, level, chunk, entries);
        }
        has_room
    }

    /// Keeps the digest of a chunk of these entries in the place of the digest that `slot` names.
    pub(super) fn keep(&mut self, slot: usize, level: u32, chunk: LogAddress, entries: &[Entry]) {
        self.forget(slot);
        let Some(head) = Head::of(slot, level, chunk, entries) else { return };
        if head.words() as u64 > self.page_words || self.allowed == 0 {
            return;
        }
        self.make_slot(slot);
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.extend(head.encode());
        head.pack(entries, &mut words);
        debug_assert_eq!(words.len(), head.words());
        let mut pages_at_once = PAGES_PER_TURN;
        while !self.append(slot, &words) {
            self.drop_oldest(pages_at_once > 0);
            pages_at_once = pages_at_once.saturating_sub(1);
        }
        self.words = words;
    }

    /// Makes the table of slots as long as it has to be.
    fn make_slot(&mut self, slot: usize) {
        if slot >= self.slots.len() {
            let room = (slot + 1).next_power_of_two();
            self.slots.reserve_exact(room - self.slots.len());
            self.slots.resize(room, NOWHERE);
            self.slots_charge.set(self.slot_bytes());
        }
    }

    /// Returns the words left in the page that is filled. Pages that are begun are below the tail;
    /// a full one has the tail at its end.
    fn room_in_page(&self) -> u64 {
        self.tail.next_multiple_of(self.page_words) - self.tail
    }

    fn has_room_without_compaction(&self, words: u64) -> bool {
        words <= self.room_in_page() || self.pages() < self.allowed
    }

    /// Returns the words that may be live where pages are compacted.
    fn compacted_words(&self) -> u64 {
        compacted(self.allowed * self.page_words)
    }

    /// Appends a digest and has its slot name it; `false`: a page has to go before.
    fn append(&mut self, slot: usize, words: &[u64]) -> bool {
        let len = words.len() as u64;
        if len > self.room_in_page() {
            if self.pages() >= self.allowed {
                return false;
            }
            self.end_page();
            if !self.ring.take(self.tail / self.page_words) {
                return false;
            }
        }
        for (at, word) in (self.tail..).zip(words) {
            self.ring.words(at * WORD_BYTES as u64)[0].store(*word, Relaxed);
        }
        self.slots[slot] = self.tail as u32;
        self.kept += 1;
        self.live_words += len;
        self.tail += len;
        true
    }

    /// Ends the page that is filled; the rest of it has no digest.
    fn end_page(&mut self) {
        let end = self.tail.next_multiple_of(self.page_words);
        if self.tail < end {
            // No digest is without a slot that names it, so a head of zeros ends a page.
            self.ring.words(self.tail * WORD_BYTES as u64)[0].store(0, Relaxed);
            self.tail = end;
        }
    }

    /// Pages that have memory.
    fn pages(&self) -> u64 {
        self.tail.div_ceil(self.page_words) - self.begin / self.page_words
    }

    /// Releases the oldest page's memory; its live digests are kept if `may_keep` and there is
    /// room.
    fn drop_oldest(&mut self, may_keep: bool) {
        let page = self.begin / self.page_words;
        let end = (self.begin + self.page_words).min(self.tail);
        let room = self.compacted_words();
        let mut kept: Vec<(usize, Vec<u64>)> = Vec::new();
        let mut at = self.begin;
        while at < end && self.word(at) != 0 {
            let head = self.head(at);
            let next = at + head.words() as u64;
            if self.place(head.slot) == Some(at) {
                if may_keep && self.live_words <= room {
                    kept.push((head.slot, (at..next).map(|word| self.word(word)).collect()));
                }
                self.forget(head.slot);
            }
            at = next;
        }
        self.begin += self.page_words;
        self.tail = self.tail.max(self.begin);
        self.ring.release(page);
        for (slot, words) in kept {
            // It takes no more pages than the one that went.
            let _is_kept: bool = self.append(slot, &words);
        }
    }

    /// The slot names nothing any more.
    fn forget(&mut self, slot: usize) {
        if let Some(at) = self.place(slot) {
            self.live_words -= self.head(at).words() as u64;
            self.kept -= 1;
            self.slots[slot] = NOWHERE;
        }
    }

    /// Returns the place of the digest that a slot names. [S1]
    fn place(&self, slot: usize) -> Option<u64> {
        let low = *self.slots.get(slot)?;
        // There are far fewer words than such numbers.
        let back = (self.tail as u32).wrapping_sub(low);
        (low != NOWHERE).then(|| self.tail - u64::from(back))
    }

    fn head(&self, at: u64) -> Head {
        Head::decode([self.word(at), self.word(at + 1)])
    }

    fn word(&self, at: u64) -> u64 {
        self.ring.words(at * WORD_BYTES as u64)[0].load(Relaxed)
    }
}
