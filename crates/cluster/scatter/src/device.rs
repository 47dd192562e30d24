//! The device of a range: its files are on the StoCs of a cluster.

use std::fmt;
use std::sync::Arc;

use device::{
    Accounting, Device, Entry, Error, FailedOperation, File, FileNames, Mode, Queue, Result, Space,
    join,
};
use logc::Log;
use stoc::{Link, Request, Response};

use crate::changes::Change;
use crate::file::{LockFile, RangeFile};
use crate::files::Files;
use crate::filling::Filling;
use crate::node::{Content, Node, Small};
use crate::place::{Failure, Place};
use crate::queue::RangeQueue;

/// The directory whose files are in the write log.
const JOURNAL_DIR: &str = "journal";
/// The ends of the names of these files.
const JOURNAL_ENDS: [&str; 2] = [".journal", ".new"];
/// The numbers of the operating system for a file of another owner, a damaged file, and a use that
/// files of a range do not have.
const STALE: i32 = 116;
const IO: i32 = 5;
const NOT_SUPPORTED: i32 = 95;

/// A device whose files are on StoCs: small files in the manifest log of a range, files of the
/// journal in its write log, and files of whole blocks as tables on several StoCs.
#[derive(Clone)]
pub struct RangeDevice {
    files: Arc<Files>,
    root: String,
}

/// Returns the error of the device for a failure.
pub(crate) fn error_of(failure: Failure, operation: FailedOperation, name: &str) -> Error {
    let name = name.to_owned();
    match failure {
        Failure::Unavailable => Error::Unavailable { name },
        Failure::Full => Error::NoSpace { name },
        Failure::Fenced | Failure::Closed => Error::Io { operation, name, code: STALE },
        Failure::Damaged(_) => Error::Io { operation, name, code: IO },
    }
}

/// Returns the error for a use that files of this kind do not have.
pub(crate) fn not_supported(operation: FailedOperation, name: &str) -> Error {
    Error::Io { operation, name: name.to_owned(), code: NOT_SUPPORTED }
}

impl RangeDevice {
    pub(crate) fn new(
        place: Arc<Place>,
        journal: Log,
        manifest: Log,
    ) -> std::result::Result<Self, Failure> {
        let files = Arc::new(Files::open(place, journal, manifest)?);
        Ok(Self { files, root: String::new() })
    }

    /// Closes the logs of the range: a call that waits for a StoC ends, and nothing changes any
    /// more.
    pub fn close(&self) {
        self.files.close();
    }

    /// Copies tables of which too few StoCs have undamaged copies to other StoCs. A StoC that does
    /// not reply has not lost its copies; one that has no link, or other storage than before, has.
    /// Returns the number of tables that were copied. Reads and writes continue during a repair.
    /// It also releases copies that no table has.
    ///
    /// # Errors
    /// A table has no copy that can be read: the others are copied before. The range belongs to
    /// another owner, or the device is closed.
    pub fn repair(&self) -> Result<usize> {
        let repaired = self.files.repair();
        repaired.map_err(|failure| error_of(failure, FailedOperation::Write, "tables"))
    }

    /// Returns the numbers of the segments of the write log that are in the memories of StoCs, and
    /// have lost replicas. The caller repeats the call, and acts if a number is returned twice
    /// ([`Log::weak_segments`]).
    pub fn weak_segments(&self) -> Vec<u64> {
        self.files.journal.weak_segments()
    }

    /// Returns the number of copies of tables that reads have found damaged, or missing. A repair
    /// replaces them.
    pub fn damaged_copies(&self) -> usize {
        let tables = self.files.tables().into_iter();
        tables.map(|(_, table)| table.damaged_copies()).sum()
    }

    #[cfg(test)]
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the full name of a file.
    fn full_file(&self, name: &str) -> Result<String> {
        device::check_below_root(name)?;
        self.full(name)
    }

    /// Returns the full name of a file or a directory.
    fn full(&self, name: &str) -> Result<String> {
        device::check_name(name)?;
        Ok(match (self.root.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.root.clone(),
            (false, false) => join(&self.root, name),
        })
    }

    fn open_with(&self, name: &str, mode: Mode, is_table: bool) -> Result<Arc<dyn File>> {
        let full = self.full_file(name)?;
        let mut guard = self.files.state.lock();
        let state = &mut *guard;
        let node = match state.names.find(&full, name, mode)? {
            Some(node) => node,
            None => {
                let node = state.new_node(|_| Content::Small(Small::default()));
                if is_table {
                    *node.content.lock() = Content::Filling(Arc::new(Filling::new(node.id.0)));
                } else if is_journal(&full) {
                    *node.content.lock() = Content::Journal(None);
                }
                state.names.set(&full, Arc::clone(&node));
                state.pending.push(Change::Name { path: full, node: node.id });
                node
            }
        };
        Ok(Arc::new(RangeFile::new(Arc::clone(&self.files), node, name, mode)))
    }

