//! The directory: for each chunk a word of memory, which has the address of its present version in
//! the chunk log.
//!
//! ```text
//!  63              48 47                                     0
//! +------------------+----------------------------------------+
//! | entries, or more | address in the chunk log; 0: no chunk  |
//! +------------------+----------------------------------------+
//! ```
//!
//! Words are in segments that are never moved. A doubling makes a segment, copies all words to it,
//! and publishes the new level: then both halves of a chunk name the same version, until one of
//! them is changed.
//!
//! # Invariants
//! - R1. A word is changed by compare-and-swap only, from the word whose chunk the changer has
//!   read.
//! - R2. A doubling and a change never run concurrently: a thread that changes a word shares the
//!   lock and looks at the level again. So no change of a chunk of the old level is lost to one
//!   half.
//! - R3. A word that was read between two loads of the same level covers the content of the chunk
//!   of this number at this level. A thread that read a word newer than the level sees the newer
//!   level.
//!
//! # Memory order, pair by pair
//! - W1, release of the compare-and-swap with the acquire load of the word: a thread that finds a
//!   chunk sees its content. If the chunk is of a newer level, the thread sees that level.
//! - W2, release store of the level with its acquire load: a thread that knows a level finds its
//!   segment and the words in it.

use std::sync::OnceLock;

use sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sync::{RwLock, RwLockReadGuard};

use super::chunk::{Name, Prefix};
use super::{BASE_BITS, LEVEL_MAX};
use crate::address::LogAddress;
use crate::planted::{Planted, mutant, relaxed_if};

const COUNT_SHIFT: u32 = LogAddress::BITS;
/// The greatest number of entries that a word can have; it also represents every greater number.
const COUNT_MAX: u64 = u16::MAX as u64;

/// A chunk's address and number of entries, as the directory has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// No chunk was written yet, which is as good as one without entries.
    pub(super) const NONE: Self = Self(0);

    /// Returns the word of a chunk of `entries` entries at `address`.
    pub(super) fn new(address: LogAddress, entries: usize) -> Self {
        Self((entries as u64).min(COUNT_MAX) << COUNT_SHIFT | address.get())
    }

    pub(super) const fn address(self) -> LogAddress {
        LogAddress::new(self.0)
    }

    /// Returns the word in its written form.
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the number of the chunk's entries, if the word has it.
    pub(super) fn entries(self) -> Option<usize> {
        let count = self.0 >> COUNT_SHIFT;
        (count < COUNT_MAX).then_some(count as usize)
    }
}

/// The addresses of all chunks.
pub(crate) struct Directory {
    /// Every lookup reads it first and last; only a doubling writes it.
    level: AtomicU32,
    segments: [OnceLock<Box<[AtomicU64]>>; LEVEL_MAX as usize + 1],
    /// Shared by threads that change a word, exclusive for a doubling.
    changes: RwLock<()>,
}

/// The right to change words; while it is held the level does not change.
pub(super) struct Changer<'a> {
    directory: &'a Directory,
    _shared: RwLockReadGuard<'a, ()>,
}

impl Directory {
    /// A directory without chunks.
    pub(crate) fn new() -> Self {
        let directory = Self {
            level: AtomicU32::new(0),
            segments: [const { OnceLock::new() }; LEVEL_MAX as usize + 1],
            changes: RwLock::new(()),
        };
        directory.segments[0].get_or_init(|| (0..chunks(0)).map(|_| AtomicU64::new(0)).collect());
        directory
    }

    /// A directory without chunks that was doubled so often.
    pub(super) fn of_level(level: u32) -> Self {
        let directory = Self::new();
        for before in 0..level {
            directory.double(before);
        }
        directory
    }

    /// Returns the result of `look`, called while no thread changes a word and the directory does
    /// not double. Waits for threads that do so; the caller is not protected.
    pub(super) fn while_unchanged<T>(&self, look: impl FnOnce(u32) -> T) -> T {
        let _exclusive = self.changes.write();
        look(self.level())
    }

