//! Mutants of the group commit that models under shuttle find (`commit/tests.rs`). The others are
//! patches in `reliability/mutants/journal`.

/// A fault that this journal does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A sync publishes all bytes that are written at its end instead of those at its beginning.
    PublishedTooMuch,
    /// The end of a sync wakes no thread to lead the next.
    WakeForgotten,
    /// A thread that has seen the end of a write while spinning for it falls asleep nevertheless.
    EndUnheeded,
}
