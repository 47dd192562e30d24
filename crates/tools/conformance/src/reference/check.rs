//! Offline verification of a reference engine's directory.

use std::sync::Arc;

use device::Device;
use engine::Result;

use super::{snapshot, superblock};

/// Verifies everything that counts in `device`, changing nothing.
///
/// # Errors
/// [`engine::Error::Corruption`] with the place.
pub fn check(device: &Arc<dyn Device>) -> Result<()> {
    match superblock::inspect(device)? {
        Some(commit) if commit.generation > 0 => snapshot::read(device, commit).map(drop),
        _ => Ok(()),
    }
}
