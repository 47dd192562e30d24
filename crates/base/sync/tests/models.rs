//! Models of the epoch protocol, each a few threads and a few steps, for both checkers.
//!
//! In all of them a reader looks at a *page* while it can be reached, and a writer unlinks the page
//! and has it taken away by an action. Taking away writes the page's cell, so that a reader that
//! still looks is a data race, which loom reports; it also clears a value, so that shuttle sees it.
#![expect(unsafe_code, reason = "the cells' accesses are what the models check")]

pub mod locks;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Unmodelled;

use thermocline_sync::atomic::{AtomicBool, Ordering};
use thermocline_sync::cell::UnsafeCell;
use thermocline_sync::epoch::{Epochs, Guard};
use thermocline_sync::thread::spawn;

/// Something that can be reached until it is unlinked, and looked at until it is taken away.
struct Page {
    unlinked: AtomicBool,
    whole: UnsafeCell<bool>,
    /// How often it was taken away. Not modelled, so that counting orders nothing.
    taken: Unmodelled,
}

// SAFETY: the protocol under test keeps reads and the write of `whole` apart; loom checks that.
unsafe impl Sync for Page {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Page {}

impl Page {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            unlinked: AtomicBool::new(false),
            whole: UnsafeCell::new(true),
            taken: Unmodelled::new(0),
        })
    }

    /// Reads the page as a protected thread does. Relaxed: only the protocol orders it.
    fn look(&self, _guard: &Guard<'_>) {
        if !self.unlinked.load(Ordering::Relaxed) {
            // Shuttle switches threads only at modelled operations: this is one.
            self.unlinked.load(Ordering::Relaxed);
            self.must_be_whole();
        }
    }

    /// Checks the page: a thread that has found it under its present protection may rely on it.
    fn must_be_whole(&self) {
        self.whole.with(|whole| {
            // SAFETY: reachable under protection, so not taken away.
            let whole = unsafe { *whole };
            assert!(whole, "the page was taken away under a reader");
        });
    }

    fn take_away(&self) {
        self.whole.with_mut(|whole| {
            // SAFETY: no thread that could reach it is protected any more.
            unsafe { *whole = false };
        });
        self.taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Unlinks the page and bumps the epoch.
    fn retire(self: &Arc<Self>, epochs: &Epochs) {
        self.unlinked.store(true, Ordering::Relaxed);
        let page = self.clone();
        epochs.bump_with(move || page.take_away());
    }

    /// Once every thread has left.
    fn must_be_taken_once(&self) {
        let taken = self.taken.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(taken, 1, "the action ran {taken} times");
    }
}

/// A reader without a participant, concurrent with a bump.
pub(crate) fn protect_against_bump() {
    let (epochs, page) = (Epochs::new(), Page::new());
    let reader = {
        let (epochs, page) = (epochs.clone(), page.clone());
        spawn(move || page.look(&epochs.protect()))
    };
    page.retire(&epochs);
    reader.join().expect("the reader ends");
    page.must_be_taken_once();
}

/// A reader that leaves and comes back, concurrent with a bump.
pub(crate) fn leaving_and_coming_back() {
    let (epochs, page) = (Epochs::new(), Page::new());
    let reader = {
        let (epochs, page) = (epochs.clone(), page.clone());
        spawn(move || {
            let participant = epochs.join();
            page.look(&participant.protect());
            page.look(&participant.protect());
        })
    };
    page.retire(&epochs);
    reader.join().expect("the reader ends");
    page.must_be_taken_once();
}

/// A reader that refreshes, with a nested guard on the way, concurrent with a bump.
pub(crate) fn refreshing_and_nesting() {
    let (epochs, page) = (Epochs::new(), Page::new());
    let reader = {
        let (epochs, page) = (epochs.clone(), page.clone());
        spawn(move || {
            let participant = epochs.join();
            let mut outer = participant.protect();
            let found = !page.unlinked.load(Ordering::Relaxed);
            {
                let mut inner = participant.protect();
                inner.refresh();
            }
            if found {
                // The inner guard's refresh must not have moved the outer one.
                page.must_be_whole();
            }
            outer.refresh();
            page.look(&outer);
        })
    };
    page.retire(&epochs);
    reader.join().expect("the reader ends");
    page.must_be_taken_once();
}

/// Two readers, so that a slot changes hands or the list of slots grows, concurrent with a bump.
pub(crate) fn threads_come_and_go() {
    let (epochs, page) = (Epochs::new(), Page::new());
    let readers = [(); 2].map(|()| {
        let (epochs, page) = (epochs.clone(), page.clone());
        spawn(move || {
            let participant = epochs.join();
            page.look(&participant.protect());
        })
    });
    page.retire(&epochs);
    for reader in readers {
        reader.join().expect("the reader ends");
    }
    page.must_be_taken_once();
}

/// Two bumps on two threads, concurrent with a reader: the drain list (of one entry) overflows, and
/// each drainer may run the other's action.
pub(crate) fn two_bumps() {
    let epochs = Epochs::new();
    let pages = [Page::new(), Page::new()];
    let [first, second] = pages.clone();
    let reader = {
        let (epochs, page) = (epochs.clone(), second.clone());
        spawn(move || page.look(&epochs.protect()))
    };
    let bumper = {
        let epochs = epochs.clone();
        spawn(move || second.retire(&epochs))
    };
    first.retire(&epochs);
    bumper.join().expect("the bumper ends");
    reader.join().expect("the reader ends");
    pages.iter().for_each(|page| page.must_be_taken_once());
}

/// One thread bumps twice while another is protected, so that the second action surely overflows.
pub(crate) fn drain_list_full() {
    let epochs = Epochs::new();
    let pages = [Page::new(), Page::new()];
    let reader = {
        let (epochs, pages) = (epochs.clone(), pages.clone());
        spawn(move || {
            let guard = epochs.protect();
            pages.iter().for_each(|page| page.look(&guard));
        })
    };
    pages.iter().for_each(|page| page.retire(&epochs));
    reader.join().expect("the reader ends");
    pages.iter().for_each(|page| page.must_be_taken_once());
}

/// The thread that bumps is protected itself; its own turn comes when it leaves.
pub(crate) fn bump_under_protection() {
    let (epochs, page) = (Epochs::new(), Page::new());
    let reader = {
        let (epochs, page) = (epochs.clone(), page.clone());
        spawn(move || page.look(&epochs.protect()))
    };
    {
        let guard = epochs.protect();
        page.look(&guard);
        page.retire(&epochs);
        assert_eq!(page.taken.load(std::sync::atomic::Ordering::Relaxed), 0, "still protected");
    }
    reader.join().expect("the reader ends");
    page.must_be_taken_once();
}
