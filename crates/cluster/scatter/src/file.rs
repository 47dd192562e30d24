//! Open files of a range.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use device::{Error, FailedOperation, File, Mode, Result, SyncKind};

use crate::changes::Change;
use crate::device::{error_of, not_supported, sync_error};
use crate::files::Files;
use crate::node::{Content, JournalFile, Node, Small};
use crate::place::Failure;
use crate::table::Table;

/// An open file.
#[derive(Debug)]
pub(crate) struct RangeFile {
    files: Arc<Files>,
    node: Arc<Node>,
    name: String,
    is_writable: bool,
}

/// An open file that is locked.
#[derive(Debug)]
pub(crate) struct LockFile {
    pub(crate) files: Arc<Files>,
    pub(crate) full: String,
    pub(crate) file: Arc<dyn File>,
}

impl RangeFile {
    pub(crate) fn new(files: Arc<Files>, node: Arc<Node>, name: &str, mode: Mode) -> Self {
        Self { files, node, name: name.to_owned(), is_writable: mode != Mode::Read }
    }

    /// Returns the table, if it is one.
    pub(crate) fn table(&self) -> Option<Arc<Table>> {
        match &*self.node.content.lock() {
            Content::Table(table) => Some(Arc::clone(table)),
            _ => None,
        }
    }

    fn check_end(&self, end: u64, length: u64) -> Result<()> {
        if end <= length {
            return Ok(());
        }
        Err(Error::UnexpectedEnd { name: self.name.clone(), end })
    }

    fn check_writable(&self) -> Result<()> {
        const BAD_DESCRIPTOR: i32 = 9;
        match self.is_writable {
            true => Ok(()),
            false => Err(Error::Io {
                operation: FailedOperation::Write,
                name: self.name.clone(),
                code: BAD_DESCRIPTOR,
            }),
        }
    }

    /// Appends to a file of the write log. Bytes that are there already may be written again.
    fn write_journal(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let failed = |error| {
            let failure = self.files.place.failure_of(error);
            error_of(failure, FailedOperation::Write, &self.name)
        };
        let _turn = self.node.turn.lock();
        let JournalFile { file, length, is_begun } = self.journal_file()?;
        if !is_begun {
            self.files.journal.begin_file(file).map_err(failed)?;
            self.change_journal(|journal| journal.is_begun = true);
        }
        if offset > length {
            return Err(not_supported(FailedOperation::Write, &self.name));
        }
        let known = (length - offset).min(bytes.len() as u64);
        let (known, new) = bytes.split_at(known as usize);
        if !known.is_empty() {
            let read = self.files.journal.read(file, offset, known.len() as u64);
            if read.map_err(failed)? != known {
                return Err(not_supported(FailedOperation::Write, &self.name));
            }
        }
        if !new.is_empty() {
            self.files.journal.append(file, length, new).map_err(failed)?;
            self.change_journal(|journal| journal.length += new.len() as u64);
        }
        Ok(())
    }

    /// Returns the file of the write log, which gets a number at the first write.
    fn journal_file(&self) -> Result<JournalFile> {
        let mut state = self.files.state.lock();
        match &mut *self.node.content.lock() {
            Content::Journal(Some(journal)) => Ok(*journal),
            Content::Journal(journal @ None) => {
                let file = state.next_journal();
                state.pending.push(Change::Journal { node: self.node.id, file });
                Ok(*journal.insert(JournalFile { file, length: 0, is_begun: false }))
            }
            _ => Err(not_supported(FailedOperation::Write, &self.name)),
        }
    }

    /// Changes what is known of the file of the write log. The caller has the turn.
    fn change_journal(&self, change: impl FnOnce(&mut JournalFile)) {
        if let Content::Journal(Some(journal)) = &mut *self.node.content.lock() {
            change(journal);
        }
    }

    /// Finishes a table that is being written, if it is one.
    fn finish_table(&self) -> std::result::Result<(), Failure> {
        let _turn = self.node.turn.lock();
        let filling = match &*self.node.content.lock() {
            Content::Filling(filling) => Arc::clone(filling),
            _ => return Ok(()),
        };
        let table = Arc::new(filling.finish(&self.files.place)?);
        let mut state = self.files.state.lock();
        if state.names.files().all(|(_, named)| !Arc::ptr_eq(named, &self.node)) {
            table.is_removed.store(true, SeqCst);
        }
        let (node, placement) = (self.node.id, table.placement());
        *self.node.content.lock() = Content::Table(table);
        state.pending.push(Change::Table { node, placement });
        Ok(())
    }

