//! Offline verification of everything in a database directory.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::CheckReport;
use journal::ReplayError;

use crate::catalog::{self, Catalog, Entry};
use crate::damaged;
use crate::directory::{check_still_unlocked, lock_to_read};
use crate::drivers::EngineKind;
use crate::error::{Error, Result};
use crate::open::{JOURNAL_DIR, check_place, foreign_journal, missing_journal, unknown_keyspace};
use crate::owner;
use crate::record;

/// The findings of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The parts that were checked, damaged or not, in the order of the check.
    pub checked: Vec<Checked>,
    /// Every piece of damage, with its place: of all of them the first [`DAMAGE_MAX`].
    pub damage: Vec<Corruption>,
    /// How many more there are.
    pub further_damage: u64,
}

/// Pieces of damage that a report lists.
pub const DAMAGE_MAX: usize = 100;

/// One part of a database that a check looked at; shows as a line for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The catalog.
    Catalog {
        /// Keyspaces that it names.
        keyspaces: u64,
    },
    /// The journal.
    Journal {
        /// Whole records.
        records: u64,
        /// Bytes of its files.
        bytes: u64,
        /// Its files.
        segments: u64,
    },
    /// A keyspace's own files. Data that only the journal has is not counted here.
    Keyspace {
        /// Its name.
        name: String,
        /// The engine that stores it.
        engine: EngineKind,
        /// Pairs. For `f2` these are records of its logs, and for `lsm` entries of its tables: old
        /// versions and tombstones included.
        pairs: u64,
        /// Bytes of their keys and values; of `f2`, of its logs of records.
        pair_bytes: u64,
        /// Every write to it up to here is in these files.
        persisted: SeqNo,
    },
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Catalog { keyspaces } => write!(f, "catalog: {keyspaces} keyspaces"),
            Self::Journal { records, bytes, segments } => {
                write!(f, "journal: {records} records, {bytes} bytes, {segments} segments")
            }
            Self::Keyspace { name, engine, pairs, pair_bytes, persisted } => {
                let counted = engine.driver().counted;
                write!(
                    f,
                    "keyspace {name}: {pairs} {counted}; {pair_bytes} bytes in its own files, \
                     every write up to {persisted}"
                )
            }
        }
    }
}

impl Report {
    /// Returns whether nothing is damaged.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }

    /// Returns the number of pieces of damage that were found, listed or not.
    pub fn damage_count(&self) -> u64 {
        self.damage.len() as u64 + self.further_damage
    }

    fn extend(&mut self, damage: impl IntoIterator<Item = Corruption>) {
        list(damage, &mut self.damage, &mut self.further_damage);
    }
}

/// Adds damage to the list, as far as there is room, and counts the rest.
pub(crate) fn list(
    damage: impl IntoIterator<Item = Corruption>,
    listed: &mut Vec<Corruption>,
    further: &mut u64,
) {
    for damage in damage {
        match listed.len() < DAMAGE_MAX {
            true => listed.push(damage),
            false => *further += 1,
        }
    }
}

/// Verifies every byte of the database in `path` that has a checksum. It changes nothing, so the
/// database may be on a file system that is mounted read-only. It must not be open for writing
/// anywhere. The check continues behind damage, at the next segment of the journal, keyspace, table
/// of `lsm`, record of `f2`, interval of `flexdb` or segment of `hashkv`. If a segment or the index
/// of `hashkv` is damaged, the pairs of that keyspace are not counted.
///
/// # Errors
/// [`Error::NotADatabase`], [`Error::NotADirectory`], [`Error::InUse`], [`Error::NewerVersion`],
/// device errors. Damage is no error here: the report lists it.
pub fn check(path: impl AsRef<Path>) -> Result<Report> {
    let path = path.as_ref();
    check_place(path, false)?;
    check_on(device::open(path, device::Options::default())?, &path.display().to_string())
}

/// The same on any device; `place` is its name in messages.
///
/// # Errors
/// As [`check`].
pub fn check_on(device: Arc<dyn Device>, place: &str) -> Result<Report> {
    let mut report = Report::default();
    let catalog = match Catalog::existing(&*device, place) {
        Ok(catalog) => catalog,
        Err(error) => {
            return match error.corruption() {
                Some(corruption) => {
                    report.damage.push(corruption.clone());
                    Ok(report)
                }
                None => Err(error),
            };
        }
    };
    let lock = lock_to_read(&*device, place)?;
    // Files are opened as if for writing, but may be in a place that cannot be written.
    check_content(&device::overlay(Arc::clone(&device)), &catalog, &mut report)?;
    if lock.is_none() {
        check_still_unlocked(&*device, place)?;
    }
    Ok(report)
}

/// Verifies all that belongs to `catalog`, which need not be in the directory yet.
pub(crate) fn check_content(
    device: &Arc<dyn Device>,
    catalog: &Catalog,
    report: &mut Report,
) -> Result<()> {
    report.checked.push(Checked::Catalog { keyspaces: catalog.keyspaces.len() as u64 });
    report.extend(owner::older_than(&**device, catalog)?);
    report.extend(missing_journal(&**device, catalog)?);
    let foreign = foreign_journal(&**device, catalog)?;
    let is_own = foreign.is_none();
    report.extend(foreign);
    let last = if is_own { check_journal(device, report)? } else { None };
    let mut oldest: Option<SeqNo> = None;
    for entry in &catalog.keyspaces {
        let files = check_keyspace(device, catalog.id, entry, report)?;
        let Some(files) = files.filter(|_| entry.options.journaled) else { continue };
        report.extend(last.as_ref().and_then(|last| last.is_behind(entry, files.newest)));
        oldest = oldest.into_iter().chain([files.persisted]).min();
    }
    if !is_own {
        return Ok(());
    }
    report.extend(missing_behind(&**device, oldest)?);
    report.extend(unknown_keyspaces(&**device, catalog, oldest)?);
    Ok(())
}

