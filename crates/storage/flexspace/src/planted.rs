//! Mutants of a space that models find, one line of the product each.
//! They are in `docs/reliability/planted-flex.md`. Outside of models nothing is planted.

/// A way to break a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A snapshot is counted once the state may have changed that it is of.
    PinnedLate,
    /// A sync whose changes another one has taken returns before that has made them durable.
    SyncUnwaited,
    /// A checkpoint cuts the tree once others may have changed it whose records the next log has,
    /// too.
    CutLate,
    /// A word of a segment's buffer lacks its bytes while more are put into it.
    WordInSteps,
}