    /// Changes the names, and notes the change. `apply` returns the files that have lost a name.
    fn change_names(
        &self,
        change: Change,
        apply: impl FnOnce(&mut FileNames<Node>) -> Result<Vec<Arc<Node>>>,
    ) -> Result<()> {
        let mut guard = self.files.state.lock();
        let state = &mut *guard;
        let mut removed = apply(&mut state.names)?;
        let names = &state.names;
        removed.retain(|node| names.files().all(|(_, named)| !Arc::ptr_eq(named, node)));
        state.pending.push(change);
        state.removed.append(&mut removed);
        Ok(())
    }
}

fn is_journal(full: &str) -> bool {
    let below = full.strip_prefix(JOURNAL_DIR).is_some_and(|rest| rest.starts_with('/'));
    below && JOURNAL_ENDS.iter().any(|end| full.ends_with(end)) && full != "journal/END.new"
}

impl Device for RangeDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.open_with(name, mode, false)
    }

    fn open_blocks(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.open_with(name, mode, true)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(RangeQueue::new(depth, &self.files.accounting)))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        let full = self.full(name)?;
        if self.files.state.lock().names.is_dir(&full) {
            return Ok(());
        }
        self.change_names(Change::CreateDir { path: full.clone() }, |names| {
            names.create_dir(&full, name).map(|()| Vec::new())
        })
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        let full = self.full(dir)?;
        self.files.state.lock().names.list(&full, dir)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let full = self.full(name)?;
        Ok(self.files.state.lock().names.exists(&full))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.full_file(from)?, self.full_file(to)?);
        self.change_names(Change::Rename { from: old.clone(), to: new.clone() }, |names| {
            let replaced = names.rename((&old, from), (&new, to))?;
            Ok(replaced.into_iter().collect())
        })
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.full_file(from)?, self.full_file(to)?);
        let mut guard = self.files.state.lock();
        let state = &mut *guard;
        let node = state.names.link((&old, from), (&new, to))?;
        state.pending.push(Change::Name { path: new, node: node.id });
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let full = self.full_file(name)?;
        self.change_names(Change::Remove { path: full.clone() }, |names| {
            Ok(vec![names.remove(&full, name)?])
        })
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        let full = self.full_file(name)?;
        if !self.files.state.lock().names.exists(&full) {
            return Ok(());
        }
        self.change_names(Change::RemoveDir { path: full.clone() }, |names| {
            names.remove_dir(&full, name)
        })
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        let full = self.full(dir)?;
        if !self.files.state.lock().names.is_dir(&full) {
            return Err(Error::NotFound { name: dir.to_owned() });
        }
        self.files.accounting.synced();
        self.files.flush().map_err(|failure| sync_error(failure, dir))
    }

    /// The epoch of the owner excludes other processes, so a lock excludes callers of this process.
    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        let full = self.full(name)?;
        let file = self.open(name, Mode::Create)?;
        if !self.files.locks.lock().insert(full.clone()) {
            return Err(Error::Locked { name: name.to_owned() });
        }
        Ok(Arc::new(LockFile { files: Arc::clone(&self.files), full, file }))
    }

    fn space(&self) -> Result<Space> {
        let Place { stocs, copies, .. } = &*self.files.place;
        let stats = |link: Arc<dyn Link>| match self.files.place.call(&link, &Request::Stats) {
            Ok(Response::Stats(stats)) => Some(stats),
            _ => None,
        };
        let all = stocs.choose(usize::MAX, &[]).into_iter().filter_map(stats);
        let (used, free) = all.fold((0_u64, 0_u64), |(used, free), stats| {
            (used.saturating_add(stats.bytes), free.saturating_add(stats.free_bytes))
        });
        let free = free / (*copies).max(1) as u64;
        Ok(Space { total: free.saturating_add(used), free })
    }

    fn accounting(&self) -> &Accounting {
        &self.files.accounting
    }

    fn kind(&self) -> &'static str {
        "stocs"
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.create_dir(dir)?;
        Ok(Arc::new(Self { files: Arc::clone(&self.files), root: self.full(dir)? }))
    }
}

/// Returns the error of a sync: what it was to make durable may be lost.
pub(crate) fn sync_error(failure: Failure, name: &str) -> Error {
    match failure {
        Failure::Unavailable => {
            Error::Io { operation: FailedOperation::Sync, name: name.to_owned(), code: IO }
        }
        other => error_of(other, FailedOperation::Sync, name).for_good(),
    }
}

impl fmt::Debug for RangeDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { range, epoch, .. } = &*self.files.place;
        f.debug_struct("RangeDevice")
            .field("range", range)
            .field("epoch", epoch)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}
