//! A check of the directory of a cluster that is not open.

use std::path::Path;

use stoc::Checked;
use thermocline::Report;

use crate::error::{Error, Result};
use crate::local_cluster::{COORDINATOR_DIR, LOCK, STOCS, refuse_others, stoc_dir};
use crate::marker;

/// The result of a check of a cluster.
#[derive(Debug)]
pub struct ClusterReport {
    /// The coordinator's database.
    pub coordinator: Report,
    /// The StoCs by number; none of a StoC whose directory is empty or missing.
    pub stocs: Vec<(u32, Option<Checked>)>,
}

impl ClusterReport {
    /// Returns the number of damaged pieces.
    pub fn damage_count(&self) -> u64 {
        let stocs = self.stocs.iter().filter_map(|(_, checked)| checked.as_ref());
        let damage: usize = stocs.map(|checked| checked.damage.len()).sum();
        self.coordinator.damage_count() + damage as u64
    }
}

/// Returns whether a directory has the marker of a cluster.
///
/// # Errors
/// The device's.
pub fn is_cluster(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    if !path.is_dir() {
        return Ok(false);
    }
    let device = device::open(path, device::Options::default())?;
    Ok(device.exists(marker::FILE)?)
}

/// Reads and verifies all files of a cluster that is not open, and changes none of them.
///
/// # Errors
/// [`Error::InUse`], [`Error::NotACluster`], [`Error::Newer`], [`Error::Damaged`]; those of the
/// check of the coordinator's database and of StoCs.
pub fn check(path: impl AsRef<Path>) -> Result<ClusterReport> {
    let path = path.as_ref();
    let device = device::open(path, device::Options::default())?;
    let place = path.display().to_string();
    refuse_others(marker::look(&*device)?, &place)?;
    let _lock = device.lock(LOCK).map_err(|error| match error {
        device::Error::Locked { .. } => Error::InUse { place: place.clone() },
        other => other.into(),
    })?;
    let coordinator = thermocline::check(path.join(COORDINATOR_DIR))?;
    let check = |node: u32| -> Result<_> {
        let dir = stoc_dir(node);
        if !device.exists(&dir)? {
            return Ok((node, None));
        }
        let checked = stoc::check(&device.subdevice(&dir)?);
        let checked = checked.map_err(|cause| Error::Stoc { node, cause })?;
        Ok((node, checked))
    };
    let stocs = (1..=STOCS).map(check).collect::<Result<_>>()?;
    Ok(ClusterReport { coordinator, stocs })
}
