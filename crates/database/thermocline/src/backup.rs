//! A directory of backups of one database: made while it runs, verified, restored.
//!
//! ```text
//! BACKUPS/
//!   LOCK                       locked by the process that makes or removes a backup
//!   backup-000001/             a whole one
//!     BACKUP                   its manifest: the catalog, and the length and checksum of each file
//!     journal/ keyspaces/      the files of a checkpoint (`checkpoint.rs`)
//!   backup-000002.unfinished/  one that was cut off, or is being made or removed
//! ```
//!
//! 1. *Make* (`make.rs`): The database is copied to an unfinished backup. Each of its files is read
//!    again and summed. A file that the backup before has as well becomes a link to it. Then the
//!    manifest is written, and a rename makes the backup a whole one.
//! 2. *Restore* (`restore.rs`): Each file is copied and compared with its sum. Everything is then
//!    verified where it was written to, and the catalog comes last. Until then the new directory is
//!    no database.
//! 3. *Remove*: The backup is renamed to an unfinished one, then removed.
//!
//! # Invariants
//! - B1. A directory with the name of a whole backup holds a manifest and all that it names,
//!   durable: the name is given last and taken first.
//! - B2. Files of a whole backup are never written to, so backups may share them.
//! - B3. A backup is no database and cannot be opened as one: its catalog is in the manifest. A
//!   program that opened it would write to files that other backups share.
//! - B4. The backups of a directory are of one database, by the id in its catalog.

mod files;
mod make;
mod manifest;
mod progress;
mod restore;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use codec::SeqNo;
use device::{Device, File};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::open::{LOCK_FILE, in_use};

use manifest::Manifest;
pub use progress::{Progress, Stage};

/// Prefix of the names of backups; six digits or more follow.
const PREFIX: &str = "backup-";
/// Suffix of the name of a backup that is not whole.
const UNFINISHED: &str = ".unfinished";

/// A directory of backups.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (path, copies) = (dir.path().join("db"), dir.path().join("b"));
/// # let elsewhere = dir.path().join("e");
/// use thermocline::{Backups, Db, Options, Progress};
/// let db = Db::open(&path, Options::default())?;
/// let users = db.keyspace("users", Default::default())?;
/// users.put(b"ada", b"analyst")?;
///
/// let backups = Backups::open(&copies)?;
/// let first = db.backup(&backups, &Progress::default())?;
/// users.put(b"ada", b"countess")?;
/// let second = db.backup(&backups, &Progress::default())?;
/// assert_eq!(backups.list()?, [first.clone(), second]);
///
/// backups.restore(Some(first.number), &elsewhere, &Progress::default())?;
/// let before = Db::open(&elsewhere, Options::default())?.existing_keyspace("users")?;
/// assert_eq!(before.get(b"ada")?.as_deref(), Some(&b"analyst"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Backups {
    device: Arc<dyn Device>,
    /// The directory's name in messages.
    place: String,
}

/// A description of one whole backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Each has a higher one than those before it.
    pub number: u64,
    /// When it was begun, in milliseconds since the Unix epoch.
    pub made_at_ms: u64,
    /// Every write up to this number is in it.
    pub newest: SeqNo,
    /// Keyspaces in it.
    pub keyspaces: u64,
    /// Files in it.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of the files that the backup before had as well; they take no space of their own.
    pub shared_bytes: u64,
}

/// A whole backup, and the contents of its manifest.
#[derive(Debug)]
struct Whole {
    /// The name of its directory.
    dir: String,
    number: u64,
    manifest: Manifest,
}

impl Whole {
    /// Returns the description of this backup.
    fn describe(&self) -> Result<Backup> {
        let Manifest { made_at_ms, newest, shared_bytes, files, .. } = &self.manifest;
        Ok(Backup {
            number: self.number,
            made_at_ms: *made_at_ms,
            newest: *newest,
            keyspaces: self.catalog()?.keyspaces.len() as u64,
            files: files.len() as u64,
            bytes: self.manifest.bytes(),
            shared_bytes: *shared_bytes,
        })
    }

