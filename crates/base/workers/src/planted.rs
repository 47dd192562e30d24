//! A bug that models of those above plant to show that it would be found; nothing outside of them.

pub(crate) use sync::planted::is_planted;

/// A way to break a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Who waits for a task looks how many have ended after it has asked whether it may go on: one that ends in
    /// between is waited for.
    EndedUnseen,
}
