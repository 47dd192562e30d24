//! Versions that a commit need not write, as a younger memtable has newer ones (memtable, M6).
//!
//! Both memtables are walked once, side by side.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;

use super::{IsSeen, Memtable};

impl Memtable {
    /// Marks the versions that `younger` replaces, and returns how many were not marked before.
    /// This memtable is sealed; the younger one may be written to meanwhile.
    pub(crate) fn mark_replaced(&self, younger: &Self, is_seen: IsSeen<'_>) -> u64 {
        let (mut ours, mut theirs) = (self.entries().first(), younger.entries().first());
        let mut count = 0;
        while let (Some(old), Some(new)) = (ours, theirs) {
            let order = old.compare_keys(&new);
            if order == Equal {
                let (older, newer) = (SeqNo::new(old.number()), SeqNo::new(new.number()));
                if older < newer && !is_seen(older, newer) {
                    self.replaced_by.fetch_max(newer.get(), Relaxed);
                    count += u64::from(old.mark());
                }
            }
            if matches!(order, Less | Equal) {
                ours = self.entries().next(old);
            }
            if matches!(order, Greater | Equal) {
                theirs = younger.entries().next(new);
            }
        }
        count
    }

    /// Returns the number that the journal has to reach before marked versions are left out; zero
    /// if none were marked.
    pub(crate) fn replaced_by(&self) -> SeqNo {
        SeqNo::new(self.replaced_by.load(Relaxed))
    }
}
