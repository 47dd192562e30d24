//! The present state of a store.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use sync::Mutex;

use super::State;
use crate::scan::OpenCursors;

/// The present state, the lock of the thread that replaces it, and the older states in use.
pub(crate) struct PresentState {
    present: ArcSwap<State>,
    /// Held by a thread that replaces the state. It is held briefly: nothing is read or written
    /// under it.
    pub(crate) install: Mutex<()>,
    /// The states and partitions that cursors walk over.
    pub(crate) open_cursors: OpenCursors,
}

impl PresentState {
    /// Makes the part of a store that begins with `state`.
    pub(crate) fn new(state: State) -> Self {
        Self {
            present: ArcSwap::from_pointee(state),
            install: Mutex::default(),
            open_cursors: OpenCursors::default(),
        }
    }

    /// Returns the present state, for a short use.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<State>> {
        self.present.load()
    }

    /// Returns the present state, for a use of any length.
    #[inline]
    pub(crate) fn load_full(&self) -> Arc<State> {
        self.present.load_full()
    }

    /// Replaces the state. The caller holds `install`.
    pub(crate) fn store(&self, next: Arc<State>) {
        self.present.store(next);
    }
}
