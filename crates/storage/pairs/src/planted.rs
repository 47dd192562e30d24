//! Bugs that models plant to show that they would be found; nothing outside of them.

/// A way to break the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// What a get found is kept whatever has become of the state that it looked into.
    OldKept,
    /// A commit does not forbid keeping before it forgets.
    KeptBesideCommit,
}
