//! Atomics and fences: the standard library's, or those of the checker that is switched on.

#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering,
};

#[cfg(loom)]
loom::lazy_static! {
    /// A location that all sequentially consistent fences of an execution touch.
    static ref FENCES: AtomicUsize = AtomicUsize::new(0);
}

/// A fence, whose place in the order of all such fences loom explores.
///
/// Loom's own fence is glued to the operation before it: another thread never runs in between. And
/// two fences do not count as depending on each other, so executions that differ only in their
/// order are skipped. Touching one location makes them differ. It synchronizes nothing that loom
/// does not take these fences to synchronize anyway.
#[cfg(loom)]
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        FENCES.fetch_add(0, Ordering::Relaxed);
    }
    loom::sync::atomic::fence(order);
}

/// Makes `FENCES` before there are threads: the thread that makes it synchronizes with all threads
/// that touch it.
#[cfg(loom)]
pub(crate) fn prepare_fences() {
    let _: &AtomicUsize = &FENCES;
}

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};
