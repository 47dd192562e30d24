//! The refusals of an opening that come before anything is changed.

use device::Device;

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::open::{JOURNAL_DIR, missing_journal};
use crate::owner;

/// Refuses what the files say before any keyspace is opened, which may change its files.
pub(crate) fn refuse_first(device: &dyn Device, catalog: &Catalog) -> Result<()> {
    if let Some(missing) = missing_journal(device, catalog)? {
        return Err(missing.into());
    }
    journal::refuse_newer(device, JOURNAL_DIR)?;
    if let Some(damage) = owner::older_than(device, catalog)? {
        return Err(Error::OlderCatalog { damage });
    }
    Ok(journal::check_newest(device, JOURNAL_DIR)?)
}
