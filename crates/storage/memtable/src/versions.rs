//! The versions of one memtable, in a skip list.

use std::ops::Deref;

use arena::skip_list::SkipList;
use codec::SeqNo;
use engine::{Op, Reservation};

use crate::head::{Gate, Head};

/// A memtable's versions, and its head.
#[derive(Debug)]
pub struct Versions {
    /// Before the entries: its bytes are released when they leave their memory to others.
    head: Head,
    entries: SkipList,
}

impl Versions {
    /// Returns a memtable with this head, whose versions go into `entries`.
    pub fn new(head: Head, entries: SkipList) -> Self {
        Self { head, entries }
    }

    /// Returns the versions.
    #[inline]
    pub fn entries(&self) -> &SkipList {
        &self.entries
    }

    /// Returns the number of versions. A version that had no room for the one that replaced it
    /// counts too.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no versions.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the right to write; `None` if the memtable is sealed, unless `also_sealed`.
    #[inline]
    pub fn try_enter(&self, also_sealed: bool) -> Option<Entered<'_>> {
        let gate = self.head.gate();
        (!gate.is_sealed() || also_sealed).then_some(Entered { versions: self, _gate: gate })
    }

    /// Moves the floor to `visible()` if there are no versions, and returns whether that was so.
    pub fn lift_if_empty(&self, visible: impl FnOnce() -> SeqNo) -> bool {
        self.head.lift_if(|| self.is_empty(), visible)
    }

    /// Calls `each` with each key, once or for each of its versions.
    pub fn each_key(&self, each: &mut dyn FnMut(&[u8])) {
        let mut key = Vec::new();
        self.entries.iter().for_each(|entry| {
            entry.read_key(&mut key);
            each(&key);
        });
    }
}

/// The right to write to a memtable, which is not sealed meanwhile.
#[derive(Debug)]
pub struct Entered<'a> {
    versions: &'a Versions,
    _gate: Gate<'a>,
}

impl Entered<'_> {
    /// Adds the version that `op` makes, in memory that was reserved for it. A version that is
    /// already there stays (replay).
    #[inline]
    pub fn insert(&self, op: &Op<'_>, seqno: SeqNo, room: &mut Reservation<'_>) {
        self.versions.head.note_write(seqno);
        if self.versions.entries.insert(op.key(), seqno.get(), op.value()) {
            let bytes = SkipList::entry_bytes(op.key().len(), op.value().map_or(0, <[u8]>::len));
            self.versions.head.note_entry(bytes, op.value().is_none(), room);
        }
    }

    /// Does the same, but the version takes the place of the one before it if `is_unseen` says so
    /// of that one's number. A version that takes the place of a long one keeps its length, for
    /// which `room` may not suffice: the rest is charged.
    #[inline]
    pub fn put(
        &self,
        op: &Op<'_>,
        seqno: SeqNo,
        is_unseen: impl FnOnce(u64) -> bool,
        room: &mut Reservation<'_>,
    ) {
        self.versions.head.note_write(seqno);
        let bytes = self.versions.entries.put(op.key(), seqno.get(), op.value(), is_unseen);
        self.versions.head.note_entry(bytes, op.value().is_none(), room);
    }
}

impl Deref for Versions {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        &self.head
    }
}
