//! A database from a backup.
//!
//! 1. The target must be new or empty.
//! 2. Each file is copied, and its length and sum compared with those of the manifest.
//! 3. Everything is verified in its new place, like `thermocline check` does.
//! 4. The catalog is written. Without it the directory is no database, so a crash before this
//!    leaves none.
//!
//! A failure removes the files that it has written.

use std::path::Path;
use std::sync::Arc;

use device::Device;

use super::{Backup, Backups, Progress, Stage, Whole, files};
use crate::catalog;
use crate::check::{Report, check_content};
use crate::copy_side::{CopySide, CopyTarget};
use crate::directory::make_lock_file;
use crate::error::{Error, Result};
use crate::open::{JOURNAL_DIR, KEYSPACES_DIR, LOCK_FILE, check_place};

impl Backups {
    /// Makes a database in `path`, a new or empty directory, from the backup `number`, or from the
    /// newest. Everything was verified and is durable when this returns.
    ///
    /// The database is the one of which the backup was made: it has its id, and its further backups
    /// may be added to the same directory. If the original is still in use, only one of the two may
    /// be backed up there: nothing distinguishes their backups.
    ///
    /// Takes no lock. If the backup is removed meanwhile, the call fails.
    ///
    /// A call that fails removes the files that it has written. After a killed process they stay,
    /// and are no database: a second call gets [`Error::NotEmpty`]. Remove the directory, and
    /// restore again.
    ///
    /// # Errors
    /// [`Error::NoBackup`], also for one that was cut off; [`Error::NotEmpty`];
    /// [`Error::AmongBackups`]; damage of the backup with its place. Then there is no database.
    pub fn restore(
        &self,
        number: Option<u64>,
        path: impl AsRef<Path>,
        progress: &Progress,
    ) -> Result<Backup> {
        let path = path.as_ref();
        check_place(path, true)?;
        if self.lie_around(path) {
            let path = path.display().to_string();
            return Err(Error::AmongBackups { path, backups: self.place.clone() });
        }
        // Before the directory is made.
        self.pick(number)?;
        let target = device::open(path, device::Options::default())?;
        let restored = self.restore_on(number, &target, &path.display().to_string(), progress)?;
        device::sync_name(path)?;
        Ok(restored)
    }

    /// The same to any device; `place` is what messages call it.
    ///
    /// # Errors
    /// As [`Backups::restore`].
    pub fn restore_on(
        &self,
        number: Option<u64>,
        target: &Arc<dyn Device>,
        place: &str,
        progress: &Progress,
    ) -> Result<Backup> {
        let whole = self.pick(number)?;
        if !target.list("")?.is_empty() {
            return Err(Error::NotEmpty { path: place.to_owned() });
        }
        let observed = CopyTarget::new(Arc::clone(target), place);
        let written = self.write(&whole, (&observed.device(), place), progress);
        match observed.attribute(written, &self.place) {
            Ok(()) => whole.describe(),
            Err(error) => {
                // The first failure is the one to report; files that stay are no database.
                let _ = clear(&**target, &whole);
                Err(error)
            }
        }
    }

    /// Returns whether the directory of backups is `path` or one of those above it.
    fn lie_around(&self, path: &Path) -> bool {
        let Ok(backups) = Path::new(&self.place).canonicalize() else { return false };
        // The target may not be there yet.
        let there = std::path::absolute(path).unwrap_or_default();
        there
            .ancestors()
            .find_map(|dir| dir.canonicalize().ok())
            .is_some_and(|dir| dir.starts_with(backups))
    }

    /// Steps 2 to 4.
    fn write(
        &self,
        whole: &Whole,
        (target, place): (&Arc<dyn Device>, &str),
        progress: &Progress,
    ) -> Result<()> {
        let catalog = whole.catalog()?;
        let known = &whole.manifest.files;
        progress.begin(Stage::Copying, whole.manifest.bytes());
        let mut dirs = files::dirs(known.iter().map(|file| file.name.as_str()));
        // They may be empty, and belong to a database.
        dirs.extend([JOURNAL_DIR, KEYSPACES_DIR]);
        dirs.iter().try_for_each(|dir| target.create_dir(dir))?;
        make_lock_file(&**target)?;
        for file in known {
            let copied = files::copy(&*self.device, &whole.dir, &file.name, &**target, progress);
            files::compare(copied, file, &whole.dir)?;
        }
        for dir in dirs.into_iter().chain([""]) {
            target.sync_dir(dir)?;
        }
        let read = |counts: device::IoCounts| counts.read_bytes;
        let _watching = progress.watch(Stage::Verifying, whole.manifest.bytes(), target, read);
        let mut report = Report::default();
        check_content(target, &catalog, &mut report)?;
        match report.damage.into_iter().next() {
            Some(damage) => Err(CopySide::Target.fail(place, damage.into())),
            None => catalog.store(&**target),
        }
    }
}

/// Removes the files that a restoring writes, which were not there before, and nothing else.
fn clear(target: &dyn Device, whole: &Whole) -> Result<()> {
    for file in &whole.manifest.files {
        match target.remove(&file.name) {
            Ok(()) | Err(device::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for name in [catalog::FILE_NEXT, catalog::FILE, LOCK_FILE] {
        if target.exists(name)? {
            target.remove(name)?;
        }
    }
    let names = whole.manifest.files.iter().map(|file| file.name.as_str());
    let mut dirs = files::dirs(names);
    dirs.extend([JOURNAL_DIR, KEYSPACES_DIR]);
    dirs.sort_unstable();
    // Directories within others come first.
    dirs.into_iter().rev().try_for_each(|dir| target.remove_empty_dir(dir).map(drop))?;
    Ok(())
}
