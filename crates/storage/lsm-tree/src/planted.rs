//! Bugs that tests plant to show that they would be found (`docs/reliability/planted-lsm-tree.md`).
//! Models and tests plant them; outside of models and tests there are none.

#[cfg(all(feature = "planted", not(shuttle)))]
pub(crate) use in_tests::is_planted;
#[cfg(all(feature = "planted", not(shuttle)))]
pub use in_tests::must_be_found;
#[cfg(any(not(feature = "planted"), shuttle))]
pub(crate) use sync::planted::is_planted;

/// A way to break a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A job of Level 0 leaves out tables older than those it has.
    OldestLeft,
    /// A flush or a compaction keeps only the newest version of each key.
    SnapshotsForgotten,
    /// A table is not synced before the manifest names it.
    TableUnsynced,
    /// The names of new tables are not made durable before the manifest has them.
    NamesUnsynced,
    /// A compaction drops a tombstone that hides an older version in a level below.
    BelowForgotten,
}

/// On the thread that plants it.
#[cfg(all(feature = "planted", not(shuttle)))]
mod in_tests {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// `test` fails with the bug planted, and says `how`.
    ///
    /// # Panics
    /// It does not fail, or says something else.
    pub fn must_be_found(bug: Planted, how: &str, test: impl FnOnce()) {
        sync::planted::must_be_found(&PLANTED, bug, how, test);
    }

    /// Whether this bug is planted.
    pub(crate) fn is_planted(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }
}
