//! Bugs that the models plant to show that they would be found; nothing outside the checkers.

/// A way to break the epoch protocol.
#[cfg_attr(not(any(loom, shuttle)), expect(unreachable_pub, reason = "public to models only"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// [F1] is left out: a protector may miss both the drainer and what was unlinked.
    NoFenceInProtect,
    /// [F2] is left out: a drainer may miss a protector that misses what was unlinked.
    NoFenceInScan,
    /// [P1] is relaxed: what a thread read before it left and came back is not known to be over.
    RelaxedEnter,
    /// [P2] is relaxed: what a thread read before it left or moved on is not known to be over.
    RelaxedLeave,
    /// [P3] is relaxed: a protector may know of the new epoch and not of what was unlinked.
    RelaxedEpoch,
    /// [P4] is relaxed: a recycled slot forgets what its last owner read.
    RelaxedClaim,
    /// Nobody is asked to drain when a blocker leaves.
    NoBaton,
    /// [P5] is relaxed: the blocker that drains does not know of the epoch it was asked to end.
    RelaxedBaton,
    /// [P5] is skipped where another action's bit is set already.
    SharedBaton,
    /// The horizon may lie above the newest epoch that was known before the slots were read.
    UnboundedHorizon,
}

#[cfg(any(loom, shuttle))]
mod switch {
    use std::cell::Cell;

    use super::Planted;
    use crate::atomic::Ordering;

    // Both checkers run all threads of a model on one thread of the operating system.
    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Runs `model` with one bug planted.
    pub fn with_planted<R>(bug: Planted, model: impl FnOnce() -> R) -> R {
        struct Uproot;
        impl Drop for Uproot {
            fn drop(&mut self) {
                PLANTED.set(None);
            }
        }
        let _uproot = Uproot;
        PLANTED.set(Some(bug));
        model()
    }

    pub(crate) fn is_planted(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }

    pub(crate) fn relaxed_if(bug: Planted, order: Ordering) -> Ordering {
        if is_planted(bug) { Ordering::Relaxed } else { order }
    }
}

#[cfg(any(loom, shuttle))]
pub use switch::with_planted;
#[cfg(any(loom, shuttle))]
pub(crate) use switch::{is_planted, relaxed_if};

#[cfg(not(any(loom, shuttle)))]
pub(crate) const fn is_planted(_bug: Planted) -> bool {
    false
}

#[cfg(not(any(loom, shuttle)))]
pub(crate) const fn relaxed_if(
    _bug: Planted,
    order: crate::atomic::Ordering,
) -> crate::atomic::Ordering {
    order
}
