//! The refusal of a store whose files a newer release wrote, before anything is opened.

use codec::{FileHeader, Format};
use device::{Device, Mode};

use crate::error::Result;
use crate::superblock;

/// Refuses the store in the root of `device` if the header of one of its files, of a kind in
/// `formats` or a superblock, is one that a newer release wrote. Reads the first bytes of each
/// file, also of those in directories, and changes nothing. A file that cannot be read is skipped.
///
/// # Errors
/// [`crate::Error::NewerVersion`]; the device's, if it cannot list the files, or if reading one
/// fails temporarily ([`device::Error::is_retryable`]).
pub fn refuse_newer(device: &dyn Device, formats: &[Format]) -> Result<()> {
    refuse_newer_in(device, "", formats)
}

fn refuse_newer_in(device: &dyn Device, dir: &str, formats: &[Format]) -> Result<()> {
    for entry in device.list(dir)? {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            refuse_newer_in(device, &name, formats)?;
            continue;
        }
        let mut header = [0; FileHeader::LEN];
        let opened = device.open(&name, Mode::Read);
        match opened.and_then(|file| file.read_at(0, &mut header)) {
            Ok(()) => {}
            Err(error) if error.is_retryable() => return Err(error.into()),
            // A short file, or one that the store does not need: the opening judges it.
            Err(_) => continue,
        }
        for format in formats.iter().chain([&superblock::FORMAT]) {
            format.refuse_newer(&header, &name)?;
        }
    }
    Ok(())
}
