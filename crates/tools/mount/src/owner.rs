//! Whose a directory is: spaces of a database, of a backup or of a store are for these alone. A byte that came or went
//! there, or an opening of which they do not know, they would find as damage.

use std::fmt;
use std::path::{Path, PathBuf};

use flexspace::space::Offline;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::read;

use crate::source::device_of;

/// The files that make a directory a database, or a backup of one, and what they begin with.
const MARKS: [(&str, &[u8; 8], &str); 2] =
    [("THERMOCLINE", b"THERMOCL", "database"), ("BACKUP", b"TCBACKUP", "backup")];
/// The directories in them that have spaces, and whatever else is theirs.
const DIRECTORIES: [&str; 2] = ["keyspaces", "journal"];
/// What the space of a store of engine `flexdb` begins with (`docs/formats/flexdb.md`).
const STORE: &[u8; 8] = b"TCFLEXDB";

/// Who has made a directory, and knows what its bytes mean.
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

/// The database or the backup that a path is, or lies in, where it may have spaces; the path need not be there.
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

/// The store whose space lies in a directory: one that is used by itself, or was copied out of a database. Opens
/// nothing, and makes nothing.
pub(crate) fn store_in(dir: &Path) -> Option<Owner> {
    // A device would make the directory.
    if !dir.is_dir() {
        return None;
    }
    let space = Offline::open(&*device_of(dir).ok()?).ok()?;
    let begin = space.read(0, space.len().min(STORE.len() as u64)).ok()?;
    is_store(&begin).then(|| store(dir))
}

/// Whether a space that begins so is a store's.
pub fn is_store(begin: &[u8]) -> bool {
    begin.starts_with(STORE)
}

/// The store of a directory whose space is one's.
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
