//! The present state of a store.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use sync::{Mutex, MutexGuard};

use crate::state::State;

/// The state that readers load, and the lock under which it is replaced.
pub(crate) struct StateCell {
    /// None once the store is closed.
    present: ArcSwapOption<State>,
    /// Held to replace the state. Short: nothing is read or written under it.
    install: Mutex<()>,
}

impl StateCell {
    pub(crate) fn new(state: State) -> Self {
        Self { present: ArcSwapOption::from_pointee(state), install: Mutex::default() }
    }

    /// Returns the state for a moment: the guard keeps a slot of the swap.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Option<Arc<State>>> {
        self.present.load()
    }

    /// Returns the state; none if the store is closed.
    #[inline]
    pub(crate) fn load_full(&self) -> Option<Arc<State>> {
        self.present.load_full()
    }

    /// Keeps other threads from replacing the state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.install.lock()
    }

    /// Replaces the state. The caller holds the lock.
    pub(crate) fn replace(&self, next: State) {
        self.present.store(Some(Arc::new(next)));
    }

    /// Takes the state away when the store is closed. The caller holds the lock.
    pub(crate) fn clear(&self) {
        self.present.store(None);
    }
}
