//! The refusals of an opening that come before anything is changed.

use device::Device;

use crate::catalog::{Catalog, Entry};
use crate::error::{Error, Result};
use crate::open::{JOURNAL_DIR, foreign_journal, missing_journal};
use crate::owner;

/// Refuses a database by its files' contents before any keyspace is opened, which may change its
/// files. A journal that is to be discarded is not looked at.
pub(crate) fn refuse_first(
    device: &dyn Device,
    catalog: &Catalog,
    discards_journal: bool,
) -> Result<()> {
    if !discards_journal {
        refuse_journal(device, catalog)?;
    }
    for entry in &catalog.keyspaces {
        refuse_newer_files(device, entry)?;
    }
    if let Some(damage) = owner::older_than(device, catalog)? {
        return Err(Error::OlderCatalog { damage });
    }
    if discards_journal { Ok(()) } else { Ok(journal::check_newest(device, JOURNAL_DIR)?) }
}

fn refuse_journal(device: &dyn Device, catalog: &Catalog) -> Result<()> {
    if let Some(missing) = missing_journal(device, catalog)? {
        return Err(missing.into());
    }
    journal::refuse_newer(device, JOURNAL_DIR)?;
    if let Some(foreign) = foreign_journal(device, catalog)? {
        return Err(foreign.into());
    }
    Ok(())
}

/// Refuses a keyspace if a newer release wrote one of its files: the keyspaces before it must not
/// be opened, and changed, first. The header of a `flexdb` store is in its space, and an opening
/// that changes nothing reads it ([`crate::open`]).
fn refuse_newer_files(device: &dyn Device, entry: &Entry) -> Result<()> {
    let formats = entry.options.engine.driver().formats;
    let dir = entry.dir();
    if !device.exists(&dir)? {
        return Ok(());
    }
    let refused = engine::refuse_newer(&*device.subdevice(&dir)?, formats);
    Ok(refused.map_err(|error| error.in_dir(&dir))?)
}
