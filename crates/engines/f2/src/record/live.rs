//! A record in memory, which many threads read, change in place and seal concurrently.
//!
//! The state word is a sequence lock. A writer takes it by a compare-and-swap that sets the lock
//! bit, changes the value word by word, and stores the state unlocked with the next sequence
//! number. A reader copies the value between two loads of the state that must be equal.
//!
//! # Invariants
//! - V1. A reader that found the same unlocked state before and after copied the state of one
//!   writer. Acquire on the first load pairs with release on the unlocking store. A fence orders
//!   the copy before the second load; a fence after taking the lock orders it before the first word
//!   written.
//! - V2. The sequence never starts again: once it is used up, the record counts as sealed.
//! - V3. A sealed record never changes again. A thread that computes a new value from an old one
//!   and appends it seals the old one first, so that no change in place falls between the two.
//! - V4. The record's length never changes: a change in place keeps the number of words that the
//!   value takes.

use engine::{Change, Operator};
use sync::atomic::{AtomicU64, Ordering, fence};

use super::layout::{Header, Shape, State, WORD_BYTES};
use crate::address::LogAddress;
use crate::planted::{Planted, mutant, relaxed_if};
use crate::spin_wait::SpinWait;

const CACHE_LINE_BYTES: usize = 64;

/// Words from the beginning of a record on; more of the page may follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live<'a>(&'a [AtomicU64]);

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Value,
    Tombstone,
}

/// How a change in place ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    Done,
    /// The record is unchanged, and sealed if the caller is to append the value that it computes
    /// from it.
    Declined,
}

impl<'a> Live<'a> {
    /// The record that begins with `words`.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// Writes a record that no other thread can reach yet. `None` is a tombstone.
    pub(crate) fn write(self, previous: LogAddress, key: &[u8], value: Option<&[u8]>) {
        let value_bytes = value.map_or(0, <[u8]>::len);
        let shape = Shape { key_bytes: key.len(), value_bytes };
        // Relaxed: the compare-and-swap that links the record releases all of it.
        self.0[0].store(Header::record(previous).0, Ordering::Relaxed);
        self.0[1].store(State::new(shape, value.is_none()).0, Ordering::Relaxed);
        store_bytes(&self.0[2..], key);
        let end = shape.bytes() / WORD_BYTES;
        let value_words = &self.0[shape.value_at()..end];
        let written = value.map_or(0, |value| store_bytes(value_words, value));
        value_words[written..].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Declares `bytes` from here on to hold no record.
    pub(crate) fn write_filler(self, bytes: u64) {
        self.0[0].store(Header::filler(bytes).0, Ordering::Relaxed);
        self.0[1].store(0, Ordering::Relaxed);
    }

    pub(crate) fn header(self) -> Header {
        Header(self.0[0].load(Ordering::Relaxed))
    }

    /// Loads the record's first two cache lines, for their own sake.
    pub(crate) fn prefetch(self) -> u64 {
        let second = self.0.get(CACHE_LINE_BYTES / WORD_BYTES);
        self.header().0 ^ second.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Marks a record that was never linked, so that scans of the log pass it by.
    pub(crate) fn invalidate(self) {
        self.0[0].store(self.header().invalidated().0, Ordering::Relaxed);
    }

    /// Remembers that a record of the read cache was read; writes only if that is new.
    pub(crate) fn note_hit(self) {
        if !self.header().is_hit() {
            self.0[0].fetch_or(Header::HIT, Ordering::Relaxed);
        }
    }

    /// Makes the chain of a record that was not linked yet continue at `previous`.
    pub(crate) fn relink(self, previous: LogAddress) {
        self.0[0].store(Header::record(previous).0, Ordering::Relaxed);
    }

    fn state(self) -> State {
        State(self.0[1].load(Ordering::Relaxed))
    }

    /// The whole record's length in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.state().shape().bytes()
    }

    /// Whether this is a record of `key`. A record's key never changes.
    pub(crate) fn is_of(self, key: &[u8]) -> bool {
        let shape = self.state().shape();
        shape.key_bytes == key.len() && bytes_equal(&self.0[2..], key)
    }

    /// Replaces the content of `into` by the key.
    pub(crate) fn read_key(self, into: &mut Vec<u8>) {
        load_bytes(&self.0[2..], self.state().shape().key_bytes, into);
    }

    /// Replaces the content of `into` by the value, unless the record is a tombstone.
    pub(crate) fn read(self, into: &mut Vec<u8>) -> Read {
        let mut spin_wait = SpinWait::new();
        loop {
            // [V1]
            let state = State(self.0[1].load(Ordering::Acquire));
            if !state.is_locked() {
                let shape = state.shape();
                if !state.is_tombstone() {
                    load_bytes(&self.0[shape.value_at()..], shape.value_bytes, into);
                }
                mutant!(Planted::NoFenceInRead, fence(Ordering::Acquire), ());
                let now = self.0[1].load(Ordering::Relaxed);
                if mutant!(Planted::NoSecondLookAtState, now == state.0, true) {
                    return if state.is_tombstone() { Read::Tombstone } else { Read::Value };
                }
            }
            spin_wait.wait();
        }
    }

    /// Takes the record's lock; `None` if the record is sealed.
    fn lock(self) -> Option<Locked<'a>> {
        let mut spin_wait = SpinWait::new();
        loop {
            let state = self.state();
            if state.is_sealed() {
                return None;
            }
            if !state.is_locked() && self.exchange(state, state.locked()) {
                // [V1]
                mutant!(Planted::NoFenceInLock, fence(Ordering::Release), ());
                return Some(Locked { record: self, was: state });
            }
            spin_wait.wait();
        }
    }

