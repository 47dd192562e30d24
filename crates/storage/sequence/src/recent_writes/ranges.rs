//! Notes of ranges that were deleted.

use std::collections::VecDeque;

use codec::SeqNo;

use super::WriteConflict;
use crate::KeyRange;

/// Bytes of a note in addition to its bounds.
const NOTE_BYTES: usize = 64;

/// Ranges, the one that was noted first in front.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    notes: VecDeque<Note>,
    bytes: usize,
    /// The newest write that was forgotten for lack of room.
    forgotten: u64,
}

#[derive(Debug)]
struct Note {
    keyspace: u32,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    seqno: u64,
}

impl Note {
    fn bytes(&self) -> usize {
        NOTE_BYTES + self.start.len() + self.end.as_ref().map_or(0, Vec::len)
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Returns a key that is in both, if there may be one.
    fn common_key(&self, range: &KeyRange) -> Option<Vec<u8>> {
        let (start, end) = range.half_open()?;
        let first = start.max(self.start.clone());
        (self.covers(&first) && end.is_none_or(|end| first < end)).then_some(first)
    }
}

impl Ranges {
    /// Notes that a range is about to be deleted. Those up to `oldest` are of no use any more.
    pub(super) fn note(
        &mut self,
        keyspace: u32,
        (start, end): (&[u8], Option<&[u8]>),
        seqno: SeqNo,
        (oldest, bytes_max): (u64, usize),
    ) {
        let (start, end) = (start.to_vec(), end.map(<[u8]>::to_vec));
        let note = Note { keyspace, start, end, seqno: seqno.get() };
        self.bytes += note.bytes();
        self.notes.push_back(note);
        while let Some(note) = self.notes.pop_front_if(|note| note.seqno <= oldest) {
            self.bytes -= note.bytes();
        }
        while self.bytes > bytes_max
            && let Some(note) = self.notes.pop_front()
        {
            self.bytes -= note.bytes();
            self.forgotten = self.forgotten.max(note.seqno);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks that no range with `key` was deleted since `moment`.
    pub(super) fn check_key(
        &self,
        keyspace: u32,
        key: &[u8],
        moment: SeqNo,
    ) -> Result<(), WriteConflict> {
        self.check(keyspace, moment, |note| note.covers(key).then(|| key.to_vec()))
    }

    /// Checks the same for all keys of `range`.
    pub(super) fn check_range(
        &self,
        keyspace: u32,
        range: &KeyRange,
        moment: SeqNo,
    ) -> Result<(), WriteConflict> {
        self.check(keyspace, moment, |note| note.common_key(range))
    }

    fn check(
        &self,
        keyspace: u32,
        moment: SeqNo,
        common: impl Fn(&Note) -> Option<Vec<u8>>,
    ) -> Result<(), WriteConflict> {
        let newer = |note: &&Note| note.keyspace == keyspace && note.seqno > moment.get();
        if let Some(key) = self.notes.iter().filter(newer).find_map(common) {
            return Err(WriteConflict::Written { key });
        }
        if self.forgotten > moment.get() { Err(WriteConflict::Forgotten) } else { Ok(()) }
    }
}