    /// Returns the catalog of the database that it is of.
    fn catalog(&self) -> Result<Catalog> {
        Catalog::decode(&self.manifest.catalog)
    }
}

/// Returns a backup's number and whether it is whole; `None` for a name of another kind.
fn parse(name: &str) -> Option<(u64, bool)> {
    let numbered = name.strip_suffix(UNFINISHED).unwrap_or(name);
    let digits = numbered.strip_prefix(PREFIX)?;
    let number = digits.parse().ok().filter(|number| dir_name(*number) == numbered)?;
    Some((number, numbered.len() == name.len()))
}

fn dir_name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

fn unfinished_name(number: u64) -> String {
    format!("{}{UNFINISHED}", dir_name(number))
}

fn entry_name(number: u64, named_whole: bool) -> String {
    if named_whole { dir_name(number) } else { unfinished_name(number) }
}

impl Backups {
    /// Opens the backups in the directory `path`, which is made if there is none.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::NotBackups`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        crate::open::check_place(path, true)?;
        let backups = Self::open_on(
            device::open(path, device::Options::default())?,
            &path.display().to_string(),
        )?;
        device::sync_name(path)?;
        Ok(backups)
    }

    /// Returns the backups in the directory `path`, if there are any. A directory that holds none
    /// is not made, nor is it an error.
    ///
    /// # Errors
    /// Those of the device.
    pub fn find(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Ok(None);
        }
        match Self::open(path) {
            Ok(backups) if backups.entries()?.is_empty() => Ok(None),
            Ok(backups) => Ok(Some(backups)),
            Err(Error::NotBackups { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the backups on any device; `place` is its name in messages.
    ///
    /// # Errors
    /// [`Error::NotBackups`].
    pub fn open_on(device: Arc<dyn Device>, place: &str) -> Result<Self> {
        let backups = Self { device, place: place.to_owned() };
        backups.entries()?;
        Ok(backups)
    }

    /// Returns the whole backups, oldest first. Reads their manifests, and leaves out the ones
    /// whose manifest is damaged ([`Backups::damaged`]).
    ///
    /// # Errors
    /// Those of the device.
    pub fn list(&self) -> Result<Vec<Backup>> {
        Ok(self.described()?.into_iter().filter_map(|(_, described)| described.ok()).collect())
    }

    /// Returns the backups whose manifests are damaged, by their numbers, and the damage with its
    /// place.
    ///
    /// # Errors
    /// Those of the device.
    pub fn damaged(&self) -> Result<Vec<(u64, Error)>> {
        let described = self.described()?.into_iter();
        Ok(described.filter_map(|(number, described)| Some((number, described.err()?))).collect())
    }

    /// Returns the description in every manifest, or its damage.
    fn described(&self) -> Result<Vec<(u64, Result<Backup>)>> {
        let mut all = Vec::new();
        for number in self.numbers()? {
            match self.load(number).and_then(|whole| whole.map(|one| one.describe()).transpose()) {
                Ok(described) => all.extend(described.map(|described| (number, Ok(described)))),
                Err(error) if error.corruption().is_some() => all.push((number, Err(error))),
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Reads every file of a backup, the newest unless its number is given, and compares it with
    /// its sum. Changes nothing, and takes no lock: a backup that is removed meanwhile is an error.
    ///
    /// This shows that the files are the ones that were copied. [`Backups::restore`] also verifies
    /// every record in them.
    ///
    /// # Errors
    /// [`Error::NoBackup`]; the first damage, with its place. The backup stays, and cannot be
    /// restored; neither can other backups that share the damaged bytes.
    pub fn verify(&self, number: Option<u64>, progress: &Progress) -> Result<Backup> {
        let whole = self.pick(number)?;
        progress.begin(Stage::Summing, whole.manifest.bytes());
        for known in &whole.manifest.files {
            let found = files::sum(&*self.device, &whole.dir, &known.name, progress);
            files::compare(found, known, &whole.dir)?;
        }
        whole.describe()
    }

    /// Removes all backups older than the newest `count` whole ones, and returns the number of
    /// removed ones. A backup whose manifest is missing or damaged does not count, and is removed
    /// if it is older. With a `count` of 0 all are removed.
    ///
    /// It reads only manifests, so a backup with another damaged file counts as a whole one. Call
    /// [`Backups::verify`] first, and [`Backups::remove`] for a backup that is not sound.
    ///
    /// # Errors
    /// [`Error::InUse`] while another call makes or removes backups there; failures of the device.
    pub fn keep(&self, count: usize) -> Result<usize> {
        let _lock = self.lock()?;
        let mut numbers = self.numbers()?;
        if count > 0 {
            let whole = self.list()?;
            let oldest_kept = whole.len().checked_sub(count).map(|at| whole[at].number);
            numbers.retain(|number| oldest_kept.is_some_and(|oldest| *number < oldest));
        }
        numbers.iter().try_for_each(|number| self.remove_locked(*number))?;
        Ok(numbers.len())
    }

    /// Removes one backup, whether or not it is sound. Files that it shares with others stay.
    ///
    /// # Errors
    /// [`Error::NoBackup`]; [`Error::InUse`] while another call makes or removes backups there;
    /// failures of the device.
    pub fn remove(&self, number: u64) -> Result<()> {
        let _lock = self.lock()?;
        if !self.numbers()?.contains(&number) {
            let path = self.place.clone();
            return Err(Error::NoBackup { path, number: Some(number), cut_off: None });
        }
        self.remove_locked(number)
    }

    /// Removes a backup. The lock is held. A crash leaves it whole or unfinished.
    fn remove_locked(&self, number: u64) -> Result<()> {
        let unfinished = unfinished_name(number);
        self.device.remove_dir(&unfinished)?;
        self.device.rename_synced(&dir_name(number), &unfinished)?;
        Ok(self.device.remove_dir(&unfinished)?)
    }

    /// Takes the lock by which one process at a time makes and removes backups.
    fn lock(&self) -> Result<Arc<dyn File>> {
        self.device.lock(LOCK_FILE).map_err(|error| in_use(error, &self.place))
    }

    /// Returns all backups by number, and whether their names are those of whole ones.
    fn entries(&self) -> Result<Vec<(u64, bool)>> {
        let mut found = Vec::new();
        for entry in self.device.list("")? {
            match parse(&entry.name).filter(|_| entry.is_dir) {
                Some(numbered) => found.push(numbered),
                None if entry.name == LOCK_FILE => {}
                None => {
                    return Err(Error::NotBackups { path: self.place.clone(), found: entry.name });
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Returns the numbers of the backups with the name of a whole one, ascending. Reads no file of
    /// them.
    ///
    /// # Errors
    /// [`Error::NotBackups`]; those of the device.
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let whole = self.entries()?.into_iter().filter(|(_, named_whole)| *named_whole);
        Ok(whole.map(|(number, _)| number).collect())
    }

    /// Returns a backup by its number; `None` for one without a manifest, which was copied in part.
    fn load(&self, number: u64) -> Result<Option<Whole>> {
        let dir = dir_name(number);
        let manifest = Manifest::load(&*self.device, &dir)?;
        Ok(manifest.map(|manifest| Whole { dir, number, manifest }))
    }

    /// Returns the backup of that number, or the newest.
    fn pick(&self, number: Option<u64>) -> Result<Whole> {
        let mut cut_off = None;
        for (known, named_whole) in self.entries()?.into_iter().rev() {
            if number.is_some_and(|number| number != known) {
                continue;
            }
            let whole = if named_whole { self.load(known)? } else { None };
            match whole {
                Some(whole) => return Ok(whole),
                None => cut_off = cut_off.or(Some(entry_name(known, named_whole))),
            }
        }
        Err(Error::NoBackup { path: self.place.clone(), number, cut_off })
    }
}
