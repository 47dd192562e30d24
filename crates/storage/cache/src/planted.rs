//! Bugs that models plant to show that they would be found; nothing outside of them.

/// A way to break the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A pair that a get found is kept, although the state that it looked into may have changed.
    OldKept,
    /// A commit does not forbid keeping before it forgets.
    KeptBesideCommit,
}
