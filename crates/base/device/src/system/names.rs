//! Making, listing, moving and removing names on the operating system's file systems.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::Entry;
use crate::limit::sparing;
use crate::name::{check_below_root, split};

use super::errors::explain;
use super::root::{DIR_MODE, Root, metadata_error};

/// Bytes of a file that are copied at a time if the storage has no links.
const COPY_BYTES: usize = 1 << 20;

pub(super) fn create_dir(root: &Root, name: &str) -> Result<()> {
    let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
    for dir in ends.map(|end| &name[..end]).filter(|dir| !dir.is_empty()) {
        let (parent, last) = root.parent(dir, Operation::Metadata)?;
        match fs::mkdirat(&parent, last, DIR_MODE) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                match file_type(parent.as_fd(), last).map_err(metadata_error(dir))? {
                    FileType::Directory => {}
                    FileType::Symlink => return Err(metadata_error(dir)(Errno::LOOP)),
                    _ => return Err(metadata_error(name)(Errno::EXIST)),
                }
            }
            Err(errno) => return Err(metadata_error(name)(errno)),
        }
    }
    Ok(())
}

/// Returns the type of a file without following a link.
fn file_type(parent: BorrowedFd<'_>, last: &str) -> rustix::io::Result<FileType> {
    let stat = fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// The entries whose names this device could open; others' files are passed over.
pub(super) fn list(root: &Root, dir: &str) -> Result<Vec<Entry>> {
    let fd = root.directory(dir, Operation::Metadata)?;
    let mut entries = Vec::new();
    for found in sparing(|| Dir::read_from(&fd)).map_err(metadata_error(dir))? {
        let found = found.map_err(metadata_error(dir))?;
        let Ok(name) = found.file_name().to_str() else { continue };
        if check_below_root(name).is_err() {
            continue;
        }
        let is_dir = match found.file_type() {
            FileType::Directory => true,
            // Some file systems do not say here; ask, and pass over names that were removed
            // meanwhile.
            FileType::Unknown => match file_type(fd.as_fd(), name) {
                Ok(found) => found == FileType::Directory,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(explain(Operation::Metadata, dir, errno)),
            },
            _ => false,
        };
        entries.push(Entry { name: name.to_owned(), is_dir });
    }
    entries.sort();
    Ok(entries)
}

pub(super) fn exists(root: &Root, name: &str) -> Result<bool> {
    if name.is_empty() {
        return Ok(true);
    }
    let (parent, last) = match root.parent(name, Operation::Metadata) {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => return Ok(false),
        Err(Error::Io { code, .. }) if code == Errno::NOTDIR.raw_os_error() => return Ok(false),
        Err(error) => return Err(error),
    };
    match fs::statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(explain(Operation::Metadata, name, errno)),
    }
}

pub(super) fn rename(root: &Root, from: &str, to: &str) -> Result<()> {
    let (from_dir, from_last) = root.parent(from, Operation::Metadata)?;
    let (to_dir, to_last) = root.parent(to, Operation::Metadata)?;
    fs::renameat(&from_dir, from_last, &to_dir, to_last).map_err(metadata_error(from))
}

/// Opens the directory first, so that only the renaming and the sync are left to fail.
pub(super) fn rename_synced(root: &Root, from: &str, to: &str) -> Result<()> {
    let (dir, from_last) = root.parent(from, Operation::Metadata)?;
    let (to_dir, to_last) = split(to);
    if split(from).0 != to_dir {
        return Err(explain(Operation::Metadata, to, Errno::XDEV));
    }
    fs::renameat(&dir, from_last, &dir, to_last).map_err(metadata_error(from))?;
    fs::fsync(&dir).map_err(|errno| explain(Operation::Sync, to_dir, errno))
}

