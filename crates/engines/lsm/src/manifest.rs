//! The manifest: the tables and range deletes of a store, as a chain of edits, and the superblock
//! that says how much of the chain counts.
//!
//! 1. The tables that an edit names are whole and durable, with their names.
//! 2. The edit is appended to the manifest, which is synced.
//! 3. The superblock is committed: it names the current manifest, its length, the checksum of the
//!    chain up to there, and the number up to which everything is in tables. From this moment the
//!    edit counts.
//! 4. The tables that the edit removes are removed from the device when no reader uses them any
//!    more.
//!
//! When the manifest has grown, step 2 writes another file instead, with one edit that names all
//! tables, and step 4 removes the old one. So does the first edit after an opening, since nothing
//! is appended to a file of which another process may have failed to make everything durable.
//! Opening itself writes nothing if a crash has left nothing to remove.
//!
//! No file stays open between two edits: a process may have many stores.
//!
//! # Invariants
//! - N1. The superblock names a manifest that is durable up to the length that it gives, and whose
//!   tables are durable. Bytes after that length were left by an edit that a crash cut short, and
//!   are not read.
//! - N2. Damage in between is found: every edit's checksum covers the one before it, and the
//!   superblock has the last.
//! - N3. After a failed write or sync nothing more is committed: the next record would overwrite
//!   one that the superblock may name. `Shared::commit` ensures this under the manifest's lock.
//!   Only if the edit's own write found no room, no superblock names it: then the next record
//!   overwrites it.

mod format;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::{Device, File, Mode, SyncKind};
use engine::{Error, Result, Superblock};

use format::SUPERBLOCK_KIND;
pub(crate) use format::{Edit, Standing};
pub(crate) use format::{FORMAT, SUPERBLOCK};
pub use format::{decode_edits, decode_standing};

use crate::planted::{Planted, is_planted};

/// The manifest of an open store.
#[derive(Debug)]
pub(crate) struct Manifest {
    device: Arc<dyn Device>,
    superblock: Superblock,
    standing: Standing,
    /// Whether this process has written the current manifest.
    is_ours: bool,
    /// Bytes above which the manifest is rewritten, if that makes it shorter by half.
    bytes_max: u64,
}

/// The content of a manifest: the tables of each level, and range deletes.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) standing: Standing,
    pub(crate) edit: Edit,
}

/// Reads the current content without changing anything; in an empty directory, returns nothing.
pub(crate) fn read(device: &dyn Device) -> Result<Option<(Superblock, Contents)>> {
    if !device.exists(SUPERBLOCK)? {
        let entries = device.list("")?;
        if entries.iter().any(|entry| format::is_ours(&entry.name)) {
            let what = "the superblock is missing beside tables or a manifest";
            return Err(Corruption::new(what, 0).at(SUPERBLOCK, 0).into());
        }
        return Ok(None);
    }
    let superblock = Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?;
    let standing = Standing::decode(superblock.payload());
    let standing = standing.map_err(|damage| damage.at(SUPERBLOCK, 0))?;
    let edit = if standing.manifest == 0 { Edit::default() } else { load(device, &standing)? };
    Ok(Some((superblock, Contents { standing, edit })))
}

/// Returns the bytes of the manifests on the device.
pub(crate) fn stored_bytes(device: &dyn Device) -> Result<u64> {
    let files = device.list("")?.into_iter();
    let manifests = files.filter(|file| format::file_number(&file.name).is_some());
    let bytes = manifests.map(|file| Ok(device.open(&file.name, Mode::Read)?.len()?));
    bytes.sum()
}

/// Returns all edits of the manifest that `standing` names, as one.
fn load(device: &dyn Device, standing: &Standing) -> Result<Edit> {
    let name = format::file_name(standing.manifest);
    let damaged = |what: String| Corruption::new(what, 0).at(&name, 0);
    let file = match device.open(&name, Mode::Read) {
        Err(device::Error::NotFound { .. }) => {
            return Err(damaged("the manifest is missing".to_owned()).into());
        }
        file => file?,
    };
    let (bytes, expected) = (file.len()?, standing.bytes);
    if bytes < expected {
        let what = format!("a manifest of {expected} bytes has {bytes}");
        return Err(damaged(what).into());
    }
    let mut content = vec![0; expected as usize];
    file.read_at(0, &mut content)?;
    Ok(format::decode(&content, standing).map_err(|damage| damage.at(&name, 0))?)
}

