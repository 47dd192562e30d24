//! A StoC: its directory, and its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use device::Device;
use environment::Environment;
use sync::{Mutex, MutexGuard, RwLock};

use crate::catalogue::{Catalogue, Edit, Identity};
use crate::error::{Error, Result};
use crate::format::{HEAD_BYTES, Head};
use crate::log_file::LogFile;
use crate::name::{Epoch, FILES_DIR, FileName, RangeId};
use crate::range::{Fenced, Listed, RangeState, StoredFile};
use crate::table_file::FillingFile;

/// The bytes, files and memory that a StoC takes, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files.
    pub bytes_max: u64,
    /// Files, with logs in memory.
    pub files_max: u64,
    /// Bytes of memory of logs in memory.
    pub memory_bytes_max: u64,
}

impl Default for Limits {
    /// No limit of bytes of files, a million files, and 1 GiB of memory.
    fn default() -> Self {
        Self { bytes_max: u64::MAX, files_max: 1 << 20, memory_bytes_max: 1 << 30 }
    }
}

/// How a StoC is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster that it belongs to.
    pub cluster: u64,
    /// Its number in the cluster.
    pub node: u32,
    /// The number of this start. The coordinator gives it, and it grows with each start.
    pub incarnation: u64,
    /// The number of the last start that has completed; none of a StoC that is new. (S5)
    pub last_incarnation: Option<u64>,
    /// The bytes, files and memory that it may take.
    pub limits: Limits,
    /// The source of the cookie.
    pub environment: Environment,
}

/// The figures of a StoC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files, and their bytes.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files that are damaged.
    pub damaged_files: u64,
    /// Bytes that the device has free.
    pub free_bytes: u64,
}

/// A storage component. Its methods may be called by many threads.
#[derive(Debug)]
pub struct Stoc {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) identity: Identity,
    pub(crate) limits: Limits,
    /// A range never goes from the map.
    pub(crate) ranges: RwLock<BTreeMap<RangeId, Arc<Mutex<RangeState>>>>,
    pub(crate) catalogue: Mutex<Catalogue>,
    pub(crate) bytes: AtomicU64,
    pub(crate) files: AtomicU64,
    /// Bytes of memory of logs in memory.
    pub(crate) memory_bytes: AtomicU64,
    /// The failure after which nothing is changed any more. (S6)
    pub(crate) stopped: OnceLock<Error>,
}

