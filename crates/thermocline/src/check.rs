//! Offline verification of everything in a database directory.

use std::path::Path;
use std::sync::Arc;

use codec::Corruption;
use device::Device;

use crate::catalog::{Catalog, Entry};
use crate::error::{Error, Result};
use crate::open::{JOURNAL_DIR, LOCK_FILE};
use crate::options::EngineKind;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was looked at, in words, one line each.
    pub checked: Vec<String>,
    /// Every piece of damage, with its place.
    pub damage: Vec<Corruption>,
}

impl Report {
    /// Whether nothing is damaged.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Verifies every byte of the database in `path` that has a checksum, and changes nothing. The
/// database must not be open.
///
/// # Errors
/// [`Error::NotADatabase`], [`Error::InUse`], [`Error::NewerVersion`], device errors. Damage is no
/// error here but what the report is about.
pub fn check(path: impl AsRef<Path>) -> Result<Report> {
    let path = path.as_ref();
    let place = path.display().to_string();
    if !path.is_dir() {
        return Err(Error::NotADatabase { path: place, found: None });
    }
    check_on(device::open(path, device::Options::default())?, &place)
}

/// The same on any device; `place` is what messages call it.
///
/// # Errors
/// As [`check`].
pub fn check_on(device: Arc<dyn Device>, place: &str) -> Result<Report> {
    let mut report = Report::default();
    let catalog = match Catalog::load(&*device) {
        Ok(Some(catalog)) => catalog,
        Ok(None) => return Err(Error::NotADatabase { path: place.to_owned(), found: None }),
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
    let _lock = device.lock(LOCK_FILE).map_err(|error| match error {
        device::Error::Locked { .. } => Error::InUse { path: place.to_owned() },
        other => other.into(),
    })?;
    report.checked.push(format!("catalog: {} keyspaces", catalog.keyspaces.len()));
    check_journal(&device, &mut report)?;
    for entry in &catalog.keyspaces {
        check_keyspace(&device, entry, &mut report)?;
    }
    Ok(report)
}

fn check_journal(device: &Arc<dyn Device>, report: &mut Report) -> Result<()> {
    let found = journal::check(&**device, JOURNAL_DIR)?;
    let records: u64 = found.segments.iter().map(|segment| segment.records).sum();
    let bytes: u64 = found.segments.iter().map(|segment| segment.bytes).sum();
    let count = found.segments.len();
    report.checked.push(format!("journal: {records} records, {bytes} bytes, {count} segments"));
    report.damage.extend(found.damage);
    Ok(())
}

fn check_keyspace(device: &Arc<dyn Device>, entry: &Entry, report: &mut Report) -> Result<()> {
    let dir = entry.dir();
    let found = match entry.options.engine {
        EngineKind::Memory => memory::check(&*device.subdevice(&dir)?)?,
        engine => return Err(Error::NotBuilt { engine }),
    };
    report.checked.push(format!(
        "keyspace {}: {} pairs in its own files, {} bytes, every write up to {}",
        entry.name, found.pairs, found.pair_bytes, found.persisted
    ));
    report.damage.extend(
        found
            .damage
            .into_iter()
            .map(|damage| Corruption { file: format!("{dir}/{}", damage.file), ..damage }),
    );
    Ok(())
}
