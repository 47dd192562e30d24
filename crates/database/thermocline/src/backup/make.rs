//! Making a backup, while the database runs.
//!
//! 1. Unfinished backups of an earlier crash are removed.
//! 2. The database is copied, as for a checkpoint, to a directory of an unfinished backup's name.
//! 3. Each file is read again and summed. If the backup before has one under the same name, with
//!    the same length and sum, the two are compared byte by byte. If they are equal, the file
//!    becomes a link to that one, if links can be made.
//! 4. The manifest is written, all of it made durable, and the directory renamed.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use device::{Mode, SyncKind};

use super::manifest::{FileSum, Manifest};
use super::{Backup, Backups, Progress, Stage, Whole, dir_name, files, unfinished_name};
use crate::copy_side::CopyTarget;
use crate::database::{Db, Inner};
use crate::error::{Error, Result};

/// Suffix of the name of a link until it takes the place of the file that it replaces.
const LINK: &str = ".link";

impl Db {
    /// Adds a backup of this database, as of some moment during the call, to `backups`. It is
    /// durable when this returns. Reads and writes continue meanwhile. While the data are copied
    /// ([`Stage::Copying`]), a call that makes, drops or clears a keyspace or changes its options
    /// waits, and so do [`crate::Ingestion::commit`] and another copy. [`Db::close`] breaks the
    /// backup off.
    ///
    /// The journal is not trimmed in this time. It grows by the bytes of all writes, also beyond
    /// [`crate::Options::journal_bytes`], and is trimmed in the background afterwards.
    ///
    /// All keyspaces with a journal are of one moment, with batches over several of them whole. One
    /// without is of a moment of its own during the call, as after a crash at that moment.
    ///
    /// Costs a copy of everything, also for a second backup: all data are written to `backups`, and
    /// read again for their checksums. Then a file whose bytes are equal to those of the backup
    /// before (a table of `lsm`, a full segment of `f2`) becomes a hard link to it, if the file
    /// system has links. So backups share space, and save neither time nor I/O. While it is made, a
    /// backup needs the space of a whole copy. A file of the backup before that was damaged later
    /// is not equal, so its damage is not shared.
    ///
    /// # Errors
    /// [`Error::OtherDatabase`]; [`Error::InUse`] while another backup is made there;
    /// [`Error::DamagedKeyspace`] while a keyspace is damaged, which can be dropped first; failures
    /// of either device ([`Error::Copy`]); [`Error::Closed`], also if the database is closed while
    /// it is copied. Then the copy is no backup; it is removed, at the latest when the next one is
    /// made.
    pub fn backup(&self, backups: &Backups, progress: &Progress) -> Result<Backup> {
        self.inner.lifecycle.check_open()?;
        let target = CopyTarget::new(Arc::clone(&backups.device), &backups.place);
        let observed = Backups { device: target.device(), place: backups.place.clone() };
        target.attribute(self.inner.backup(&observed, progress), &self.inner.directory.place)
    }
}

impl Inner {
    fn backup(&self, backups: &Backups, progress: &Progress) -> Result<Backup> {
        let _lock = backups.lock()?;
        let id = self.keyspaces.catalog.lock().id;
        let before = backups.newest_of(id)?;
        let number = backups.numbers()?.last().map_or(1, |newest| newest + 1);
        backups.remove_unfinished()?;
        let made = self.make_backup(backups, number, before.as_ref(), progress);
        if made.is_err() {
            // Otherwise it takes room that the database needs to be opened. Files that cannot be
            // removed now are removed when the next one is made.
            let _ = backups.device.remove_dir(&unfinished_name(number));
        }
        made
    }