pub(super) fn link(root: &Root, from: &str, to: &str) -> Result<()> {
    let (from_dir, from_last) = root.parent(from, Operation::Metadata)?;
    let (to_dir, to_last) = root.parent(to, Operation::Metadata)?;
    match fs::linkat(&from_dir, from_last, &to_dir, to_last, AtFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Error::AlreadyExists { name: to.to_owned() }),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::XDEV) => copy(root, from, to),
        Err(errno) => Err(explain(Operation::Metadata, from, errno)),
    }
}

/// A link's substitute: another file with the same bytes, synced. A failure takes it away again.
fn copy(root: &Root, from: &str, to: &str) -> Result<()> {
    let source = root.open_file(from, OFlags::RDONLY)?;
    let stat = fs::fstat(&source).map_err(metadata_error(from))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(explain(Operation::Metadata, from, Errno::ISDIR));
    }
    let target = root.open_file(to, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    copy_bytes(&source, from, &target, to).inspect_err(|_| {
        // The copy's own error is the one to report.
        let _ = remove(root, to);
    })
}

fn copy_bytes(source: &OwnedFd, from: &str, target: &OwnedFd, to: &str) -> Result<()> {
    let mut chunk = vec![0; COPY_BYTES];
    let mut offset = 0;
    let failed = |operation, name| move |errno| explain(operation, name, errno);
    loop {
        let got = rustix::io::pread(source, &mut chunk[..], offset)
            .map_err(failed(Operation::Read, from))?;
        if got == 0 {
            break;
        }
        let mut rest = &chunk[..got];
        while !rest.is_empty() {
            let put =
                rustix::io::pwrite(target, rest, offset).map_err(failed(Operation::Write, to))?;
            rest = &rest[put..];
            offset += put as u64;
        }
    }
    fs::fsync(target).map_err(failed(Operation::Sync, to))
}

pub(super) fn remove(root: &Root, name: &str) -> Result<()> {
    let (dir, last) = root.parent(name, Operation::Metadata)?;
    fs::unlinkat(&dir, last, AtFlags::empty()).map_err(metadata_error(name))
}

pub(super) fn remove_dir(root: &Root, name: &str) -> Result<()> {
    let removed = root.parent(name, Operation::Metadata).and_then(|(dir, last)| {
        let last = std::ffi::CString::new(last).unwrap_or_default();
        empty(dir.as_fd(), &last).map_err(metadata_error(name))?;
        fs::unlinkat(&dir, &last, AtFlags::REMOVEDIR).map_err(metadata_error(name))
    });
    match removed {
        Err(Error::NotFound { .. }) => Ok(()),
        outcome => outcome,
    }
}

/// Removes a directory if nothing at all is in it, also no name that is not listed.
pub(super) fn remove_empty_dir(root: &Root, name: &str) -> Result<bool> {
    let removed =
        root.parent(name, Operation::Metadata).and_then(|(dir, last)| {
            match fs::unlinkat(&dir, last, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
                removed => removed.map(|()| true).map_err(metadata_error(name)),
            }
        });
    match removed {
        Err(Error::NotFound { .. }) => Ok(true),
        outcome => outcome,
    }
}

/// Removes all entries of a directory, of any owner; symbolic links are removed, not followed.
fn empty(parent: BorrowedFd<'_>, last: &CStr) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = sparing(|| fs::openat(parent, last, flags, Mode::empty()))?;
    // The names are gathered first: a directory that shrinks while it is read may skip some.
    let found: Vec<_> = sparing(|| Dir::read_from(&dir))?.collect::<rustix::io::Result<_>>()?;
    for entry in found {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match fs::unlinkat(&dir, name, AtFlags::empty()) {
            // Linux says ISDIR of a directory, POSIX allows PERM.
            Err(Errno::ISDIR | Errno::PERM) => {
                empty(dir.as_fd(), name)?;
                fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?;
            }
            Err(Errno::NOENT) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

pub(super) fn sync_dir(root: &Root, dir: &str) -> Result<()> {
    let fd = root.directory(dir, Operation::Sync)?;
    fs::fsync(&fd).map_err(|errno| explain(Operation::Sync, dir, errno))
}