/// Returns the damage if the journal lacks records that follow the writes in the files of journaled
/// keyspaces. The `oldest` of these keyspaces has every write up to this number in its own files.
pub(crate) fn missing_behind(
    device: &dyn Device,
    oldest: Option<SeqNo>,
) -> Result<Option<Corruption>> {
    let Some(oldest) = oldest else { return Ok(None) };
    Ok(journal::missing_from(device, JOURNAL_DIR, oldest.next())?)
}

/// The last record of a journal that is whole.
pub(crate) struct LastRecord {
    number: SeqNo,
    /// The segment that it is in, or the newest one.
    file: String,
}

impl LastRecord {
    pub(crate) fn of(journal: &journal::Report) -> Option<Self> {
        let newest = journal.segments.last().filter(|_| journal.is_whole())?;
        Some(Self { number: newest.last, file: newest.file.clone() })
    }

    /// Returns the damage if the files of a keyspace hold data of write `newest`, which is not in
    /// the journal: no effect of a write is durable before the write is durable in the journal.
    pub(crate) fn is_behind(&self, entry: &Entry, newest: SeqNo) -> Option<Corruption> {
        (newest > self.number).then(|| {
            let what = format!(
                "the journal ends with record {}, but the files of {entry} hold data of record {newest}",
                self.number
            );
            Corruption::new(what, 0).at(&self.file, 0)
        })
    }
}

/// Returns the damage if the journal has records of keyspaces that the catalog has never known.
/// Only the records that an opening would replay are read; they are above the number `oldest`.
pub(crate) fn unknown_keyspaces(
    device: &dyn Device,
    catalog: &Catalog,
    oldest: Option<SeqNo>,
) -> Result<Option<Corruption>> {
    if !device.exists(JOURNAL_DIR)? {
        return Ok(None);
    }
    let mut found = None;
    let mut visit = |seqno: SeqNo, payload: &[u8]| -> std::result::Result<(), ReplayError> {
        let steps = record::decode(payload).map_err(Error::from)?;
        found = unknown_keyspace(catalog, seqno, &steps);
        match found {
            // No need to read on.
            Some(_) => Err(Box::new(Error::Closed)),
            None => Ok(()),
        }
    };
    let from = oldest.unwrap_or(catalog.newest).next();
    match journal::read(device, JOURNAL_DIR, from, &mut visit) {
        Err(journal::OpenError::Device(error)) => Err(error.into()),
        // Other damage is reported already.
        _ => Ok(found),
    }
}

fn check_journal(device: &Arc<dyn Device>, report: &mut Report) -> Result<Option<LastRecord>> {
    let found = match device.exists(JOURNAL_DIR)? {
        true => journal::check(&**device, JOURNAL_DIR)?,
        false => journal::Report::default(),
    };
    report.checked.push(Checked::Journal {
        records: found.segments.iter().map(|segment| segment.records).sum(),
        bytes: found.segments.iter().map(|segment| segment.bytes).sum(),
        segments: found.segments.len() as u64,
    });
    let last = LastRecord::of(&found);
    report.extend(found.damage);
    Ok(last)
}

/// Returns the findings in its files, if they are whole.
fn check_keyspace(
    device: &Arc<dyn Device>,
    database: [u8; 16],
    entry: &Entry,
    report: &mut Report,
) -> Result<Option<KeyspaceFiles>> {
    if let Err(error) = catalog::check_present(&**device, database, entry) {
        let damage = error.corruption().cloned();
        report.extend([damage.ok_or(error)?]);
        return Ok(None);
    }
    let files = check_files(device, entry)?;
    report.checked.push(Checked::Keyspace {
        name: entry.name.clone(),
        engine: entry.options.engine,
        pairs: files.pairs,
        pair_bytes: files.pair_bytes,
        persisted: files.persisted,
    });
    if files.damage.is_empty() {
        return Ok(Some(files));
    }
    report.extend(files.damage);
    report.further_damage += files.further_damage;
    Ok(None)
}

/// The findings of an engine's own check in the files of one keyspace.
pub(crate) type KeyspaceFiles = CheckReport;

/// Checks the files of `entry`, whose directory is there. Damage names files in the database.
pub(crate) fn check_files(device: &Arc<dyn Device>, entry: &Entry) -> Result<KeyspaceFiles> {
    let dir = entry.dir();
    let device = device.subdevice(&dir)?;
    match (entry.options.engine.driver().check)(&device) {
        Ok(found) => {
            let damage = found.damage.into_iter().map(|damage| damage.in_dir(&dir));
            Ok(KeyspaceFiles { damage: damage.collect(), ..found })
        }
        // A file that is missing, or too short.
        Err(failure) => {
            let damage = vec![damaged::damage_of(failure.in_dir(&dir).into())?];
            Ok(KeyspaceFiles { damage, ..KeyspaceFiles::default() })
        }
    }
}
