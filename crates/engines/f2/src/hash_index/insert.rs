//! Two-phase insert: a tag never gets two entries.

use std::ptr;

use sync::atomic::{AtomicU64, Ordering, fence};

use super::bucket::{Bucket, Control};
use super::chain::Chain;
use super::entry::Entry;
use super::slot::Slot;
use super::{HashIndex, LogAddress};
use crate::planted::{Planted, mutant};
use crate::spin_wait::SpinWait;

/// Result of a look through a bucket's lines.
enum Look<'a> {
    /// The chain's entry.
    Found(Slot<'a>),
    /// The chain's entry is being moved, or another thread is about to make one.
    Busy,
    /// Neither; and this slot is free.
    Free(&'a AtomicU64),
    /// Neither, and no slot is free; the last line.
    Full(Bucket<'a>),
}

/// An inserter has put its tentative entry and looked around.
enum Verdict {
    /// It has the tag for itself.
    Alone,
    /// Another one has the tag, or has precedence for it; or the bucket is split or trimmed
    /// meanwhile.
    GiveWay,
}

impl HashIndex {
    /// The entry of `chain`, made if there is none.
    pub(super) fn find_or_create_chain(&self, chain: Chain) -> Slot<'_> {
        let mut spin_wait = SpinWait::new();
        loop {
            let (level, number) = self.resolve(chain);
            let bucket = self.table.bucket(number);
            let control = bucket.control();
            if control.level() != level {
                continue;
            }
            match self.look_for_room(bucket, control, chain.tag) {
                Look::Found(slot) => return slot,
                Look::Busy => spin_wait.wait(),
                // I5, I9: nothing new in a bucket that is being split or trimmed.
                _ if control.is_locked() => spin_wait.wait(),
                Look::Free(slot) => {
                    if let Some(slot) = self.insert(bucket, control, chain.tag, slot) {
                        self.entries.add(number, 1);
                        return slot;
                    }
                    spin_wait.wait();
                }
                Look::Full(last) => self.append_line(last),
            }
        }
    }

    fn look_for_room<'a>(&'a self, bucket: Bucket<'a>, control: Control, tag: u16) -> Look<'a> {
        let mut free = None;
        let mut last = bucket;
        for line in self.lines(bucket, control) {
            last = line;
            for place in line.entries() {
                let entry = Entry::load(place);
                if entry == Entry::FREE {
                    free = free.or(Some(place));
                } else if entry.is_for(tag) {
                    return if entry.is_occupied() {
                        Look::Found(Slot::new(place, entry))
                    } else {
                        Look::Busy
                    };
                }
            }
        }
        free.map_or(Look::Full(last), Look::Free)
    }

    /// Takes the free slot `own` for `tag`, in two phases. Nothing if another thread took it, or
    /// the caller has to withdraw: it starts over.
    fn insert<'a>(
        &'a self,
        bucket: Bucket<'a>,
        seen: Control,
        tag: u16,
        own: &'a AtomicU64,
    ) -> Option<Slot<'a>> {
        let made = Entry::occupied(tag, LogAddress::NONE);
        if !Entry::FREE.replace(Entry::tentative(tag), own) {
            return None;
        }
        // [F1]
        mutant!(Planted::NoFenceInInsert, fence(Ordering::SeqCst), ());
        let look = || self.look_around(bucket, seen, tag, own);
        match mutant!(Planted::SinglePhase, look(), Verdict::Alone) {
            Verdict::Alone => {
                made.store(own);
                Some(Slot::new(own, made))
            }
            Verdict::GiveWay => {
                Entry::FREE.store(own);
                None
            }
        }
    }

    fn look_around(&self, bucket: Bucket<'_>, seen: Control, tag: u16, own: &AtomicU64) -> Verdict {
        let control = bucket.control();
        let is_same = mutant!(Planted::TrimsUncounted, control.is_as(seen), !control.is_locked());
        if mutant!(Planted::NoSecondLook, !is_same, false) {
            return Verdict::GiveWay;
        }
        let mut behind_own = false;
        for place in self.lines(bucket, control).flat_map(Bucket::entries) {
            if ptr::eq(place, own) {
                behind_own = true;
                continue;
            }
            let mut spin_wait = SpinWait::new();
            loop {
                let entry = Entry::load(place);
                if !entry.is_for(tag) {
                    break;
                }
                if !(behind_own && entry.is_tentative()) {
                    return Verdict::GiveWay;
                }
                // Two inserters at the same time: the one further back withdraws, unless it came
                // too early to see us.
                spin_wait.wait();
            }
        }
        Verdict::Alone
    }

    /// Links an overflow bucket behind the last line, unless another thread does so, the line
    /// leaves the chain, or a split or trim begins.
    fn append_line(&self, last: Bucket<'_>) {
        let control = last.control();
        if control.overflow() != 0 || control.is_locked() {
            return;
        }
        let (number, _) = self.overflow.take();
        if !last.change(control, control.with_overflow(number)) {
            self.overflow.release(number);
        }
    }
}
