//! Directories whose own names are durable.
//!
//! A sync of a directory's content does not make its own name durable.

use std::io;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use crate::limit::sparing;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Makes the directory at `path`, and those above it that are missing, from the top down. Each that
/// was missing is handed to `name` before anything is made in it.
pub(super) fn make(path: &Path, name: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    for dir in missing.into_iter().rev() {
        match std::fs::create_dir(dir) {
            Ok(()) => {}
            // Another thread or process has made it, and may not have synced its name yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) => return Err(error),
        }
        name(dir)?;
    }
    // Reports a path that is no directory.
    std::fs::create_dir_all(path)
}

/// Makes the name of the directory at `path` durable.
pub(super) fn sync_name(path: &Path) -> io::Result<()> {
    let whole = std::fs::canonicalize(path)?;
    let Some(parent) = whole.parent() else { return Ok(()) };
    if fs::stat(parent)?.st_dev != fs::stat(&whole)?.st_dev {
        // Something is mounted there: the name is that of a mount.
        return Ok(());
    }
    match sparing(|| fs::open(parent, DIRECTORY, Mode::empty())) {
        Ok(parent) => fs::fsync(parent)?,
        // Names can be made in a directory that may not be read.
        Err(Errno::ACCESS) => fs::syncfs(sparing(|| fs::open(&whole, DIRECTORY, Mode::empty()))?)?,
        Err(errno) => return Err(errno.into()),
    }
    Ok(())
}
