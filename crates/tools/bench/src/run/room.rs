//! Whether the disk has room for a run, before anything is written.

use std::path::Path;

use super::config::{Config, Plan, RunError};
use crate::measure::free_disk_bytes;

/// Bytes on disk for each byte of data: a store that compacts has old files next to the new ones.
const DISK_FACTOR: f64 = 2.0;

/// Refuses a run whose data do not fit into the file system of `dir`. A load of `copied_bytes` is
/// copied there first, or moved if the run uses it in place.
pub(super) fn check(
    dir: &Path,
    plan: &Plan,
    config: &Config,
    copied_bytes: u64,
) -> Result<(), RunError> {
    let data_bytes = plan.loads as f64 * config.shape.pair_bytes();
    let of_load = (data_bytes * DISK_FACTOR) as u64;
    let of_copy = copied_bytes.saturating_add(data_bytes as u64);
    let needed = match copied_bytes {
        0 => of_load,
        _ if config.is_in_place => data_bytes as u64,
        _ => of_load.max(of_copy),
    };
    let free = free_disk_bytes(dir).map_err(|error| RunError::Dir(dir.to_owned(), error))?;
    if free >= needed {
        return Ok(());
    }
    Err(RunError::NoRoom { dir: dir.to_owned(), needed, free })
}