impl Manifest {
    /// Begins with the result of [`read`], and removes other manifests that a crash has left. In an
    /// empty directory it makes an empty manifest.
    pub(crate) fn begin(
        device: &Arc<dyn Device>,
        found: Option<(Superblock, Contents)>,
        bytes_max: u64,
    ) -> Result<(Self, Contents)> {
        let device = Arc::clone(device);
        let Some((superblock, contents)) = found else {
            let nothing = Contents::default();
            let (standing, is_ours) = (nothing.standing, false);
            let payload = standing.encode();
            let superblock = Superblock::create(&*device, SUPERBLOCK, SUPERBLOCK_KIND, &payload)?;
            let mut manifest = Self { device, superblock, standing, is_ours, bytes_max };
            manifest.replace(standing.persisted, &nothing.edit)?;
            return Ok((manifest, nothing));
        };
        let (standing, is_ours) = (contents.standing, false);
        let mut manifest = Self { device, superblock, standing, is_ours, bytes_max };
        for entry in manifest.device.list("")? {
            let Some(number) = format::file_number(&entry.name) else { continue };
            if number != standing.manifest {
                manifest.settle()?;
                manifest.device.remove(&entry.name)?;
            }
        }
        Ok((manifest, contents))
    }

    /// Makes the files that opening has found durable. The manifest and the tables are, by N1.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.superblock.settle_in(&*self.device)
    }

    /// Begins the manifest of a copy in an empty directory: durable on return, with its name.
    pub(crate) fn write_copy(device: &dyn Device, persisted: SeqNo, edit: &Edit) -> Result<()> {
        let standing = Standing { persisted, ..Standing::default() };
        let standing = write_anew(device, &standing, edit)?;
        Superblock::create(device, SUPERBLOCK, SUPERBLOCK_KIND, &standing.encode())?;
        Ok(())
    }

    /// Checks that a directory has no store yet.
    pub(crate) fn exists(device: &dyn Device) -> Result<()> {
        if device.exists(SUPERBLOCK)? {
            return Err(device::Error::AlreadyExists { name: SUPERBLOCK.to_owned() }.into());
        }
        Ok(())
    }

    /// Returns the number up to which everything is in tables.
    pub(crate) fn persisted(&self) -> SeqNo {
        self.standing.persisted
    }

    /// Commits an edit, and that everything up to `persisted` is in tables; `all` returns the
    /// tables that there are after the edit. Durable on return. Two syncs; one if the edit is
    /// empty.
    ///
    /// # Errors
    /// The storage's. If the error is retryable ([`Error::may_pass`]), the edit does not count.
    /// After any other error it is unknown whether it does, and nothing more must be committed.
    pub(crate) fn commit(
        &mut self,
        edit: &Edit,
        persisted: SeqNo,
        all: impl FnOnce() -> Edit,
    ) -> Result<()> {
        let old = self.standing;
        let mut next = Standing { persisted: persisted.max(old.persisted), ..old };
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
                if all.encoded_len() * 2 < old.bytes {
                    match self.replace(next.persisted, &all) {
                        // The old one is longer than it needs to be; there is no other harm.
                        Err(error) if error.may_pass() => {}
                        replaced => return replaced,
                    }
                }
            }
            let file = self.device.open(&format::file_name(old.manifest), Mode::Write)?;
            file.write_at(old.bytes, &record)?;
            if !is_planted(Planted::EditUnsynced) {
                file.sync(SyncKind::Data)?;
            }
        }
        self.superblock.commit(&*self.device, &next.encode())?;
        self.standing = next;
        Ok(())
    }

    /// Writes another manifest, with one edit that names all tables.
    fn replace(&mut self, persisted: SeqNo, all: &Edit) -> Result<()> {
        let old = self.standing;
        let standing = write_anew(&*self.device, &Standing { persisted, ..old }, all)?;
        if is_planted(Planted::ManifestRemovedEarly) {
            self.remove_old(old.manifest);
        }
        let committed = self.superblock.commit(&*self.device, &standing.encode());
        if committed.as_ref().is_err_and(Error::may_pass) {
            // The old one is still current, and another attempt makes a file of that name.
            self.remove_old(standing.manifest);
        }
        committed?;
        (self.standing, self.is_ours) = (standing, true);
        self.remove_old(old.manifest);
        Ok(())
    }

    /// Removes a manifest that is not current any more. If that fails, the next opening of the
    /// store removes it.
    fn remove_old(&self, number: u64) {
        if number > 0 {
            let _ = self.device.remove(&format::file_name(number));
        }
    }
}

/// Writes a manifest of one edit, under the number after that of `standing`: durable, with its
/// name.
fn write_anew(device: &dyn Device, standing: &Standing, edit: &Edit) -> Result<Standing> {
    let number = standing.manifest + 1;
    let mut next = Standing { manifest: number, ..*standing };
    let mut bytes = FORMAT.header(0).encode().to_vec();
    next.bytes = bytes.len() as u64;
    next.checksum = format::first_checksum(number);
    bytes.extend_from_slice(&format::record(edit, &mut next));
    let name = format::file_name(number);
    let file = create(device, &name)?;
    let written = file.write_at(0, &bytes).and_then(|()| file.sync(SyncKind::All));
    let named = written.and_then(|()| match is_planted(Planted::ManifestUnnamed) {
        true => Ok(()),
        false => device.sync_dir(""),
    });
    if let Err(error) = named {
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
