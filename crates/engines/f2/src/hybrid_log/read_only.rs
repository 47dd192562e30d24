//! `READ_ONLY`, the address from which on records may be changed in place, and the *hold*.
//!
//! The hold keeps all threads from changing anything in place while the log is cut.
//!
//! A checkpoint has everything below a *cut*. It must not have a write without one that had ended
//! before: so a thread that has appended above the cut must not change anything below it in place.
//!
//! 1. *Hold*: from now on nothing may be changed in place; every write is appended.
//! 2. *Cut*: the tail's block is ended. It is changed by an atomic read-modify-write, as every
//!    allocation changes it, so it is known of each allocation on which side of the cut it is.
//! 3. *Release*: `READ_ONLY` moves to the cut, and the hold ends, in one step.
//!
//! No thread waits. The hold lasts as long as these three steps take.
//!
//! # Invariants
//! - P1. A thread that knows of anything that was allocated above the cut knows of the hold. The
//!   hold comes before the cut, and the cut before every later allocation, by release and acquire
//!   of the tail. So it finds either nothing mutable, or `READ_ONLY` at the cut or above.
//! - P2. A thread that has found a record below the cut mutable knows of nothing above the cut that
//!   had ended before, by P1. Its change is in the checkpoint, since the page is flushed only when
//!   the thread has left [H2 of the log].
//! - P3. A record that was appended below the cut is in the checkpoint. Its writer knows of nothing
//!   above the cut either, except by a race: every write that had ended before it began was
//!   allocated before, or is P2's.
//!
//! So the checkpoint has, with any write, all that had ended before that one began: a prefix of
//! each thread's writes, and of the writes of others that any of them knew.

use sync::atomic::{AtomicU64, Ordering};
use sync::epoch::Epochs;

use crate::address::LogAddress;
use crate::planted::{Planted, mutant};

/// The border, and whether it is held, in one word: every operation that changes anything in place
/// reads it.
pub(super) struct ReadOnly(AtomicU64);

impl ReadOnly {
    /// While this bit is set, the border is above every address of a log.
    const HELD: u64 = 1 << (LogAddress::BITS - 1);

    pub(super) fn new(at: LogAddress) -> Self {
        Self(AtomicU64::new(at.get()))
    }

    /// The address from which on a protected thread may change records in place; none while it is
    /// held.
    #[inline]
    pub(super) fn mutable_from(&self) -> LogAddress {
        LogAddress::new(self.0.load(Ordering::Acquire))
    }

    /// The border, held or not.
    pub(super) fn get(&self) -> LogAddress {
        LogAddress::new(self.0.load(Ordering::Acquire) & !Self::HELD)
    }

    /// Makes everything below `to` read-only, held or not. Returns `false` if it was.
    pub(super) fn advance(&self, to: LogAddress) -> bool {
        self.change(|word| (word & !Self::HELD < to.get()).then(|| word & Self::HELD | to.get()))
    }

    /// Does steps 1 to 3, one thread at a time: a thread that cuts has the checkpoint's lock. `end`
    /// returns the tail word that follows when the tail's block is ended, and the address of that
    /// end.
    pub(super) fn cut(&self, tail: &AtomicU64, end: impl Fn(u64) -> (u64, LogAddress)) -> Cut {
        mutant!(Planted::CutWithoutHold, self.hold(), ());
        let tail = end_block(tail, &end);
        let (_, at) = end(tail);
        let has_moved = self.get() < at;
        self.change(|word| Some((word & !Self::HELD).max(at.get())));
        Cut { tail, at, has_moved }
    }

    /// Does step 1.
    fn hold(&self) {
        self.0.fetch_or(Self::HELD, Ordering::AcqRel);
    }

    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }
}

/// The place at which a log was cut.
pub(super) struct Cut {
    /// The tail before its block was ended.
    pub(super) tail: u64,
    pub(super) at: LogAddress,
    /// Whether `READ_ONLY` has moved there.
    pub(super) has_moved: bool,
}

/// Does step 2 and returns the tail before it. A tail that does not change is exchanged too:
/// otherwise an allocation that does not know of the hold could follow.
fn end_block(tail: &AtomicU64, end: impl Fn(u64) -> (u64, LogAddress)) -> u64 {
    let end = |word| Some(end(word).0);
    let next = |word| mutant!(Planted::CutByLooking, end(word), end(word).filter(|it| *it > word));
    tail.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).unwrap_or_else(|before| before)
}

/// Runs `action` once no thread changes anything in place below the new `READ_ONLY` [H2 of the
/// log].
pub(super) fn when_nobody_changes(epochs: &Epochs, action: impl FnOnce() + Send + 'static) {
    mutant!(Planted::CutWithoutEpoch, epochs.bump_with(action), action());
}
