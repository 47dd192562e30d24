//! Addresses that no life of the log has used.
//!
//! A gap is the rest of a segment in which a life ended, since the next one continues in a segment
//! of its own. Gaps take no space, and nothing in them lives or is dead.

use crate::address::LogAddress;

/// All gaps of a log at the time of its opening; a life makes none of its own.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// In their order.
    gaps: Box<[Gap]>,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    from: LogAddress,
    to: LogAddress,
    /// Bytes of those before it.
    before: u64,
}

impl Gaps {
    /// The gaps given, each from the first to the second address, in their order.
    pub(super) fn new(gaps: impl IntoIterator<Item = (LogAddress, LogAddress)>) -> Self {
        let mut before = 0;
        let gap = |(from, to): (LogAddress, LogAddress)| {
            let gap = Gap { from, to, before };
            before += to.get() - from.get();
            gap
        };
        Self { gaps: gaps.into_iter().filter(|(from, to)| from < to).map(gap).collect() }
    }

    /// Bytes of the gaps below an address.
    fn below(&self, address: LogAddress) -> u64 {
        let next = self.gaps.partition_point(|gap| gap.from < address);
        let Some(last) = next.checked_sub(1).map(|last| self.gaps[last]) else { return 0 };
        last.before + (address.min(last.to).get() - last.from.get())
    }

    /// Bytes between two addresses that are in no gap.
    pub(crate) fn bytes_between(&self, from: LogAddress, to: LogAddress) -> u64 {
        // The caller may have read the first after the second.
        let all = to.get().saturating_sub(from.get());
        all.saturating_sub(self.below(to).saturating_sub(self.below(from)))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