    /// How often it was doubled.
    pub(super) fn level(&self) -> u32 {
        // [W2]
        self.level.load(Ordering::Acquire)
    }

    /// How many chunks there are, written or not.
    pub(super) fn chunks(&self) -> usize {
        chunks(self.level())
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let words = self.segments.iter().filter_map(OnceLock::get).map(|segment| segment.len());
        (words.sum::<usize>() * size_of::<AtomicU64>() + size_of::<Self>()) as u64
    }

    /// Returns the word of a number. The caller has acquired a level that has this number.
    fn word(&self, number: usize) -> &AtomicU64 {
        let segment = usize::BITS - (number >> BASE_BITS).leading_zeros();
        let first = if segment == 0 { 0 } else { chunks(segment - 1) };
        let words = self.segments[segment as usize].get();
        &words.expect("a level is published after its segment")[number - first]
    }

    pub(super) fn load(&self, number: usize) -> Word {
        // [W1]
        Word(self.word(number).load(Ordering::Acquire))
    }

    /// Returns the chunk that a position belongs to, and its word. [R3]
    pub(super) fn find(&self, prefix: Prefix) -> (Name, Word) {
        loop {
            let level = self.level();
            let name = prefix.name(level);
            let word = self.load(name.number);
            if mutant!(Planted::NoSecondLookAtLevel, self.level() == level, true) {
                return (name, word);
            }
        }
    }

    /// The word of a chunk, if the directory still has the chunk's level. [R3]
    pub(super) fn load_at(&self, name: Name) -> Option<Word> {
        if self.level() != name.level {
            return None;
        }
        let word = self.load(name.number);
        (self.level() == name.level).then_some(word)
    }

    /// Keeps the level unchanged, so that the caller can change words. Waits for a doubling; the
    /// caller is not protected.
    pub(super) fn changer(&self) -> Changer<'_> {
        Changer { directory: self, _shared: self.changes.read() }
    }

    /// Doubles from `level`, if it still has that level and may double. Waits for threads that
    /// change words, and copies all words; the caller is not protected.
    pub(super) fn double(&self, level: u32) -> bool {
        if level == LEVEL_MAX {
            return false;
        }
        let _exclusive = self.changes.write();
        if self.level() != level {
            return false;
        }
        let copied = (0..chunks(level)).map(|number| AtomicU64::new(self.load(number).0));
        self.segments[level as usize + 1].get_or_init(|| copied.collect());
        // [W2]
        self.level.store(level + 1, relaxed_if(Planted::RelaxedDoubling, Ordering::Release));
        true
    }

    /// Stores a word for a chunk found in the chunk log, while no other thread uses the directory.
    pub(super) fn restore(&self, number: usize, word: Word) {
        self.word(number).store(word.0, Ordering::Relaxed);
    }
}

impl Changer<'_> {
    /// Whether the chunk's level is that of the directory, and so stays. [R2]
    pub(super) fn has_level(&self, name: Name) -> bool {
        mutant!(Planted::NoLookAtLevelToChange, self.directory.level() == name.level, true)
    }

    /// Puts `new` in the place of `seen`, if that is still there. [R1]
    pub(super) fn replace(&self, name: Name, seen: Word, new: Word) -> bool {
        debug_assert!(self.has_level(name), "R2");
        let word = self.directory.word(name.number);
        let seen = mutant!(Planted::ChangeWithoutCompare, seen.0, word.load(Ordering::Acquire));
        // [W1]
        let order = relaxed_if(Planted::RelaxedChange, Ordering::AcqRel);
        word.compare_exchange(seen, new.0, order, Ordering::Relaxed).is_ok()
    }
}

/// How many chunks there are at a level.
const fn chunks(level: u32) -> usize {
    1 << (BASE_BITS + level)
}