    /// Steps 2 to 4.
    fn make_backup(
        &self,
        backups: &Backups,
        number: u64,
        before: Option<&Whole>,
        progress: &Progress,
    ) -> Result<Backup> {
        let unfinished = unfinished_name(number);
        let made_at_ms = self.options.environment.wall().as_millis();
        let newest = self.order.sequence.visible();

        let target = backups.device.subdevice(&unfinished)?;
        let total_bytes = self.stats().disk_bytes();
        let watching =
            progress.watch(Stage::Copying, total_bytes, &target, |counts| counts.write_bytes);
        let catalog = self.copy_into(&target)?;
        drop(watching);

        let whole = Whole {
            dir: unfinished,
            number,
            manifest: Manifest {
                made_at_ms: u64::try_from(made_at_ms).unwrap_or(u64::MAX),
                newest,
                shared_bytes: 0,
                catalog: catalog.encode(),
                files: Vec::new(),
            },
        };
        backups.finish(whole, before, progress)
    }
}

impl Backups {
    /// Returns the newest whole backup, which must be of the database `id`. One whose manifest is
    /// damaged is passed over: it has nothing to share, and a further backup can still be made.
    fn newest_of(&self, id: [u8; 16]) -> Result<Option<Whole>> {
        for number in self.numbers()?.into_iter().rev() {
            let loaded = self
                .load(number)
                .and_then(|whole| whole.map(|whole| Ok((whole.catalog()?.id, whole))).transpose());
            match loaded {
                Ok(Some((of, whole))) if of == id => return Ok(Some(whole)),
                Ok(Some(_)) => return Err(Error::OtherDatabase { path: self.place.clone() }),
                Ok(None) => {}
                Err(error) if error.corruption().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn remove_unfinished(&self) -> Result<()> {
        let unfinished = self.entries()?.into_iter().filter(|(_, named_whole)| !named_whole);
        for (number, _) in unfinished {
            self.device.remove_dir(&unfinished_name(number))?;
        }
        Ok(())
    }

    /// Steps 3 and 4.
    fn finish(
        &self,
        mut whole: Whole,
        before: Option<&Whole>,
        progress: &Progress,
    ) -> Result<Backup> {
        let names = files::list(&*self.device, &whole.dir)?;
        let mut total_bytes = 0;
        for name in &names {
            let file = self.device.open(&files::under(&whole.dir, name), Mode::Read)?;
            total_bytes += file.len()?;
        }
        progress.begin(Stage::Summing, total_bytes);
        for name in &names {
            let sum = files::sum(&*self.device, &whole.dir, name, progress)?;
            let alike = before.filter(|before| before.manifest.has(&sum));
            if let Some(before) = alike
                && self.share(before, &whole.dir, &sum)?
            {
                whole.manifest.shared_bytes += sum.bytes;
            } else {
                // Engines need not have synced files that they can do without.
                self.device
                    .open(&files::under(&whole.dir, name), Mode::Read)?
                    .sync(SyncKind::All)?;
            }
            whole.manifest.files.push(sum);
        }
        for dir in files::dirs(names.iter().map(String::as_str)) {
            self.device.sync_dir(&device::join(&whole.dir, dir))?;
        }
        whole.manifest.store(&*self.device, &whole.dir)?;
        self.device.sync_dir(&whole.dir)?;
        let described = whole.describe()?;
        self.device.rename_synced(&whole.dir, &dir_name(whole.number))?;
        Ok(described)
    }

    /// Has the file in `dir` take no space of its own, if its bytes are those of the backup before.
    fn share(&self, before: &Whole, dir: &str, sum: &FileSum) -> Result<bool> {
        let (old, new) = (files::under(&before.dir, &sum.name), files::under(dir, &sum.name));
        // A checksum of four bytes does not make two files one.
        if !files::same(&*self.device, &old, &new)? {
            return Ok(false);
        }
        let link = format!("{new}{LINK}");
        if self.device.link(&old, &link).is_err() {
            // Not every file system has links, nor any number of them; the copy is as good.
            return Ok(false);
        }
        self.device.rename(&link, &new)?;
        Ok(true)
    }
}
