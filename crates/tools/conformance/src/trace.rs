//! A running hash of all that was done and seen, to compare a run with its replay.

/// The events of a run, as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace(u64);

impl Trace {
    /// Adds an event.
    pub(crate) fn note(&mut self, event: &[u8]) {
        self.0 = codec::hash64(self.0, event);
    }

    /// Returns the number.
    pub fn hash(self) -> u64 {
        self.0
    }
}
