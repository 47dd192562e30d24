//! The owner of a directory: a database, a backup or a store.
//! Only the owner uses its spaces. It would report as damage any byte that another program adds or
//! removes there, and any opening that it does not know of.

use std::fmt;
use std::path::{Path, PathBuf};

use flexspace::space::Offline;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::read;

use crate::source::device_of;

/// The files that make a directory a database, or a backup of one, and the bytes that they begin
/// with.
const MARKS: [(&str, &[u8; 8], &str); 2] =
    [("THERMOCLINE", b"THERMOCL", "database"), ("BACKUP", b"TCBACKUP", "backup")];
/// The directories in them that have spaces, and whatever else is theirs.
const DIRECTORIES: [&str; 2] = ["keyspaces", "journal"];
/// The first bytes of the space of a store of engine `flexdb` (`docs/formats/flexdb.md`).
const STORE: &[u8; 8] = b"TCFLEXDB";

/// The program that has made a directory, and knows the meaning of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    what: &'static str,
    dir: PathBuf,
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the {} {}", self.what, self.dir.display())
    }
}

/// Returns the database or the backup that `path` is, or is inside of, where it may have spaces;
/// the path need not exist.
pub fn owner_of(path: &Path) -> Option<Owner> {
    let parent = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let path = path.canonicalize().ok().or_else(parent)?;
    path.ancestors().find_map(|dir| {
        let inside = path.strip_prefix(dir).ok()?.components().next();
        let is_theirs =
            inside.is_none_or(|first| DIRECTORIES.iter().any(|name| first.as_os_str() == *name));
        let mut marks = MARKS.iter().filter(|_| is_theirs);
        let (_, _, what) = marks.find(|(name, begin, _)| begins_with(&dir.join(name), begin))?;
        Some(Owner { what, dir: dir.to_owned() })
    })
}

/// Returns the store whose space is in a directory: one that is used by itself, or was copied out
/// of a database. Opens nothing, and makes nothing.
pub(crate) fn store_in(dir: &Path) -> Option<Owner> {
    // A device would make the directory.
    if !dir.is_dir() {
        return None;
    }
    let space = Offline::open(&*device_of(dir).ok()?).ok()?;
    let begin = space.read(0, space.len().min(STORE.len() as u64)).ok()?;
    is_store(&begin).then(|| store(dir))
}

/// Returns whether a space that begins so is a store's.
pub fn is_store(begin: &[u8]) -> bool {
    begin.starts_with(STORE)
}

/// Returns the store of a directory whose space is one's.
pub fn store(dir: &Path) -> Owner {
    Owner { what: "flexdb store", dir: dir.to_owned() }
}

fn begins_with(path: &Path, begin: &[u8; 8]) -> bool {
    let Ok(file) = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    let mut found = [0; 8];
    read(file, &mut found).is_ok_and(|count| count == begin.len() && found == *begin)
}
