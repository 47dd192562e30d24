//! Bugs that tests plant to show that they would be found.
//!
//! These are the bugs of this crate, and the means by which crates above plant theirs.
//!
//! Models plant one for all threads of a model (`model_must_find`, under loom and shuttle),
//! ordinary tests on their own thread ([`must_be_found`]). Outside of tests nothing is planted. A
//! page describes the bugs of a crate, and the crate's tests compare the two ([`page`]).

pub mod page;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::LocalKey;

/// A way to break the epoch protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// F1 is left out: a protector may miss both the drainer and the unlinking.
    NoFenceInProtect,
    /// F2 is left out: a drainer may miss a protector that misses the unlinking.
    NoFenceInScan,
    /// P1 is relaxed: reads of a thread before it left and came back are not known to be over.
    RelaxedEnter,
    /// P2 is relaxed: reads of a thread before it left or moved on are not known to be over.
    RelaxedLeave,
    /// P3 is relaxed: a protector may know of the new epoch and not of the unlinking.
    RelaxedEpoch,
    /// P4 is relaxed: a recycled slot forgets what its last owner read.
    RelaxedClaim,
    /// No thread is made to drain when a blocker leaves.
    NoBaton,
    /// P5 is relaxed: the blocker that drains does not know of the epoch that it must end.
    RelaxedBaton,
    /// P5 is skipped if another action's bit is set already.
    SharedBaton,
    /// The horizon may be above the newest epoch that was known before the slots were read.
    UnboundedHorizon,
}

/// Evaluates to `normal`, or to `broken` in a model in which the bug is planted.
///
/// Only models can plant the bug. A bug that ordinary tests find is a patch in
/// `reliability/mutants`.
#[macro_export]
macro_rules! mutant {
    ($bug:expr, $normal:expr, $broken:expr $(,)?) => {
        if $crate::planted::is_planted($bug) { $broken } else { $normal }
    };
}

/// The place in which the ordinary tests of a crate plant its bugs: the thread on which one runs
/// has the bug, and no other.
pub type Ground<B> = LocalKey<Cell<Option<B>>>;

/// `test` fails with the bug planted on this thread, and says `how`.
///
/// # Panics
/// It does not fail, or says something else.
pub fn must_be_found<B: Copy + Debug + 'static>(
    ground: &'static Ground<B>,
    bug: B,
    how: &str,
    test: impl FnOnce(),
) {
    must_fail(&format!("{bug:?}"), how, || {
        // Also if the test panics.
        struct Uproot<B: 'static>(&'static Ground<B>);
        impl<B: 'static> Drop for Uproot<B> {
            fn drop(&mut self) {
                self.0.take();
            }
        }
        ground.set(Some(bug));
        let _uproot = Uproot(ground);
        test();
    });
}

/// `test` fails for the sake of `what`, and says `how`.
///
/// # Panics
/// It does not fail, or says something else.
pub fn must_fail(what: &str, how: &str, test: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(test)) else { panic!("{what} was not found") };
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(said.contains(how), "{what} failed in another way: {said}");
    println!("{what}: {said}");
}

#[cfg(any(loom, shuttle))]
mod switch {
    use std::any::Any;
    use std::cell::RefCell;
    use std::fmt::Debug;

    use super::must_fail;
    use crate::atomic::Ordering;

    // Both checkers run all threads of a model on one thread of the operating system.
    thread_local! {
        static PLANTED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }

    /// `model` fails with the bug planted, and says `how`.
    ///
    /// # Panics
    /// It does not fail, or says something else.
    pub fn model_must_find<B: Any + Debug>(bug: B, how: &str, model: impl FnOnce()) {
        struct Uproot;
        impl Drop for Uproot {
            fn drop(&mut self) {
                PLANTED.set(None);
            }
        }
        must_fail(&format!("{bug:?}"), how, || {
            let _uproot = Uproot;
            PLANTED.set(Some(Box::new(bug)));
            model();
        });
    }

    /// Whether this bug is planted.
    pub fn is_planted<B: Any + PartialEq>(bug: B) -> bool {
        PLANTED.with_borrow(|planted| {
            planted.as_ref().and_then(|planted| planted.downcast_ref()) == Some(&bug)
        })
    }

    /// `order`, unless the bug is planted that leaves it out.
    pub fn relaxed_if<B: Any + PartialEq>(bug: B, order: Ordering) -> Ordering {
        if is_planted(bug) { Ordering::Relaxed } else { order }
    }
}

#[cfg(any(loom, shuttle))]
pub use switch::{is_planted, model_must_find, relaxed_if};

/// Whether this bug is planted: only models plant any.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub const fn is_planted<B: Copy>(_bug: B) -> bool {
    false
}

/// `order`, unless the bug is planted that leaves it out: only models plant any.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub const fn relaxed_if<B: Copy>(
    _bug: B,
    order: crate::atomic::Ordering,
) -> crate::atomic::Ordering {
    order
}
