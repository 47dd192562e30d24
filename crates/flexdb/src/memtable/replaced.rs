//! Versions that a commit need not write, as a younger memtable has newer ones of their keys (memtable, M6).
//!
//! Both memtables are walked once, side by side.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::AsTarget;

use super::{IsSeen, Memtable};

impl Memtable {
    /// Marks what `younger` replaces, and answers how many versions that were not marked before. The
    /// younger one may be written to meanwhile.
    pub(crate) fn mark_replaced(&self, younger: &Self, is_seen: IsSeen<'_>) -> u64 {
        let (mut ours, mut theirs) = (self.entries.front(), younger.entries.front());
        let mut count = 0;
        while let (Some(old), Some(new)) = (&ours, &theirs) {
            let (older, newer) = (old.key().target(), new.key().target());
            match older.key.cmp(newer.key) {
                Less => ours = old.next(),
                Greater => theirs = new.next(),
                Equal => {
                    if older.seqno < newer.seqno && !is_seen(older.seqno, newer.seqno) {
                        self.replaced_by.fetch_max(newer.seqno.get(), Relaxed);
                        count += u64::from(!old.value().is_replaced.swap(true, Relaxed));
                    }
                    (ours, theirs) = (old.next(), new.next());
                }
            }
        }
        count
    }

    /// The journal has to reach this before what was marked is left out; zero if nothing was.
    pub(crate) fn replaced_by(&self) -> SeqNo {
        SeqNo::new(self.replaced_by.load(Relaxed))
    }
}
