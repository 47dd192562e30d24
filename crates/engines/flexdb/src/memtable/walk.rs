//! Walks over a memtable: the newest version of each key that a reader sees or a commit takes.

use std::cmp::Ordering;
use std::ops::Bound;

use arena::skip_list::Entry;
use codec::SeqNo;

use super::Memtable;

/// A key's version in a memtable, copied.
#[derive(Debug)]
pub(crate) struct Update {
    /// The key, and the value.
    bytes: Vec<u8>,
    key_bytes: usize,
    /// Whether it is a value, rather than a tombstone.
    has_value: bool,
}

impl Update {
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    /// Its value; none for a tombstone.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.has_value.then(|| &self.bytes[self.key_bytes..])
    }

    /// A copy of an entry in `bytes`, whose content is dropped.
    fn copy_of(entry: Entry<'_>, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        // The copy of a value may write up to a word behind its end.
        let value_bytes = entry.value_len().unwrap_or(0);
        bytes.reserve_exact(entry.key_len() + value_bytes + size_of::<u64>());
        entry.append_key(&mut bytes);
        let (_, has_value) = entry.append_version(&mut bytes);
        Self { bytes, key_bytes: entry.key_len(), has_value }
    }
}

/// The key of an update, and the bytes of its value, which was not copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<'a> {
    pub(crate) key: &'a [u8],
    /// 0 for a tombstone.
    pub(crate) value_bytes: usize,
}

/// A walk over the keys of a memtable, either way: the newest version of each above `above` and at
/// or below `upto`.
///
/// A caller that walks over a memtable while it is written to holds a pin at `upto`, or takes the
/// newest version whatever it is. So the version that is copied is the one that was found
/// (memtable, M5).
pub(crate) struct Walker<'a> {
    memtable: &'a Memtable,
    above: SeqNo,
    upto: SeqNo,
    /// Whether it is a commit's: replaced versions do not count (memtable, M6), and values are
    /// copied when they are taken.
    is_of_commit: bool,
    /// Its position, and a copy of the update there.
    entry: Option<Entry<'a>>,
    here: Option<Update>,
    /// Memory for the next copy.
    spare: Vec<u8>,
}

impl<'a> Walker<'a> {
    /// A walk without a position.
    pub(crate) fn new(memtable: &'a Memtable, above: SeqNo, upto: SeqNo) -> Self {
        let (entry, here, spare) = (None, None, Vec::new());
        Self { memtable, above, upto, is_of_commit: false, entry, here, spare }
    }

    /// The same for a commit, over versions of a sealed memtable that are not marked as replaced.
    /// It walks forward alone.
    pub(crate) fn of_commit(memtable: &'a Memtable, above: SeqNo, upto: SeqNo) -> Self {
        Self { is_of_commit: true, ..Self::new(memtable, above, upto) }
    }

    /// Returns the update at its position. For a commit it has only the key: no value, and no sign
    /// of one.
    pub(crate) fn here(&self) -> Option<&Update> {
        self.here.as_ref()
    }

    /// Returns what a walk of any kind knows of the update at its position.
    pub(crate) fn ahead(&self) -> Option<Ahead<'_>> {
        let (here, entry) = (self.here.as_ref()?, self.entry?);
        Some(Ahead { key: here.key(), value_bytes: entry.value_len().unwrap_or(0) })
    }

    /// Takes the update at its position, and moves to the next key.
    pub(crate) fn take(&mut self) -> Option<Update> {
        let mut update = self.here.take()?;
        if self.is_of_commit {
            let whole = Update::copy_of(self.entry?, Vec::new());
            // The next key is copied there.
            self.spare = std::mem::replace(&mut update, whole).bytes;
        }
        self.find_next();
        Some(update)
    }

    /// Moves to the next key.
    pub(crate) fn take_one(&mut self) {
        if let Some(update) = self.here.take() {
            self.spare = update.bytes;
            self.find_next();
        }
    }

    /// Goes to the first key at or behind `key`, or behind it.
    pub(crate) fn seek(&mut self, key: Bound<&[u8]>) {
        let entries = self.memtable.entries();
        let first = match key {
            Bound::Included(key) => entries.seek(key, SeqNo::MAX.get()),
            Bound::Excluded(key) => entries.seek(key, SeqNo::ZERO.get()),
            Bound::Unbounded => entries.first(),
        };
        self.find_first(first, None);
    }

    fn find_next(&mut self) {
        let next = self.entry.and_then(|entry| self.memtable.entries().next(entry));
        self.find_first(next, self.entry);
    }

    /// Moves to the first version from `entry` on that counts. Skips the versions of the key of
    /// `passed`.
    fn find_first(&mut self, mut entry: Option<Entry<'a>>, mut passed: Option<Entry<'a>>) {
        self.here = None;
        while let Some(found) = entry {
            let is_passed = passed.is_some_and(|it| it.compare_keys(&found) == Ordering::Equal);
            if !is_passed && found.number() <= self.upto.get() {
                if self.counts(&found) && !(self.is_of_commit && found.is_marked()) {
                    self.move_to(found);
                    return;
                }
                // Older versions of this key do not count either.
                passed = Some(found);
            }
            entry = self.memtable.entries().next(found);
        }
    }

    fn counts(&self, entry: &Entry<'_>) -> bool {
        entry.number() > self.above.get()
    }

    fn move_to(&mut self, entry: Entry<'a>) {
        let mut bytes = std::mem::take(&mut self.spare);
        self.entry = Some(entry);
        self.here = Some(if self.is_of_commit {
            entry.read_key(&mut bytes);
            Update { bytes, key_bytes: entry.key_len(), has_value: false }
        } else {
            Update::copy_of(entry, bytes)
        });
    }

    /// Goes to the last key before `key`, or at it.
    pub(crate) fn seek_back(&mut self, key: Bound<&[u8]>) {
        let entries = self.memtable.entries();
        let mut last = match key {
            Bound::Included(key) => entries.seek_before(key, SeqNo::ZERO.get()),
            Bound::Excluded(key) => entries.seek_before(key, SeqNo::MAX.get()),
            Bound::Unbounded => entries.last(),
        };
        self.here = None;
        let mut key = std::mem::take(&mut self.spare);
        while let Some(oldest) = last {
            // The newest of this key that counts is somewhere before it.
            oldest.read_key(&mut key);
            let found = entries.seek(&key, self.upto.get());
            let of_key = found.filter(|it| it.compare_keys(&oldest) == Ordering::Equal);
            if let Some(found) = of_key.filter(|found| self.counts(found)) {
                self.spare = key;
                self.move_to(found);
                return;
            }
            last = entries.seek_before(&key, SeqNo::MAX.get());
        }
    }

    /// Moves back to the key before its position.
    pub(crate) fn step_back(&mut self) {
        if let Some(here) = self.here.take() {
            self.seek_back(Bound::Excluded(here.key()));
            self.spare = here.bytes;
        }
    }
}