impl Stoc {
    /// Returns its identity. (S5)
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Promises that no call of an epoch below `epoch` changes anything of the range. Durable on
    /// return. Returns the lengths of the range's logs. (S1)
    ///
    /// # Errors
    /// [`Error::Fenced`] if a higher epoch has the promise; the device's.
    pub fn fence(&self, range: RangeId, epoch: Epoch) -> Result<Fenced> {
        let state = self.range(range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(range, epoch)?;
        let before = state.promise;
        if epoch > before {
            let promises = vec![(range, epoch)];
            self.change(Edit { promises, ..Edit::default() })?;
            state.promise = epoch;
        }
        Ok(Fenced { before, logs: state.logs() })
    }

    /// Makes an empty log. Durable on return, with its name.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Exists`], [`Error::OtherKind`], [`Error::NoRoom`]; the device's.
    pub fn create_log(&self, name: FileName, epoch: Epoch) -> Result<()> {
        self.check_kind(&name, true)?;
        self.create(name, epoch, 0, HEAD_BYTES as u64, |device, head| {
            LogFile::create(device, head).map(StoredFile::Log)
        })
    }

    /// Appends bytes to a log. They are synced when this returns. A repeated append of the same
    /// bytes changes nothing. (S3)
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::NoFile`], [`Error::NotAtEnd`], [`Error::OtherBytes`],
    /// [`Error::NoRoom`]; damage; the device's.
    pub fn append(&self, name: &FileName, epoch: Epoch, offset: u64, bytes: &[u8]) -> Result<()> {
        let state = self.range(name.range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(name.range, epoch)?;
        let log = state.log(name)?;
        // A repeated append takes nothing.
        let is_new = offset >= log.length();
        let most = if is_new { LogFile::growth(bytes.len()) } else { 0 };
        self.take_bytes(most)?;
        let appended = self.noted(log.append(offset, bytes));
        let taken = appended.as_ref().map_or(0, |taken| *taken);
        self.bytes.fetch_sub(most.saturating_sub(taken), Relaxed);
        appended.map(|_| ())
    }

    /// Notes the length at which the range has sealed a log, durably if the log is on the device.
    /// Bytes behind it do not count any more, and no append follows.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::NoFile`]; the device's.
    pub fn seal(&self, name: &FileName, epoch: Epoch, length: u64) -> Result<()> {
        let state = self.range(name.range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(name.range, epoch)?;
        if Self::seal_in_memory(&mut state, name, length) {
            return Ok(());
        }
        let log = state.log(name)?;
        // A log that was sealed does not grow again.
        let length = log.sealed().map_or(length, |sealed| sealed.min(length));
        self.change(Edit { seals: vec![(*name, Some(length))], ..Edit::default() })?;
        log.seal(length);
        Ok(())
    }

    /// Begins a file of a table. It does not count before it is finished.
    ///
    /// # Errors
    /// As [`Stoc::create_log`].
    pub fn create_table(&self, name: FileName, epoch: Epoch, stripe: u32) -> Result<()> {
        self.check_kind(&name, false)?;
        self.create(name, epoch, stripe, FillingFile::EMPTY_BYTES, |device, head| {
            FillingFile::create(device, head).map(StoredFile::Filling)
        })
    }

    /// Writes bytes at `offset`, the end of the bytes that were written before.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::NoFile`], [`Error::NotAtEnd`], [`Error::NoRoom`]; the device's.
    pub fn write(&self, name: &FileName, epoch: Epoch, offset: u64, bytes: &[u8]) -> Result<()> {
        let state = self.range(name.range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(name.range, epoch)?;
        let file = state.filling(name)?;
        if file.length() != offset {
            return Err(Error::NotAtEnd { name: *name, length: file.length() });
        }
        let growth = file.file_bytes(bytes.len() as u64) - file.file_bytes(0);
        self.take_bytes(growth)?;
        self.noted(file.write(bytes)).inspect_err(|_| _ = self.bytes.fetch_sub(growth, Relaxed))
    }

    /// Finishes a file of `length` bytes. It is durable on return, with its name, and never changes
    /// any more. A file that is finished with this length already is finished again. (S2)
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::NoFile`], [`Error::NotAtEnd`]; the device's.
    pub fn finish(&self, name: &FileName, epoch: Epoch, length: u64) -> Result<()> {
        let state = self.range(name.range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(name.range, epoch)?;
        if let Some(StoredFile::Table(table)) = state.files.get(name)
            && table.length() == length
        {
            return Ok(());
        }
        let written = state.filling(name)?.length();
        if written != length {
            return Err(Error::NotAtEnd { name: *name, length: written });
        }
        let Some(StoredFile::Filling(file)) = state.files.remove(name) else {
            return Err(Error::NoFile { name: *name });
        };
        let before = file.file_bytes(0);
        let table = self.noted(file.finish(&self.device)).inspect_err(|_| {
            // Otherwise the next opening removes it.
            let _ = self.device.remove(&name.part_path());
            self.forget_bytes(before);
        })?;
        state.files.insert(*name, StoredFile::Table(Arc::new(table)));
        Ok(())
    }

    /// Reads bytes of a log or of a finished file, and verifies them. (S4)
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::PastEnd`]; damage; the device's.
    pub fn read(&self, name: &FileName, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let state = self.range(name.range);
        let state = state.lock();
        match state.files.get(name) {
            None | Some(StoredFile::Filling(_)) => Err(Error::NoFile { name: *name }),
            Some(StoredFile::Damaged(damage, _)) => Err(damage.clone().into()),
            Some(StoredFile::Log(log)) => log.read(offset, bytes),
            Some(StoredFile::Memory(log)) => log.read(offset, bytes),
            Some(StoredFile::Table(table)) => {
                let table = Arc::clone(table);
                // Tables are read by many threads, and logs by an opening.
                drop(state);
                table.read(offset, bytes)
            }
        }
    }

    /// Gives other ranges references to all files to which `range` has one: it is being split or
    /// merged. Durable on return.
    ///
    /// # Errors
    /// [`Error::Fenced`]; the device's.
    pub fn add_references(&self, range: RangeId, epoch: Epoch, others: &[RangeId]) -> Result<()> {
        let state = self.range(range);
        let state = state.lock();
        self.check_running()?;
        state.check_epoch(range, epoch)?;
        let mut catalogue = self.catalogue.lock();
        let elsewhere = catalogue.all.references.iter();
        let elsewhere = elsewhere.filter(|(_, ranges)| ranges.contains(&range));
        let names: BTreeSet<FileName> = elsewhere
            .map(|(name, _)| *name)
            .chain(state.files.keys().copied())
            .filter(|name| !name.kind.is_log() && catalogue.references(name).contains(&range))
            .collect();
        let references = names.into_iter().map(|name| {
            let mut ranges = catalogue.references(&name);
            ranges.extend(others);
            (name, ranges.into_iter().collect())
        });
        let references = references.collect();
        self.noted(catalogue.commit(Edit { references, ..Edit::default() }))
    }

    /// Releases the reference that `by` has to a file, and removes the file if it was the last one.
    /// A file that is not there is released already. (S6)
    ///
    /// # Errors
    /// [`Error::Fenced`] by the promise of `by`; the device's.
    pub fn release(&self, name: &FileName, by: RangeId, epoch: Epoch) -> Result<()> {
        let (own, other) = (self.range(name.range), self.range(by));
        let (mut files, promised) = lock_both((name.range, &own), (by, &other));
        self.check_running()?;
        promised.as_ref().unwrap_or(&files).check_epoch(by, epoch)?;
        if self.release_in_memory(&mut files, name, by) {
            return Ok(());
        }
        let mut catalogue = self.catalogue.lock();
        let path = match files.files.get(name) {
            None => return Ok(()),
            Some(StoredFile::Filling(_)) => name.part_path(),
            Some(_) => name.path(),
        };
        let mut left = catalogue.references(name);
        if !left.remove(&by) {
            return Ok(());
        }
        let is_last = left.is_empty();
        let is_noted = catalogue.all.references.contains_key(name);
        let is_sealed = catalogue.all.seals.contains_key(name);
        if is_last {
            // The file first: an entry without a file is harmless.
            // Otherwise a power cut may bring it back, with the usual reference and without a seal.
            let dir = FileName::dir_of(name.range);
            let removed = self.device.remove(&path).and_then(|()| self.device.sync_dir(&dir));
            self.noted(removed.map_err(Error::Sync))?;
            if let Some(file) = files.files.remove(name) {
                self.forget_bytes(file.bytes());
            }
        }
        let references = match is_last && !is_noted {
            true => Vec::new(),
            false => vec![(*name, left.into_iter().collect())],
        };
        let seals = if is_last && is_sealed { vec![(*name, None)] } else { Vec::new() };
        self.noted(catalogue.commit(Edit { references, seals, ..Edit::default() }))
    }

    /// Releases all references of a range that the coordinator has forgotten, and promises that no
    /// call for the range changes anything any more. Returns the number of files that the range
    /// had.
    ///
    /// # Errors
    /// The device's.
    pub fn drop_range(&self, range: RangeId) -> Result<usize> {
        let epoch = Epoch(u64::MAX);
        self.fence(range, epoch)?;
        let mut names: BTreeSet<FileName> =
            self.range(range).lock().files.keys().copied().collect();
        let others = self.catalogue.lock();
        let shared = others.all.references.iter().filter(|(_, ranges)| ranges.contains(&range));
        names.extend(shared.map(|(name, _)| *name));
        drop(others);
        names.iter().try_for_each(|name| self.release(name, range, epoch))?;
        Ok(names.len())
    }

    /// Returns the ranges that have files here.
    pub fn ranges_with_files(&self) -> Vec<RangeId> {
        let ranges: Vec<_> =
            self.ranges.read().iter().map(|(range, state)| (*range, Arc::clone(state))).collect();
        let has_files = ranges.into_iter().filter(|(_, state)| !state.lock().files.is_empty());
        has_files.map(|(range, _)| range).collect()
    }

    /// Lists the files of a range.
    pub fn list(&self, range: RangeId) -> Vec<Listed> {
        let state = self.range(range);
        let state = state.lock();
        let catalogue = self.catalogue.lock();
        let listed = |(name, file): (&FileName, &StoredFile)| {
            let (length, epoch) = match file.length() {
                Some((length, epoch)) => (Some(length), epoch),
                None => (None, Epoch::default()),
            };
            let is_finished = !matches!(file, StoredFile::Filling(_));
            let references = catalogue.references(name).into_iter().collect();
            Listed { name: *name, epoch, length, is_finished, references }
        };
        state.files.iter().map(listed).collect()
    }

    /// Returns the ranges that have files or a promise here.
    pub fn ranges(&self) -> Vec<RangeId> {
        let ranges: Vec<_> =
            self.ranges.read().iter().map(|(range, state)| (*range, Arc::clone(state))).collect();
        let has_any = |state: &RangeState| !state.files.is_empty() || state.promise > Epoch(0);
        let with_any = ranges.into_iter().filter(|(_, state)| has_any(&state.lock()));
        with_any.map(|(range, _)| range).collect()
    }

    /// Verifies all bytes of a file. (S4)
    ///
    /// # Errors
    /// [`Error::NoFile`]; damage; the device's.
    pub fn verify(&self, name: &FileName) -> Result<()> {
        let state = self.range(name.range);
        let state = state.lock();
        match state.files.get(name) {
            None | Some(StoredFile::Filling(_)) => Err(Error::NoFile { name: *name }),
            Some(StoredFile::Damaged(damage, _)) => Err(damage.clone().into()),
            Some(StoredFile::Log(log)) => log.read(0, log.length()).map(|_| ()),
            Some(StoredFile::Memory(_)) => Ok(()),
            Some(StoredFile::Table(table)) => {
                let table = Arc::clone(table);
                drop(state);
                table.verify_all()
            }
        }
    }

    /// Returns its figures.
    ///
    /// # Errors
    /// The device's.
    pub fn stats(&self) -> Result<Stats> {
        let ranges: Vec<_> = self.ranges.read().values().cloned().collect();
        let damaged = ranges.iter().map(|range| {
            let state = range.lock();
            state.files.values().filter(|file| matches!(file, StoredFile::Damaged(..))).count()
        });
        let (files, bytes) = (self.files.load(Relaxed), self.bytes.load(Relaxed));
        let damaged_files = damaged.sum::<usize>() as u64;
        let free = self.device.space()?.free;
        let free_bytes = free.min(self.limits.bytes_max.saturating_sub(bytes));
        Ok(Stats { files, bytes, damaged_files, free_bytes })
    }

    fn create(
        &self,
        name: FileName,
        epoch: Epoch,
        stripe: u32,
        bytes: u64,
        make: impl FnOnce(&dyn Device, Head) -> Result<StoredFile>,
    ) -> Result<()> {
        let state = self.range(name.range);
        let mut state = state.lock();
        self.check_running()?;
        state.check_epoch(name.range, epoch)?;
        if state.files.contains_key(&name) {
            return Err(Error::Exists { name });
        }
        let dir = FileName::dir_of(name.range);
        let has_dir = self.device.exists(&dir)?;
        self.take_file(bytes)?;
        self.take_bytes(bytes).inspect_err(|_| _ = self.files.fetch_sub(1, Relaxed))?;
        let Identity { cluster, node, cookie, .. } = self.identity;
        let head = Head { name, cluster, node, cookie, epoch, stripe };
        let made = match has_dir {
            true => Ok(()),
            false => self.device.create_dir(&dir).and_then(|()| self.device.sync_dir(FILES_DIR)),
        };
        let made = made.map_err(Error::Sync).and_then(|()| make(&*self.device, head));
        let file = self.noted(made).inspect_err(|_| {
            self.forget_bytes(bytes);
            let _ = self.device.remove(&name.part_path());
        })?;
        state.files.insert(name, file);
        Ok(())
    }

    pub(crate) fn check_kind(&self, name: &FileName, is_log: bool) -> Result<()> {
        match name.kind.is_log() == is_log {
            true => Ok(()),
            false => Err(Error::OtherKind { name: *name }),
        }
    }

    /// Returns the state of a range, which is made if there is none.
    pub(crate) fn range(&self, range: RangeId) -> Arc<Mutex<RangeState>> {
        if let Some(state) = self.ranges.read().get(&range) {
            return Arc::clone(state);
        }
        Arc::clone(self.ranges.write().entry(range).or_default())
    }

    /// Counts another file, of `bytes` bytes.
    pub(crate) fn take_file(&self, bytes: u64) -> Result<()> {
        let more = |files: u64| Some(files + 1).filter(|files| *files <= self.limits.files_max);
        let taken = self.files.fetch_update(Relaxed, Relaxed, more);
        taken.map(|_| ()).map_err(|_| Error::NoRoom { bytes })
    }

    /// Counts bytes that a file grows by.
    fn take_bytes(&self, bytes: u64) -> Result<()> {
        let more =
            |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limits.bytes_max);
        let taken = self.bytes.fetch_update(Relaxed, Relaxed, more);
        taken.map(|_| ()).map_err(|_| Error::NoRoom { bytes })
    }