    /// Makes a change of a small file.
    fn change_small(&self, small: &mut Small, change: Change) -> Result<()> {
        let fits = match &change {
            Change::Bytes { offset, bytes, .. } => small.write(*offset, bytes),
            Change::Length { length, .. } => small.set_length(*length),
            _ => true,
        };
        if !fits {
            const TOO_LARGE: i32 = 27;
            let (operation, name) = (FailedOperation::Write, self.name.clone());
            return Err(Error::Io { operation, name, code: TOO_LARGE });
        }
        small.unsynced.push(change);
        Ok(())
    }
}

impl File for RangeFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(into.len() as u64);
        self.files.accounting.read(into.len());
        let content = self.node.content.lock();
        match &*content {
            Content::Small(small) => {
                self.check_end(end, small.length())?;
                small.read(offset, into);
                Ok(())
            }
            Content::Filling(filling) => {
                self.check_end(end, filling.length())?;
                filling.read(&self.files.place, offset, into);
                Ok(())
            }
            Content::Journal(None) => self.check_end(end, 0),
            Content::Journal(Some(JournalFile { file, length, .. })) => {
                self.check_end(end, *length)?;
                let file = *file;
                drop(content);
                let read = self.files.journal.read(file, offset, into.len() as u64);
                let failed = |error| {
                    let failure = self.files.place.failure_of(error);
                    error_of(failure, FailedOperation::Read, &self.name)
                };
                into.copy_from_slice(&read.map_err(failed)?);
                Ok(())
            }
            Content::Table(table) => {
                self.check_end(end, table.length)?;
                let table = Arc::clone(table);
                drop(content);
                let read = table.read(offset, into);
                read.map_err(|failure| error_of(failure, FailedOperation::Read, &self.name))
            }
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.files.accounting.wrote(bytes.len());
        let filling = match &mut *self.node.content.lock() {
            Content::Small(small) => {
                let (node, bytes) = (self.node.id, bytes.to_vec());
                return self.change_small(small, Change::Bytes { node, offset, bytes });
            }
            Content::Journal(_) => None,
            Content::Filling(filling) => Some(Arc::clone(filling)),
            Content::Table(_) => return Err(not_supported(FailedOperation::Write, &self.name)),
        };
        let Some(filling) = filling else { return self.write_journal(offset, bytes) };
        match filling.append(&self.files.place, offset, bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(not_supported(FailedOperation::Write, &self.name)),
            Err(failure) => Err(error_of(failure, FailedOperation::Write, &self.name)),
        }
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        self.files.accounting.synced();
        let failed = |failure| sync_error(failure, &self.name);
        self.finish_table().map_err(failed)?;
        {
            // Both locks, so that changes of one file keep their order.
            let mut state = self.files.state.lock();
            if let Content::Small(small) = &mut *self.node.content.lock() {
                state.pending.append(&mut small.unsynced);
            }
        }
        self.files.flush().map_err(failed)
    }

    fn len(&self) -> Result<u64> {
        Ok(match &*self.node.content.lock() {
            Content::Small(small) => small.length(),
            Content::Journal(journal) => journal.map_or(0, |journal| journal.length),
            Content::Filling(filling) => filling.length(),
            Content::Table(table) => table.length,
        })
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.check_writable()?;
        let _turn = self.node.turn.lock();
        match &mut *self.node.content.lock() {
            Content::Small(small) => {
                self.change_small(small, Change::Length { node: self.node.id, length })
            }
            Content::Journal(journal) if length == 0 => {
                // The bytes before go with the next removal of files.
                *journal = None;
                Ok(())
            }
            Content::Journal(Some(journal)) if journal.length == length => Ok(()),
            Content::Filling(filling) if filling.length() == length => Ok(()),
            _ => Err(not_supported(FailedOperation::Metadata, &self.name)),
        }
    }

    /// Room is not reserved: a small file has zeros up to the end of the range.
    fn allocate(&self, offset: u64, length: u64) -> Result<()> {
        let end = offset.saturating_add(length);
        if self.len()? < end { self.set_len(end) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.check_writable()?;
        let node = self.node.id;
        match &mut *self.node.content.lock() {
            Content::Small(small) => {
                let whole = small.length();
                let end = offset.saturating_add(length);
                if offset >= whole {
                    return Ok(());
                }
                if end >= whole {
                    self.change_small(small, Change::Length { node, length: offset })?;
                    return self.change_small(small, Change::Length { node, length: whole });
                }
                let bytes = vec![0; length as usize];
                self.change_small(small, Change::Bytes { node, offset, bytes })
            }
            _ => Err(not_supported(FailedOperation::Metadata, &self.name)),
        }
    }

    fn alignment(&self) -> usize {
        1
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        self.files.locks.lock().remove(&self.full);
    }
}

impl File for LockFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.file.sync(kind)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.file.set_len(length)
    }

    fn allocate(&self, offset: u64, length: u64) -> Result<()> {
        self.file.allocate(offset, length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.file.punch(offset, length)
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }

    fn name(&self) -> &str {
        self.file.name()
    }
}
