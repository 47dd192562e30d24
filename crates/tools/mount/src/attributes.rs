//! Owner, permissions and time of a file, kept with the directory of its space.
//! Owner and time are the directory's own; the permissions are an extended attribute of it.
//!
//! The directory has the permissions that the mounting process needs to work in it. A file that no
//! user may write to must not become a space that no process can open.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{self, AtFlags, CWD, Gid, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

/// Permissions in octal digits.
const PERMISSIONS: &str = "user.thermocline.mode";
/// Permissions of a file that has no such attribute: all users who may read the directory may read
/// the file.
const PERMISSIONS_DEFAULT: u16 = 0o644;

/// Owner, permissions, and when the bytes were last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: SystemTime,
}

pub(crate) fn read(dir: &Path) -> Result<Attributes, Errno> {
    let stat = fs::statat(CWD, dir, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut digits = [0; 8];
    let permissions = fs::getxattr(dir, PERMISSIONS, &mut digits[..])
        .ok()
        .and_then(|count| std::str::from_utf8(&digits[..count]).ok().map(str::to_owned))
        .and_then(|digits| u16::from_str_radix(&digits, 8).ok());
    let since = Duration::new(stat.st_mtime.unsigned_abs(), stat.st_mtime_nsec as u32);
    let modified =
        if stat.st_mtime < 0 { SystemTime::UNIX_EPOCH } else { SystemTime::UNIX_EPOCH + since };
    Ok(Attributes {
        permissions: permissions.unwrap_or(PERMISSIONS_DEFAULT) & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified,
    })
}

pub(crate) fn set_permissions(dir: &Path, permissions: u16) -> Result<(), Errno> {
    let digits = format!("{:04o}", permissions & 0o7777);
    fs::setxattr(dir, PERMISSIONS, digits.as_bytes(), XattrFlags::empty())
}

pub(crate) fn set_owner(dir: &Path, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    fs::chownat(CWD, dir, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn set_modified(dir: &Path, modified: SystemTime) -> Result<(), Errno> {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time =
        Timespec { tv_sec: since.as_secs() as i64, tv_nsec: i64::from(since.subsec_nanos()) };
    let times = Timestamps { last_access: time, last_modification: time };
    fs::utimensat(CWD, dir, &times, AtFlags::SYMLINK_NOFOLLOW)
}
