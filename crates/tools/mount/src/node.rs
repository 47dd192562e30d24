//! One file of a mount: the directory of its space, and the open space while a call needs it.
//!
//! # Concurrency
//! The lock of the state is held for moments. The lock of the space is held while it is opened
//! or closed, so that one thread does it and the others wait; it comes first. Calls go to the space
//! without a lock; a call that finds it closed opens it again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use environment::Environment;
use flexspace::space::{Error, FlexSpace, Offline, Options as SpaceOptions};
use rustix::io::Errno;
use sync::Mutex;

use crate::attributes::{self, Attributes};
use crate::file::SpaceFile;
use crate::refusal::{Outcome, Refusal};
use crate::source::{device_of, stored_at};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: u64,
    state: Mutex<State>,
    space: Mutex<Open>,
}

#[derive(Debug)]
struct State {
    dir: PathBuf,
    /// It has no name any more, and is removed with its last handle.
    is_removed: bool,
    handles: u64,
    /// Lookups that the kernel has got and not forgotten.
    lookups: u64,
    /// When the bytes were changed, as far as the directory does not say so yet.
    modified: Option<SystemTime>,
    /// Whether something was done that no sync has made durable.
    is_changed: bool,
    /// The failure of a close that lost unsynced changes, until a caller gets it.
    lost: Option<Refusal>,
    /// The failure that was reported last, if there was no success since.
    reported: Option<Errno>,
}

#[derive(Debug)]
enum Open {
    /// Its lengths, if a call has read them.
    Not(Option<Lengths>),
    Yes(Arc<SpaceFile>),
    /// The mount has ended, and all is stored.
    Stored,
    /// The space is removed, or its last changes are lost.
    Gone,
}

/// How long a closed space is, as long as its superblock is the same.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    len: u64,
    stored_bytes: u64,
    /// When the superblock was stored.
    stored_at: SystemTime,
}

impl Node {
    pub(crate) fn new(number: u64, dir: PathBuf) -> Self {
        let state = State {
            dir,
            is_removed: false,
            handles: 0,
            lookups: 0,
            modified: None,
            is_changed: false,
            lost: None,
            reported: None,
        };
        Self { number, state: Mutex::new(state), space: Mutex::new(Open::Not(None)) }
    }

    /// One whose space was just made.
    pub(crate) fn created(number: u64, dir: PathBuf, space: FlexSpace) -> Self {
        let node = Self::new(number, dir);
        {
            let mut state = node.state.lock();
            state.modified = attributes::read(&state.dir).ok().map(|found| found.modified);
        }
        *node.space.lock() = Open::Yes(Arc::new(SpaceFile::new(space)));
        node
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.state.lock().dir.clone()
    }

    pub(crate) fn moved(&self, dir: PathBuf) {
        self.state.lock().dir = dir;
    }

    /// Takes its name away, and returns whether it has no handle.
    pub(crate) fn removed(&self, dir: PathBuf) -> bool {
        let mut state = self.state.lock();
        (state.dir, state.is_removed) = (dir, true);
        state.handles == 0
    }

