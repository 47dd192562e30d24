//! The chain of an open store.

use std::marker::PhantomData;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::{Device, File, Mode, SyncKind};
use engine::{Error, Result, Superblock};

use crate::format::{self, Committed};
use crate::{Edit, SUPERBLOCK};

/// The chain of edits of an open store.
#[derive(Debug)]
pub struct Chain<E> {
    device: Arc<dyn Device>,
    superblock: Superblock,
    committed: Committed,
    /// Whether this process has written the current file.
    is_ours: bool,
    /// Bytes above which the file is rewritten, if that makes it shorter by half.
    bytes_max: u64,
    edits: PhantomData<fn(E)>,
}

/// The contents of a store.
#[derive(Debug, Default)]
pub struct Contents<E> {
    /// The current file, and how much of it counts.
    pub committed: Committed,
    /// All contents as one edit.
    pub edit: E,
}

/// Reads the current contents without changing anything; in an empty directory, returns nothing.
///
/// # Errors
/// Damage; that the superblock is missing and other files are there; the device's.
pub fn read<E: Edit>(device: &dyn Device) -> Result<Option<(Superblock, Contents<E>)>> {
    if !device.exists(SUPERBLOCK)? {
        let entries = device.list("")?;
        if entries.iter().any(|entry| E::KIND.is_ours(&entry.name)) {
            let what = "the superblock is missing, but the store has other files";
            return Err(Corruption::new(what, 0).at(SUPERBLOCK, 0).into());
        }
        return Ok(None);
    }
    let superblock = Superblock::open(device, SUPERBLOCK, E::KIND.superblock)?;
    let committed = Committed::decode(superblock.payload());
    let committed = committed.map_err(|damage| damage.at(SUPERBLOCK, 0))?;
    let edit = if committed.file == 0 { E::default() } else { load(device, &committed)? };
    Ok(Some((superblock, Contents { committed, edit })))
}

/// Returns the bytes of the chain's files on the device. An opening may write that much.
///
/// # Errors
/// The device's.
pub fn stored_bytes<E: Edit>(device: &dyn Device) -> Result<u64> {
    let files = device.list("")?.into_iter();
    let files = files.filter(|file| E::KIND.file_number(&file.name).is_some());
    files.map(|file| Ok(device.open(&file.name, Mode::Read)?.len()?)).sum()
}

/// Returns all edits of the file that `committed` names, as one.
fn load<E: Edit>(device: &dyn Device, committed: &Committed) -> Result<E> {
    let name = E::KIND.file_name(committed.file);
    let damaged = |what: String| Corruption::new(what, 0).at(&name, 0);
    let file = match device.open(&name, Mode::Read) {
        Err(device::Error::NotFound { .. }) => {
            return Err(damaged("the file of edits is missing".to_owned()).into());
        }
        file => file?,
    };
    let (bytes, expected) = (file.len()?, committed.bytes);
    if bytes < expected {
        let what = format!("a file of {expected} bytes of edits has {bytes}");
        return Err(damaged(what).into());
    }
    let mut content = vec![0; expected as usize];
    file.read_at(0, &mut content)?;
    Ok(format::decode(&content, committed).map_err(|damage| damage.at(&name, 0))?)
}

impl<E: Edit> Chain<E> {
    /// Begins with the result of [`read`], and removes other files of the chain that a crash has
    /// left. In an empty directory it makes an empty chain. A file of more than `bytes_max` bytes
    /// is rewritten, if that makes it shorter by half.
    ///
    /// # Errors
    /// The device's.
    pub fn begin(
        device: &Arc<dyn Device>,
        found: Option<(Superblock, Contents<E>)>,
        bytes_max: u64,
    ) -> Result<(Self, Contents<E>)> {
        let device = Arc::clone(device);
        let Some((superblock, contents)) = found else {
            let nothing = Contents { committed: Committed::default(), edit: E::default() };
            let payload = nothing.committed.encode();
            let kind = E::KIND.superblock;
            let superblock = Superblock::create(&*device, SUPERBLOCK, kind, &payload)?;
            let mut chain = Self::of(device, superblock, nothing.committed, bytes_max);
            chain.replace(nothing.committed.persisted, &nothing.edit)?;
            return Ok((chain, nothing));
        };
        let committed = contents.committed;
        let mut chain = Self::of(device, superblock, committed, bytes_max);
        for entry in chain.device.list("")? {
            let Some(number) = E::KIND.file_number(&entry.name) else { continue };
            if number != committed.file {
                chain.make_durable()?;
                chain.device.remove(&entry.name)?;
            }
        }
        Ok((chain, contents))
    }

    fn of(
        device: Arc<dyn Device>,
        superblock: Superblock,
        committed: Committed,
        bytes_max: u64,
    ) -> Self {
        Self { device, superblock, committed, is_ours: false, bytes_max, edits: PhantomData }
    }

