//! Bugs that models of engines plant to show that they would be found; nothing outside of them.

/// A way to break the admission of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A reservation that must not wait waits for room.
    WaitedAnyway,
    /// Room that returns wakes no writer.
    ReturnedUnseen,
}