    /// Adds a handle. The handle counts before the space is opened, so that neither its name nor
    /// the space is removed in between.
    ///
    /// # Errors
    /// `ESTALE` if it is removed; else the handle counts, and has to be released.
    pub(crate) fn opened(&self) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.is_removed && state.handles == 0 {
            return Err(Errno::STALE);
        }
        state.handles += 1;
        Ok(())
    }

    /// Opens the space for a caller, which gets the error if that fails.
    pub(crate) fn open(&self) -> Outcome<()> {
        self.report_lost()?;
        self.with(|_| Ok(()))
    }

    /// Releases a handle, and returns whether the space should be removed with it.
    pub(crate) fn released(&self) -> bool {
        let mut state = self.state.lock();
        state.handles = state.handles.saturating_sub(1);
        state.handles == 0 && state.is_removed
    }

    pub(crate) fn looked_up(&self) {
        self.state.lock().lookups += 1;
    }

    /// The kernel forgets it so often.
    pub(crate) fn forgotten(&self, count: u64) {
        let mut state = self.state.lock();
        state.lookups = state.lookups.saturating_sub(count);
    }

    /// Returns whether the kernel has no lookup of it, it has no handle, and no lost changes are
    /// left to report.
    pub(crate) fn is_forgotten(&self) -> bool {
        let state = self.state.lock();
        state.lookups == 0 && state.handles == 0 && state.lost.is_none()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().handles == 0
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file_if_open().is_some()
    }

    /// Does something with the open space.
    pub(crate) fn with<T>(&self, mut work: impl FnMut(&SpaceFile) -> Outcome<T>) -> Outcome<T> {
        loop {
            match work(&*self.file()?) {
                // It was closed because it seemed idle.
                Err(Refusal::Space(Error::Closed)) => {}
                done => return done,
            }
        }
    }

    /// Changes the bytes; with the time of that.
    pub(crate) fn change<T>(
        &self,
        environment: &Environment,
        work: impl FnMut(&SpaceFile) -> Outcome<T>,
    ) -> Outcome<T> {
        let done = self.with(work)?;
        let mut state = self.state.lock();
        state.modified = Some(SystemTime::UNIX_EPOCH + environment.wall());
        state.is_changed = true;
        Ok(done)
    }

    /// Makes all changes durable, and the time of the last one. Returns, once, that closing the
    /// space has lost changes.
    pub(crate) fn sync(&self) -> Outcome<()> {
        let synced = self.store();
        self.report_lost()?;
        synced
    }

    /// Reports to the next caller that closing the space has lost changes.
    fn report_lost(&self) -> Outcome<()> {
        self.state.lock().lost.take().map_or(Ok(()), Err)
    }

    fn store(&self) -> Outcome<()> {
        // Later changes may be durable, or not.
        self.state.lock().is_changed = false;
        let stored = self.store_bytes();
        if stored.is_err() {
            self.state.lock().is_changed = true;
        }
        stored?;
        Ok(self.keep_time()?)
    }

    fn store_bytes(&self) -> Outcome<()> {
        loop {
            let file = match &*self.space.lock() {
                Open::Yes(file) => file.clone(),
                // Closing it stored all, or has left word that it did not.
                Open::Not(_) | Open::Stored => return Ok(()),
                Open::Gone => return Err(Errno::IO.into()),
            };
            match file.sync() {
                // It is being closed: the result of that can be read under the lock.
                Err(Refusal::Space(Error::Closed)) => {}
                synced => return synced,
            }
        }
    }

    /// Does the periodic work of the background thread: makes changes durable and releases room.
    pub(crate) fn tidy(&self) -> Outcome<()> {
        if !self.state.lock().is_changed {
            return Ok(());
        }
        self.store()?;
        let tidied = match self.file_if_open().map(|file| file.tidy()) {
            Some(Err(Refusal::Space(Error::Closed))) | None => Ok(()),
            Some(tidied) => tidied,
        };
        // A collection makes logs, and so changes the directory.
        self.keep_time()?;
        tidied
    }

    /// Closes the space, if it is open and idle. Without room to store the changes it stays open.
    /// After another failure the next sync or open returns that changes were lost.
    pub(crate) fn close_if_idle(&self) -> Outcome<()> {
        let mut space = self.space.lock();
        // A caller that opens it counts its handle first, and then waits here.
        if !self.is_idle() {
            return Ok(());
        }
        let Open::Yes(file) = &*space else { return Ok(()) };
        let lengths = (file.len(), file.stored_bytes());
        match file.try_close() {
            Ok(()) => {
                let stored_at = stored_at(&self.dir()).ok();
                let (len, stored_bytes) = lengths;
                let known = stored_at.map(|stored_at| Lengths { len, stored_bytes, stored_at });
                *space = Open::Not(known);
            }
            Err(Refusal::Space(refused)) if refused.is_refused() => return Err(refused.into()),
            Err(failed) => {
                *space = Open::Not(None);
                self.state.lock().lost = Some(failed.clone());
                self.end_times().ok();
                return Err(failed);
            }
        }
        Ok(self.end_times()?)
    }

    /// Closes the space for good.
    pub(crate) fn close(&self) -> Outcome<()> {
        let mut space = self.space.lock();
        let (closed, then) = match &*space {
            Open::Yes(file) => match file.close() {
                Ok(()) => (Ok(()), Open::Stored),
                failed => (failed, Open::Gone),
            },
            Open::Not(_) | Open::Stored => (Ok(()), Open::Stored),
            Open::Gone => (Ok(()), Open::Gone),
        };
        *space = then;
        let kept = self.end_times();
        closed?;
        Ok(kept?)
    }

    /// The directory says all about a space that is closed.
    fn end_times(&self) -> Result<(), Errno> {
        let kept = self.keep_time();
        let mut state = self.state.lock();
        (state.modified, state.is_changed) = (None, false);
        kept
    }

    /// Returns whether a failure of work that no caller has asked for differs from the last one, so
    /// that it should be reported. After a success each failure is.
    pub(crate) fn is_news<T>(&self, outcome: &Outcome<T>) -> bool {
        let found = outcome.as_ref().err().map(Refusal::errno);
        let last = std::mem::replace(&mut self.state.lock().reported, found);
        found.is_some() && found != last
    }

    /// Forgets the space, whose directory is about to go.
    pub(crate) fn abandon(&self) {
        *self.space.lock() = Open::Gone;
    }

    /// Returns length, stored bytes, and the attributes of the directory. Opens no space.
    pub(crate) fn stat(&self) -> Outcome<(u64, u64, Attributes)> {
        let lengths = {
            let mut space = self.space.lock();
            match &*space {
                Open::Yes(file) => (file.len(), file.stored_bytes()),
                Open::Not(known) => {
                    let dir = self.dir();
                    // Read before the lengths: if the space is stored later, they are read again.
                    let stored_at = stored_at(&dir)?;
                    let known = known.filter(|known| known.stored_at == stored_at);
                    let found = known.map_or_else(|| lengths_of(&dir, stored_at), Ok)?;
                    *space = Open::Not(Some(found));
                    (found.len, found.stored_bytes)
                }
                Open::Stored | Open::Gone => return Err(Errno::IO.into()),
            }
        };
        let (dir, modified) = {
            let state = self.state.lock();
            (state.dir.clone(), state.modified)
        };
        let mut attributes = attributes::read(&dir)?;
        attributes.modified = modified.unwrap_or(attributes.modified);
        Ok((lengths.0, lengths.1, attributes))
    }

    pub(crate) fn set_modified(&self, modified: SystemTime) -> Result<(), Errno> {
        self.state.lock().modified = Some(modified);
        self.keep_time()
    }

    fn file_if_open(&self) -> Option<Arc<SpaceFile>> {
        match &*self.space.lock() {
            Open::Yes(file) => Some(file.clone()),
            _ => None,
        }
    }

    /// Returns the open space, which is opened if it is not.
    fn file(&self) -> Outcome<Arc<SpaceFile>> {
        let mut space = self.space.lock();
        match &*space {
            Open::Yes(file) => return Ok(file.clone()),
            Open::Stored | Open::Gone => return Err(Errno::IO.into()),
            Open::Not(_) => {}
        }
        let dir = self.dir();
        let modified = attributes::read(&dir)?.modified;
        let opened = FlexSpace::open(device_of(&dir)?, SpaceOptions::default())?;
        // Opening changes the directory, and not the bytes.
        self.state.lock().modified.get_or_insert(modified);
        self.keep_time()?;
        let file = Arc::new(SpaceFile::new(opened));
        *space = Open::Yes(file.clone());
        Ok(file)
    }

    /// Has the directory say when the bytes were changed.
    fn keep_time(&self) -> Result<(), Errno> {
        let (dir, modified) = {
            let state = self.state.lock();
            (state.dir.clone(), state.modified)
        };
        modified.map_or(Ok(()), |modified| attributes::set_modified(&dir, modified))
    }
}

/// Returns the lengths of a space that is not open, from its files.
fn lengths_of(dir: &Path, stored_at: SystemTime) -> Outcome<Lengths> {
    let found = Offline::open(&*device_of(dir)?)?;
    let extents = found.extents(0..found.len());
    let stored = extents.filter(|piece| !piece.extent.is_hole());
    let stored_bytes = stored.map(|piece| u64::from(piece.length)).sum();
    Ok(Lengths { len: found.len(), stored_bytes, stored_at })
}

/// Removes the directory of a space that has no name any more.
pub(crate) fn remove(dir: &Path) -> Result<(), Errno> {
    std::fs::remove_dir_all(dir).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
