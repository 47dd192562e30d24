//! A file of a range, whatever its names are.

use std::sync::Arc;

use sync::Mutex;

use crate::changes::{Change, NodeId};
use crate::table::{Filling, Table};

/// A file.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) content: Mutex<Content>,
}

/// The content of a file, by the way in which it is stored.
#[derive(Debug)]
pub(crate) enum Content {
    /// In the manifest log.
    Small(Small),
    /// A file of the write log; none before the first write.
    Journal(Option<JournalFile>),
    /// A table that is being written.
    Filling(Filling),
    /// A table.
    Table(Arc<Table>),
}

/// A file of the write log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalFile {
    pub(crate) file: u64,
    pub(crate) length: u64,
}

/// A file whose bytes are in memory and in the manifest log.
#[derive(Debug, Default)]
pub(crate) struct Small {
    /// The bytes. Zeros follow up to the length.
    bytes: Vec<u8>,
    length: u64,
    /// Changes since the last sync.
    pub(crate) unsynced: Vec<Change>,
}

impl Node {
    pub(crate) fn new(id: NodeId, content: Content) -> Self {
        Self { id, content: Mutex::new(content) }
    }
}

impl Small {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `into` from `offset`, which is below the end.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let from = self.bytes.get(offset as usize..).unwrap_or_default();
        let (stored, zeros) = into.split_at_mut(from.len().min(into.len()));
        stored.copy_from_slice(from.get(..stored.len()).unwrap_or_default());
        zeros.fill(0);
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if let Some(place) = self.bytes.get_mut(offset as usize..end) {
            place.copy_from_slice(bytes);
        }
        self.length = self.length.max(end as u64);
    }

    pub(crate) fn set_length(&mut self, length: u64) {
        self.bytes.truncate(length as usize);
        self.length = length;
    }

    /// Returns its content as changes of an empty file.
    pub(crate) fn as_changes(&self, node: NodeId) -> Vec<Change> {
        let mut changes = vec![Change::Length { node, length: self.length }];
        if !self.bytes.is_empty() {
            changes.push(Change::Bytes { node, offset: 0, bytes: self.bytes.clone() });
        }
        changes
    }
}
