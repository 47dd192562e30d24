//! Bugs that models plant to show that they would be found.
//!
//! The models are in `tests/loom.rs` and `tests/shuttle.rs`. Outside of models nothing is planted.

/// A way to break the skip list, or the pool of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(loom, shuttle)), expect(unreachable_pub, reason = "models name it"))]
pub enum Planted {
    /// S1 is relaxed: a reader that follows a link may find a node that is not written.
    RelaxedLink,
    /// S2 the other way round: a search may go down in a node that is not linked there.
    TopLinkedFirst,
    /// S3 without the exchange: a node that was linked in between is lost.
    LinkStored,
    /// S3 with the link of the first try: the same.
    LinkNotSetAgain,
    /// S4 without the second look.
    SameNotSeen,
    /// P3 the other way round: a slot is handed out again while a piece is in it.
    PieceLeftLate,
    /// The first fence of R2 is left out: a reader may meet a part of a replacement, and not know.
    NoFenceInReplace,
    /// The second one is left out: the same.
    NoFenceInRead,
    /// R2 without the second look at the state.
    NotLookedAgain,
    /// R2 is relaxed: a reader may find the state of a replacement, and not all of its words.
    RelaxedReplace,
}
