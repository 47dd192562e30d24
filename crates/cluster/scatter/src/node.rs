//! A file of a range, whatever its names are.

use std::sync::Arc;

use sync::Mutex;

use crate::changes::{Change, NodeId};
use crate::filling::Filling;
use crate::table::Table;

/// Bytes of the longest small file.
const SMALL_BYTES_MAX: u64 = 1 << 30;

/// A file.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// Held by a thread that appends to the journal, or finishes a table: it may wait for StoCs.
    pub(crate) turn: Mutex<()>,
    /// Held for a moment.
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
    Filling(Arc<Filling>),
    /// A table.
    Table(Arc<Table>),
}

/// A file of the write log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalFile {
    pub(crate) file: u64,
    pub(crate) length: u64,
    /// Whether the write log has it.
    pub(crate) is_begun: bool,
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
        Self { id, turn: Mutex::default(), content: Mutex::new(content) }
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

    /// Writes bytes, unless the file becomes too long. Returns whether it did.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > SMALL_BYTES_MAX {
            return false;
        }
        let end = end as usize;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if let Some(place) = self.bytes.get_mut(offset as usize..end) {
            place.copy_from_slice(bytes);
        }
        self.length = self.length.max(end as u64);
        true
    }

    /// Changes the length, if a small file may be as long. Returns whether it did.
    pub(crate) fn set_length(&mut self, length: u64) -> bool {
        if length > SMALL_BYTES_MAX {
            return false;
        }
        self.bytes.truncate(length as usize);
        self.length = length;
        true
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