    /// Makes the files that opening has found durable. The chain's file and the files that it names
    /// are, by N1.
    ///
    /// # Errors
    /// The device's.
    pub fn make_durable(&mut self) -> Result<()> {
        self.superblock.make_durable_in(&*self.device)
    }

    /// Begins the chain of a copy in an empty directory: durable on return, with its name.
    ///
    /// # Errors
    /// The device's.
    pub fn write_copy(device: &dyn Device, persisted: SeqNo, edit: &E) -> Result<()> {
        let committed = Committed { persisted, ..Committed::default() };
        let committed = write_file(device, &committed, edit)?;
        Superblock::create(device, SUPERBLOCK, E::KIND.superblock, &committed.encode())?;
        Ok(())
    }

    /// Checks that a directory has no store yet.
    ///
    /// # Errors
    /// [`device::Error::AlreadyExists`]; the device's.
    pub fn check_absent(device: &dyn Device) -> Result<()> {
        if device.exists(SUPERBLOCK)? {
            return Err(device::Error::AlreadyExists { name: SUPERBLOCK.to_owned() }.into());
        }
        Ok(())
    }

    /// Returns the number up to which every write is in the store's files.
    pub fn persisted(&self) -> SeqNo {
        self.committed.persisted
    }

    /// Commits an edit, and that every write up to `persisted` is in the store's files; `all`
    /// returns the contents after the edit. Durable on return. Two syncs; one if the edit is empty.
    ///
    /// # Errors
    /// The device's. If the error is retryable ([`Error::is_retryable`]), the edit does not count.
    /// After any other error it is unknown whether it does, and nothing more must be committed.
    pub fn commit(&mut self, edit: &E, persisted: SeqNo, all: impl FnOnce() -> E) -> Result<()> {
        let old = self.committed;
        let mut next = Committed { persisted: persisted.max(old.persisted), ..old };
        if edit.is_empty() {
            if next == old {
                return Ok(());
            }
        } else if !self.is_ours {
            return self.replace(next.persisted, &all());
        } else {
            let record = format::record(edit, &mut next);
            if old.bytes + record.len() as u64 > self.bytes_max {
                let all = all();
                if all.encode().len() as u64 * 2 < old.bytes {
                    match self.replace(next.persisted, &all) {
                        // The old one is longer than it needs to be; there is no other harm.
                        Err(error) if error.is_retryable() => {}
                        replaced => return replaced,
                    }
                }
            }
            let file = self.device.open(&E::KIND.file_name(old.file), Mode::Write)?;
            file.write_at(old.bytes, &record)?;
            file.sync(SyncKind::Data)?;
        }
        self.superblock.commit(&*self.device, &next.encode())?;
        self.committed = next;
        Ok(())
    }

    /// Writes another file, with one edit that has all contents.
    fn replace(&mut self, persisted: SeqNo, all: &E) -> Result<()> {
        let old = self.committed;
        let committed = write_file(&*self.device, &Committed { persisted, ..old }, all)?;
        let done = self.superblock.commit(&*self.device, &committed.encode());
        if done.as_ref().is_err_and(Error::is_retryable) {
            // The old one is still current, and another attempt makes a file of that name.
            self.remove_old(committed.file);
        }
        done?;
        (self.committed, self.is_ours) = (committed, true);
        self.remove_old(old.file);
        Ok(())
    }

    /// Removes a file that is not current any more. If that fails, the next opening of the store
    /// removes it.
    fn remove_old(&self, number: u64) {
        if number > 0 {
            let _ = self.device.remove(&E::KIND.file_name(number));
        }
    }
}

/// Writes a file of one edit, under the number after that of `committed`: durable, with its name.
fn write_file<E: Edit>(device: &dyn Device, committed: &Committed, edit: &E) -> Result<Committed> {
    let number = committed.file + 1;
    let mut next = Committed { file: number, ..*committed };
    let mut bytes = E::KIND.format.header(0).encode().to_vec();
    next.bytes = bytes.len() as u64;
    next.checksum = E::KIND.first_checksum(number);
    bytes.extend_from_slice(&format::record(edit, &mut next));
    let name = E::KIND.file_name(number);
    let file = create(device, &name)?;
    let written = file.write_at(0, &bytes).and_then(|()| file.sync(SyncKind::All));
    if let Err(error) = written.and_then(|()| device.sync_dir("")) {
        // Another attempt makes a file of that name.
        let _ = device.remove(&name);
        return Err(error.into());
    }
    Ok(next)
}

/// Makes a file, in the place of one that an attempt before could not remove again.
fn create(device: &dyn Device, name: &str) -> Result<Arc<dyn File>> {
    match device.open(name, Mode::CreateNew) {
        Err(device::Error::AlreadyExists { .. }) => {
            device.remove(name)?;
            Ok(device.open(name, Mode::CreateNew)?)
        }
        made => Ok(made?),
    }
}
