//! Stored values that were read for a command before it runs alone.
//!
//! Keys and values are in one buffer, so that a short transaction costs two allocations.

use std::ops::Range;

use super::DbIndex;

/// A key that a command reads.
#[derive(Debug)]
struct Entry {
    db: DbIndex,
    key: Range<usize>,
    /// How often the command reads it.
    uses: usize,
    value: Value,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Unread,
    Absent,
    At(Range<usize>),
}

/// Keys that a command reads, and the values that were read.
#[derive(Debug, Default)]
pub(crate) struct Known {
    bytes: Vec<u8>,
    /// In the order of databases and keys, each once, after [`Known::sort`].
    entries: Vec<Entry>,
    /// Bytes of keys: the front of `bytes`.
    key_bytes: usize,
}

fn slice<'a>(bytes: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    bytes.get(range.clone()).unwrap_or_default()
}

impl Known {
    /// Adds a key that the command reads.
    pub(crate) fn want(&mut self, db: DbIndex, key: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key = begin..self.bytes.len();
        self.entries.push(Entry { db, key, uses: 1, value: Value::Unread });
    }

    /// Ends the list of keys. Values are set and found after it.
    pub(crate) fn sort(&mut self) {
        let Self { bytes, entries, key_bytes } = self;
        *key_bytes = bytes.len();
        let place = |entry: &Entry| (entry.db, slice(bytes, &entry.key));
        entries.sort_unstable_by(|one, other| place(one).cmp(&place(other)));
        entries.dedup_by(|later, earlier| {
            let is_same = place(later) == place(earlier);
            earlier.uses += usize::from(is_same) * later.uses;
            is_same
        });
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the key number `index`, and how often the command reads it.
    pub(crate) fn key(&self, index: usize) -> Option<(DbIndex, &[u8], usize)> {
        let entry = self.entries.get(index)?;
        Some((entry.db, slice(&self.bytes, &entry.key), entry.uses))
    }

    /// Sets the value of the key number `index`.
    pub(crate) fn set(&mut self, index: usize, value: Option<&[u8]>) {
        match value {
            Some(value) => self.set_by(index, |bytes| bytes.extend_from_slice(value)),
            None => self.set_value(index, Value::Absent),
        }
    }

    /// Sets the value of the key number `index` to the bytes that `write` appends.
    pub(crate) fn set_by(&mut self, index: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        write(&mut self.bytes);
        self.set_value(index, Value::At(begin..self.bytes.len()));
    }

    fn set_value(&mut self, index: usize, value: Value) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.value = value;
        }
    }

    /// Drops all values.
    pub(crate) fn forget_values(&mut self) {
        self.bytes.truncate(self.key_bytes);
        self.entries.iter_mut().for_each(|entry| entry.value = Value::Unread);
    }

    /// Returns the value of a key if it was read, which is `None` if the key is absent.
    pub(crate) fn get(&self, db: DbIndex, key: &[u8]) -> Option<Option<&[u8]>> {
        let place = |entry: &Entry| (entry.db, slice(&self.bytes, &entry.key)).cmp(&(db, key));
        let index = self.entries.binary_search_by(place).ok()?;
        match &self.entries.get(index)?.value {
            Value::Unread => None,
            Value::Absent => Some(None),
            Value::At(range) => Some(Some(slice(&self.bytes, range))),
        }
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests;