    /// Declares that the record never changes again, and waits for a change under way. [V3]
    pub(crate) fn seal(self) {
        mutant!(Planted::NoSeal, (), return);
        let mut spin_wait = SpinWait::new();
        loop {
            let state = self.state();
            if state.is_sealed() || !state.is_locked() && self.exchange(state, state.sealed()) {
                return;
            }
            spin_wait.wait();
        }
    }

    fn exchange(self, from: State, to: State) -> bool {
        let state = &self.0[1];
        state.compare_exchange(from.0, to.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Puts another value (`None`: a tombstone) in the place of the present one, if it takes the
    /// same number of words and the record is not sealed.
    pub(crate) fn put_in_place(self, value: Option<&[u8]>) -> InPlace {
        let fits = |shape: Shape| value.is_none_or(|value| fits(shape, value));
        if !fits(self.state().shape()) {
            return InPlace::Declined;
        }
        let Some(locked) = self.lock() else { return InPlace::Declined };
        if !fits(locked.was.shape()) {
            return InPlace::Declined;
        }
        locked.put(value);
        InPlace::Done
    }

    /// Lets `operator` change the record in place. If it cannot, the record is sealed, so that the
    /// caller can append the operator's result.
    pub(crate) fn rmw_in_place(
        self,
        operator: &mut dyn Operator,
        scratch: &mut Vec<u8>,
    ) -> InPlace {
        let Some(locked) = self.lock() else { return InPlace::Declined };
        let shape = locked.was.shape();
        if locked.was.is_tombstone() {
            // A tombstone's room is as long as the value before it.
            match operator.update(None) {
                Change::Put(value) if fits(shape, &value) => locked.put(Some(&value)),
                Change::Put(_) => return locked.seal(),
                Change::Delete | Change::Keep => {}
            }
            return InPlace::Done;
        }
        load_bytes(&self.0[shape.value_at()..], shape.value_bytes, scratch);
        if operator.update_in_place(scratch) {
            locked.put(Some(scratch));
            return InPlace::Done;
        }
        match operator.update(Some(scratch)) {
            Change::Put(value) if fits(shape, &value) => locked.put(Some(&value)),
            Change::Put(_) => return locked.seal(),
            Change::Delete => locked.put(None),
            Change::Keep => {}
        }
        InPlace::Done
    }
}

/// The lock on one record. Dropping it leaves the record unchanged, also if the operator of a
/// read-modify-write panics.
struct Locked<'a> {
    record: Live<'a>,
    was: State,
}

impl Locked<'_> {
    fn put(self, value: Option<&[u8]>) {
        let shape = self.was.shape();
        let value_bytes = value.map_or(shape.value_bytes, <[u8]>::len);
        if let Some(value) = value {
            store_bytes(&self.record.0[shape.value_at()..], value);
        }
        let changed = self.was.changed(value_bytes, value.is_none());
        self.unlock(changed);
    }

    fn seal(self) -> InPlace {
        let sealed = mutant!(Planted::NoSeal, self.was.sealed(), self.was);
        self.unlock(sealed);
        InPlace::Declined
    }

    fn unlock(self, to: State) {
        // [V1]
        let order = relaxed_if(Planted::RelaxedUnlock, Ordering::Release);
        self.record.0[1].store(to.0, order);
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.record.0[1].store(self.was.0, Ordering::Release);
    }
}

/// Returns whether `value` takes the number of words that a record of this shape has for one. [V4]
fn fits(shape: Shape, value: &[u8]) -> bool {
    let wanted = Shape { value_bytes: value.len(), ..shape };
    wanted.value_words() == shape.value_words()
}

/// A word of up to eight bytes, padded with zeros.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Writes `bytes` and returns the number of words that they took.
fn store_bytes(words: &[AtomicU64], bytes: &[u8]) -> usize {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        words[whole.len()].store(word_of(rest), Ordering::Relaxed);
    }
    bytes.len().div_ceil(WORD_BYTES)
}

fn load_bytes(words: &[AtomicU64], len: usize, into: &mut Vec<u8>) {
    let words = &words[..len.div_ceil(WORD_BYTES)];
    // All of it is overwritten, so that no step of the copy looks at the vector's length.
    into.resize(words.len() * WORD_BYTES, 0);
    let (pieces, _) = into.as_chunks_mut::<WORD_BYTES>();
    for (piece, word) in pieces.iter_mut().zip(words) {
        *piece = word.load(Ordering::Relaxed).to_le_bytes();
    }
    into.truncate(len);
}

fn bytes_equal(words: &[AtomicU64], bytes: &[u8]) -> bool {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let equal = |word: &AtomicU64, bytes| word.load(Ordering::Relaxed) == bytes;
    words.iter().zip(whole).all(|(word, bytes)| equal(word, u64::from_le_bytes(*bytes)))
        && (rest.is_empty() || equal(&words[whole.len()], word_of(rest)))
}