    /// Stops counting a file.
    fn forget_bytes(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.files.fetch_sub(1, Relaxed);
    }

    /// Commits a change of the catalogue, durably.
    fn change(&self, edit: Edit) -> Result<()> {
        self.noted(self.catalogue.lock().commit(edit))
    }

    /// Returns the error that has stopped the StoC, if one has. (S6)
    pub fn stopped(&self) -> Option<&Error> {
        self.stopped.get()
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        match self.stopped.get() {
            None => Ok(()),
            Some(error) => Err(Error::Stopped(Arc::new(error.clone()))),
        }
    }

    /// Stops the StoC after a failed write or sync. (S6)
    fn noted<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|error| match error {
            Error::Device(device::Error::NoSpace { .. }) => Error::NoRoom { bytes: 0 },
            error => {
                if error.is_fatal() {
                    let _ = self.stopped.set(error.clone());
                }
                error
            }
        })
    }
}

/// Locks the state of a file's range and that of another range, in the order of their ids. Returns
/// no second guard if they are the same.
fn lock_both<'s>(
    (range, files): (RangeId, &'s Arc<Mutex<RangeState>>),
    (by, promised): (RangeId, &'s Arc<Mutex<RangeState>>),
) -> (MutexGuard<'s, RangeState>, Option<MutexGuard<'s, RangeState>>) {
    match range.cmp(&by) {
        std::cmp::Ordering::Equal => (files.lock(), None),
        std::cmp::Ordering::Less => {
            let first = files.lock();
            (first, Some(promised.lock()))
        }
        std::cmp::Ordering::Greater => {
            let first = promised.lock();
            (files.lock(), Some(first))
        }
    }
}
