//! Copies of a closed store's files, which keep their holes.
#![expect(clippy::disallowed_methods, reason = "a store's files while it is closed")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

const BUFFER_BYTES: usize = 1 << 20;

/// Copies all files and folders below `from` into the directory `to`.
pub(super) fn directory(from: &Path, to: &Path) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    for_each_file(from, Path::new(""), &mut |below| {
        let target = to.join(below);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        file(&File::open(from.join(below))?, &File::create(target)?, &mut buffer)
    })
}

/// Moves all files and folders of `from` to the empty directory `to`, which may be on another file
/// system.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            directory(from, to)?;
            fs::remove_dir_all(from)
        }
        renamed => renamed,
    }
}

/// Makes the files below `dir` durable, so that no later write-back disturbs a measurement. Has the
/// page cache forget them if it `forgets`: then their reader pays for the reads.
pub(super) fn sync(dir: &Path, forgets: bool) -> io::Result<()> {
    for_each_file(dir, Path::new(""), &mut |below| {
        let file = File::open(dir.join(below))?;
        file.sync_all()?;
        #[cfg(target_os = "linux")]
        if forgets {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    })
}

/// Calls `each` with the path of every file, from `root` on; empty folders below it are skipped.
fn for_each_file(
    root: &Path,
    below: &Path,
    each: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            for_each_file(root, &path, each)?;
        } else {
            each(&path)?;
        }
    }
    Ok(())
}

fn file(source: &File, target: &File, buffer: &mut [u8]) -> io::Result<()> {
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while at < length {
        let begin = match seek(source, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = begin;
        let end = seek(source, SeekFrom::Hole(begin))?;
        while at < end {
            let wanted = buffer.len().min((end - at) as usize);
            let Some(part) = buffer.get_mut(..wanted) else { break };
            let count = source.read_at(part, at)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            target.write_all_at(part.get(..count).unwrap_or_default(), at)?;
            at += count as u64;
        }
    }
    Ok(())
}
