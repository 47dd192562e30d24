//! The file that says that a directory is a cluster.

use codec::{FileHeader, Format, HeaderError};
use device::{Device, Mode, SyncKind};

/// The name of the file.
pub(crate) const FILE: &str = "CLUSTER";
/// The same while it is written.
const FILE_NEXT: &str = "CLUSTER.new";
const FORMAT: Format = Format::new(*b"TCLUSTER", 1, 0);

/// Decodes the file.
///
/// # Errors
/// The wrong field.
pub fn decode_marker(bytes: &[u8]) -> Result<FileHeader, HeaderError> {
    FORMAT.decode(bytes)
}

/// The kind of a directory.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// It is empty, or a crash interrupted the making of a cluster.
    Nothing,
    /// It is a cluster.
    Cluster,
    /// It has something else.
    Other(String),
    /// It is a damaged cluster, or one of a newer release.
    Refused(HeaderError),
}

/// Looks at a directory.
pub(crate) fn look(device: &dyn Device) -> device::Result<Found> {
    if device.exists(FILE)? {
        let file = device.open(FILE, Mode::Read)?;
        let mut bytes = vec![0; (file.len()? as usize).min(FileHeader::LEN)];
        file.read_at(0, &mut bytes)?;
        return Ok(decode_marker(&bytes).map_or_else(Found::Refused, |_| Found::Cluster));
    }
    let others = device.list("")?.into_iter().map(|entry| entry.name);
    let mut others = others.filter(|name| name != FILE_NEXT && name != crate::local_cluster::LOCK);
    Ok(others.next().map_or(Found::Nothing, Found::Other))
}

/// Makes a directory a cluster. Durable on return.
pub(crate) fn make(device: &dyn Device) -> device::Result<()> {
    let file = device.open(FILE_NEXT, Mode::Create)?;
    file.set_len(0)?;
    file.write_at(0, &FORMAT.header(0).encode())?;
    file.sync(SyncKind::All)?;
    drop(file);
    device.rename(FILE_NEXT, FILE)?;
    device.sync_dir("")
}
