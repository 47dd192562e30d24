//! Entries that a newer one of their key replaces, in their own words.
//!
//! An entry that was put has a state of one word:
//!
//! | bits | what |
//! |---|---|
//! | 0-31 | words that are kept for its value |
//! | 32 | whether it is marked |
//! | 33-63 | how often its replacing has begun and ended: odd while it is being replaced |
//!
//! 1. A put finds the newest older entry of its key right after its place. If that may be replaced
//!    and its words have room, the state is counted up, the number, the length and the value are
//!    written over the old ones, and the state is counted up again. No memory is taken.
//! 2. If they have no room, the entry is added before the old one, with 1.5 times the words of the
//!    old one, or with the words that it needs if they are more. The old one stays unchanged until
//!    the list is dropped.
//! 3. A reader looks at the state, waits while it is odd, copies, and looks again. If it was
//!    counted up meanwhile, the reader does all of this once more.
//!
//! # Invariants
//! - R1. An entry is replaced by one whose place is at the old one's: there is nothing between the
//!   two. So the order of nodes (S3) stays, and a search for a number above both, or below both,
//!   finds the same as before. The caller guarantees that no search is for a number from the old
//!   one to below the new one.
//! - R2. The state is odd before a word is written over, and even once all were. A fence after the
//!   first count releases, and one after a reader's copy acquires. So a reader that has copied a
//!   new word finds at its second look that the state was counted up. The second count releases and
//!   the reader's first look acquires: a reader that finds the state even finds every word that was
//!   written before that.
//! - R3. The words that are kept for a value stay the same, so a length that was read at any time
//!   has its words.
//! - R4. A key that is put and replaced takes at most 4.5 times the words of its longest value,
//!   plus one entry's other words for each time that its longest value grew by half. An entry that
//!   is added for lack of room gets 1.5 times the words of the one before it, so all earlier
//!   entries together have at most twice its words.
//!
//! # Concurrency
//! Writers that put the same key do so one by one, each with a larger number than the ones before
//! it, and each before the next one begins; the caller ensures that. All other calls may run at the
//! same time. Readers of an entry wait for a writer that is just replacing it, for as long as its
//! value takes to be copied.

use super::SkipList;
use super::node::{Content, Entry, WORD};
use sync::atomic::{Ordering, Ordering::Relaxed, fence};
use sync::planted::relaxed_if;

use crate::planted::Planted;
use sync::thread::{spin_loop, yield_now};

const KEPT_WORDS: u64 = u32::MAX as u64;
const MARKED: u64 = 1 << 32;
/// One count more.
const COUNT: u64 = 1 << 33;
/// Looks at an odd state after which the reader yields to other threads.
const LOOKS: u32 = 100;

impl SkipList {
    /// Bytes that an entry takes that was put, on average, unless it has replaced another one.
    pub fn put_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
        Self::entry_bytes(key_bytes, value_bytes) + WORD as u64
    }

    /// Adds an entry that may be replaced, or replaces the newest older one of its key. It replaces
    /// that one if it was put, and if no thread looks, or will look, for a number from its own on
    /// and below this one: `is_unseen` of its number. Returns by how many bytes the list has grown,
    /// as [`put_bytes`](Self::put_bytes) counts. It has not grown if an entry is replaced in its
    /// place, or if there is one of this key and number, which stays.
    ///
    /// Earlier puts of the same key have returned, and no entry of it has a larger number, unless
    /// it was put before this is.
    ///
    /// # Panics
    /// If the key is longer than 65,535 bytes, or the value than 16 GiB.
    ///
    /// ```
    /// let list = thermocline_arena::skip_list::SkipList::new();
    /// assert!(list.put(b"key", 1, Some(b"old"), |_| true) > 0);
    /// assert_eq!(list.put(b"key", 2, Some(b"new"), |older| older == 1), 0);
    /// let (mut value, newest) = (Vec::new(), list.first().expect("there is one"));
    /// assert_eq!(newest.append_version(&mut value), (2, true));
    /// assert_eq!((value.as_slice(), list.len()), (b"new".as_slice(), 1));
    /// ```
    pub fn put(
        &self,
        key: &[u8],
        number: u64,
        value: Option<&[u8]>,
        is_unseen: impl FnOnce(u64) -> bool,
    ) -> u64 {
        let words = words_of(value);
        assert!(words < KEPT_WORDS / 2, "a value of 16 GiB");
        let mut place = self.place_of(key, number);
        let mut kept_words = words;
        let older = self.entry_at(place.behind[0]).filter(|older| older.has_key(key));
        if let Some(older) = older.filter(|older| older.number() < number)
            && is_unseen(older.number())
        {
            if older.replace(number, value) {
                return 0;
            }
            let older_words = older.kept_words().unwrap_or(0);
            kept_words = words.max(older_words + older_words / 2).min(KEPT_WORDS);
        }
        let content = Content { key, number, value, kept_words: Some(kept_words as u32) };
        let is_added = self.add(&mut place, &content);
        if is_added { Self::put_bytes(key.len(), kept_words as usize * WORD) } else { 0 }
    }
}

/// Words that a value takes.
fn words_of(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| value.len().div_ceil(WORD) as u64)
}

impl Entry<'_> {
    /// Words that are kept for its value, if it may be replaced.
    pub(super) fn kept_words(&self) -> Option<u64> {
        self.state().map(|state| state.load(Relaxed) & KEPT_WORDS)
    }

    /// Step 1: becomes one of this number and value, if it may be replaced and its words have room;
    /// returns whether it did.
    fn replace(&self, number: u64, value: Option<&[u8]>) -> bool {
        let Some(state) = self.state() else { return false };
        if words_of(value) > self.kept_words().unwrap_or(0) {
            return false;
        }
        let before = state.fetch_add(COUNT, Relaxed);
        debug_assert!(before & COUNT == 0, "two puts replace one value at the same time");
        sync::mutant!(Planted::NoFenceInReplace, fence(Ordering::Release), ());
        self.write_version(number, value);
        state.fetch_add(COUNT, relaxed_if(Planted::RelaxedReplace, Ordering::Release));
        true
    }

    /// Appends its value, if it has one, to `into`, and returns its number and whether it has a
    /// value: both of one moment.
    pub fn append_version(&self, into: &mut Vec<u8>) -> (u64, bool) {
        let Some(state) = self.state() else { return (self.number(), self.append_value(into)) };
        let (begin, mut looks) = (into.len(), 0_u32);
        loop {
            let before = state.load(Ordering::Acquire);
            if before & COUNT == 0 {
                let version = (self.number(), self.append_value(into));
                sync::mutant!(Planted::NoFenceInRead, fence(Ordering::Acquire), ());
                let changed = (state.load(Relaxed) ^ before) & !MARKED;
                if sync::mutant!(Planted::NotLookedAgain, changed == 0, true) {
                    return version;
                }
                into.truncate(begin);
            }
            looks += 1;
            if looks.is_multiple_of(LOOKS) { yield_now() } else { spin_loop() }
        }
    }

    /// Marks an entry that was put, for ever; returns whether it was not marked before.
    pub fn mark(&self) -> bool {
        self.state().is_some_and(|state| state.fetch_or(MARKED, Relaxed) & MARKED == 0)
    }

    /// Whether it is marked.
    pub fn is_marked(&self) -> bool {
        self.state().is_some_and(|state| state.load(Relaxed) & MARKED != 0)
    }
}
