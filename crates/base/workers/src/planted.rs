//! A bug that models of crates above plant to show that it would be found; nothing outside of them.

/// A way to break a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A thread that waits for a task counts the ended tasks after it has checked whether it may
    /// return: then it waits for one that ended in between.
    EndedUnseen,
}
