//! Open files of a range.

use std::sync::Arc;

use device::{Error, FailedOperation, File, Mode, Result, SyncKind};

use crate::changes::Change;
use crate::device::{error_of, not_supported, sync_error};
use crate::files::Files;
use crate::node::{Content, JournalFile, Node, Small};
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
    fn write_journal(
        &self,
        journal: &mut Option<JournalFile>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let failed =
            |error: logc::Error| error_of(error.into(), FailedOperation::Write, &self.name);
        let there = match journal {
            Some(there) => there,
            None => {
                let file = self.files.state.lock().next_journal();
                self.files.journal.begin_file(file).map_err(failed)?;
                let begun = Change::Journal { node: self.node.id, file };
                self.files.state.lock().pending.push(begun);
                journal.insert(JournalFile { file, length: 0 })
            }
        };
        let known = there.length.saturating_sub(offset).min(bytes.len() as u64);
        if offset > there.length {
            return Err(not_supported(FailedOperation::Write, &self.name));
        }
        let (known, new) = bytes.split_at(known as usize);
        if !known.is_empty() {
            let read = self.files.journal.read(there.file, offset, known.len() as u64);
            if read.map_err(failed)? != known {
                return Err(not_supported(FailedOperation::Write, &self.name));
            }
        }
        if !new.is_empty() {
            self.files.journal.append(there.file, there.length, new).map_err(failed)?;
            there.length += new.len() as u64;
        }
        Ok(())
    }

    /// Makes changes of a small file.
    fn change_small(&self, small: &mut Small, change: Change) {
        match &change {
            Change::Bytes { offset, bytes, .. } => small.write(*offset, bytes),
            Change::Length { length, .. } => small.set_length(*length),
            _ => {}
        }
        small.unsynced.push(change);
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
                filling.read(offset, into);
                Ok(())
            }
            Content::Journal(None) => self.check_end(end, 0),
            Content::Journal(Some(JournalFile { file, length })) => {
                self.check_end(end, *length)?;
                let file = *file;
                drop(content);
                let read = self.files.journal.read(file, offset, into.len() as u64);
                let failed =
                    |error: logc::Error| error_of(error.into(), FailedOperation::Read, &self.name);
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
        match &mut *self.node.content.lock() {
            Content::Small(small) => {
                let (node, bytes) = (self.node.id, bytes.to_vec());
                self.change_small(small, Change::Bytes { node, offset, bytes });
                Ok(())
            }
            Content::Journal(journal) => self.write_journal(journal, offset, bytes),
            Content::Filling(filling) if offset == filling.length() => {
                filling.append(&self.files.place, bytes);
                Ok(())
            }
            Content::Filling(_) | Content::Table(_) => {
                Err(not_supported(FailedOperation::Write, &self.name))
            }
        }
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        self.files.accounting.synced();
        let failed = |failure| sync_error(failure, &self.name);
        let mut content = self.node.content.lock();
        let changes = match &mut *content {
            Content::Small(small) => std::mem::take(&mut small.unsynced),
            // Each write is durable when it returns.
            Content::Journal(_) | Content::Table(_) => Vec::new(),
            Content::Filling(filling) => {
                let table = filling.finish(&self.files.place).map_err(failed)?;
                let placement = table.placement();
                *content = Content::Table(Arc::new(table));
                vec![Change::Table { node: self.node.id, placement }]
            }
        };
        drop(content);
        self.files.state.lock().pending.extend(changes);
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
        match &mut *self.node.content.lock() {
            Content::Small(small) => {
                self.change_small(small, Change::Length { node: self.node.id, length });
                Ok(())
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
                    self.change_small(small, Change::Length { node, length: offset });
                    self.change_small(small, Change::Length { node, length: whole });
                } else {
                    let bytes = vec![0; length as usize];
                    self.change_small(small, Change::Bytes { node, offset, bytes });
                }
                Ok(())
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
