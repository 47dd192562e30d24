//! A check of the directory of a StoC that is not open.

use std::sync::Arc;

use codec::Corruption;
use device::Device;

use crate::catalogue::{Edit, Identity};
use crate::error::{Error, Result};
use crate::log_file::LogFile;
use crate::name::{FILES_DIR, FileName, PART_SUFFIX};
use crate::open::read_head;
use crate::table_file::TableFile;

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The StoC that the directory belongs to.
    pub identity: Identity,
    /// Files that were verified, and the bytes of their content.
    pub files: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// The damage, at most once for each file.
    pub damage: Vec<Corruption>,
}

/// Returns the identity of the StoC that a directory belongs to, and changes nothing; none if the
/// directory is empty.
///
/// # Errors
/// Damage of the catalogue; the device's.
pub fn identity(device: &dyn Device) -> Result<Option<Identity>> {
    let read = edits::read::<Edit>(device)?;
    Ok(read.map(|(_, contents)| contents.edit.identity.unwrap_or_default()))
}

/// Reads and verifies all files of a StoC that is not open, and changes nothing. Returns none if
/// the directory is empty.
///
/// Files that were being made, and a last append that is not whole, are no damage: the next
/// opening removes them.
///
/// # Errors
/// [`Error::Newer`]; the device's.
pub fn check(device: &Arc<dyn Device>) -> Result<Option<Checked>> {
    let identity = match edits::read::<Edit>(&**device).map_err(Error::from) {
        Ok(None) => return Ok(None),
        Ok(Some((_, contents))) => Ok(contents.edit.identity.unwrap_or_default()),
        Err(Error::Damaged(damage)) => Err(damage.judge().map_err(Error::Newer)?),
        Err(error) => return Err(error),
    };
    let mut checked =
        Checked { identity: Identity::default(), files: 0, bytes: 0, damage: Vec::new() };
    match identity {
        Ok(identity) => checked.identity = identity,
        Err(damage) => {
            checked.damage.push(damage);
            return Ok(Some(checked));
        }
    }
    if !device.exists(FILES_DIR)? {
        return Ok(Some(checked));
    }
    for dir in device.list(FILES_DIR)? {
        let range = FileName::range_of_dir(&dir.name).filter(|_| dir.is_dir);
        let Some(range) = range else { continue };
        for entry in device.list(&FileName::dir_of(range))? {
            let name = FileName::parse(range, &entry.name);
            let name = name.filter(|_| !entry.name.ends_with(PART_SUFFIX));
            let Some(name) = name else { continue };
            match check_file(device, checked.identity, &name) {
                Ok(bytes) => {
                    checked.files += 1;
                    checked.bytes += bytes;
                }
                Err(Error::Damaged(damage)) => {
                    checked.damage.push(damage.judge().map_err(Error::Newer)?);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Some(checked))
}

/// Verifies a file. Returns the bytes of its content.
fn check_file(device: &Arc<dyn Device>, identity: Identity, name: &FileName) -> Result<u64> {
    let head = read_head(&**device, identity, name)?;
    if name.kind.is_log() {
        return LogFile::check(&**device, &head);
    }
    let table = TableFile::open(device, head)?;
    table.verify_all()?;
    Ok(table.length())
}
