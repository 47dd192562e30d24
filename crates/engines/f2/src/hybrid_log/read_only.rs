//! From where on records may be changed in place: `READ_ONLY`, and the *hold* that keeps everybody
//! from changing anything in place while the log is cut.
//!
//! A checkpoint has what lies below a *cut*. It must not have a write without one that had ended
//! before: so a thread that has appended above the cut must not change anything below it in place.
//!
//! 1. *Hold*: from now on nothing may be changed in place; every write is appended.
//! 2. *Cut*: the tail's block is ended. It is changed by an atomic read-modify-write, as every
//!    allocation changes it, so it is known of each allocation on which side of the cut it is.
//! 3. *Release*: `READ_ONLY` moves to the cut, and the hold ends, in one step.
//!
//! Nobody waits. The hold lasts as long as these three steps take.
//!
//! # Invariants
//! - P1. Who knows of anything that was allocated above the cut knows of the hold: the hold comes
//!   before the cut, and the cut before every later allocation, by release and acquire of the
//!   tail. So it finds either nothing mutable, or `READ_ONLY` at the cut or above.
//! - P2. Who has found a record below the cut mutable knows of nothing above the cut that had ended
//!   before, by P1. What it changes is in the checkpoint, since the page is flushed only when it has
//!   left [H2 of the log].
//! - P3. What was appended below the cut is in the checkpoint, and knows of nothing above the cut
//!   either, but by a race: whatever had ended before it began was allocated before, or is P2's.
//!
//! So the checkpoint has, with any write, all that had ended before that one began: a prefix of what
//! each thread has written, and of what any of them knew of the others.

use sync::atomic::{AtomicU64, Ordering};
use sync::epoch::Epochs;

use crate::address::LogAddress;
use crate::planted::{Planted, is_planted};

/// The border, and whether it is held, in one word: every operation that changes anything in place
/// reads it.
pub(super) struct ReadOnly(AtomicU64);

impl ReadOnly {
    /// While this bit is set, the border is above every address of a log.
    const HELD: u64 = 1 << (LogAddress::BITS - 1);

    pub(super) fn new(at: LogAddress) -> Self {
        Self(AtomicU64::new(at.get()))
    }

    /// What lies at or above may be changed in place by who is protected; nothing while it is held.
    #[inline]
    pub(super) fn mutable_from(&self) -> LogAddress {
        LogAddress::new(self.0.load(Ordering::Acquire))
    }

    /// The border, held or not.
    pub(super) fn get(&self) -> LogAddress {
        LogAddress::new(self.0.load(Ordering::Acquire) & !Self::HELD)
    }

    /// Makes what lies below `to` read-only, held or not. `false`: it was.
    pub(super) fn advance(&self, to: LogAddress) -> bool {
        self.change(|word| (word & !Self::HELD < to.get()).then(|| word & Self::HELD | to.get()))
    }

    /// Steps 1 to 3. One at a time: whoever cuts has the checkpoint's lock. `end` says how the tail
    /// goes on when its block is ended, and where that is.
    pub(super) fn cut(&self, tail: &AtomicU64, end: impl Fn(u64) -> (u64, LogAddress)) -> Cut {
        if !is_planted(Planted::CutWithoutHold) {
            self.0.fetch_or(Self::HELD, Ordering::AcqRel);
        }
        let tail = end_block(tail, &end);
        let (_, at) = end(tail);
        let has_moved = self.get() < at;
        self.change(|word| Some((word & !Self::HELD).max(at.get())));
        Cut { tail, at, has_moved }
    }

    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }
}

/// Where a log was cut.
pub(super) struct Cut {
    /// The tail before its block was ended.
    pub(super) tail: u64,
    pub(super) at: LogAddress,
    /// Whether `READ_ONLY` has moved there.
    pub(super) has_moved: bool,
}

/// Step 2: also where the tail stays as it is it is exchanged, or an allocation could come behind
/// that does not know of the hold. Answers the tail before.
fn end_block(tail: &AtomicU64, end: impl Fn(u64) -> (u64, LogAddress)) -> u64 {
    let mut word = tail.load(Ordering::Acquire);
    loop {
        let (ended, _) = end(word);
        if ended == word && is_planted(Planted::CutByLooking) {
            return word;
        }
        match tail.compare_exchange(word, ended, Ordering::AcqRel, Ordering::Acquire) {
            Ok(before) => return before,
            Err(now) => word = now,
        }
    }
}

/// Runs `action` once nobody changes anything in place below where `READ_ONLY` has moved [H2 of the
/// log].
pub(super) fn when_nobody_changes(epochs: &Epochs, action: impl FnOnce() + Send + 'static) {
    match is_planted(Planted::CutWithoutEpoch) {
        true => action(),
        false => epochs.bump_with(action),
    }
}
