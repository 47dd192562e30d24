//! From names to inodes, and the operations that a name allows.

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::name::{check_below_root, check_name, split};

use super::event::{Inode, Place};
use super::state::{DirState, State};

/// The target of a name.
pub(super) enum Found {
    Dir(Inode),
    File(Inode),
}

pub(super) fn not_found(name: &str) -> Error {
    Error::NotFound { name: name.to_owned() }
}

pub(super) fn taken(name: &str) -> Error {
    Error::AlreadyExists { name: name.to_owned() }
}

pub(super) fn failed(operation: Operation, name: &str, errno: Errno) -> Error {
    Error::Io { operation, name: name.to_owned(), code: errno.raw_os_error() }
}

impl State {
    /// Returns the target of `name` from the directory `root`.
    pub(super) fn find(&self, root: Inode, name: &str) -> Result<Option<Found>> {
        check_name(name)?;
        let mut at = root;
        for part in name.split('/').filter(|part| !part.is_empty()) {
            let next = self.dir(at).and_then(|dir| dir.current.get(part));
            match next {
                Some(&next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(match (self.dir(at), self.file(at)) {
            (Some(_), _) => Some(Found::Dir(at)),
            (None, Some(_)) => Some(Found::File(at)),
            (None, None) => None,
        })
    }

    /// The directory `name`.
    pub(super) fn find_dir(&self, root: Inode, name: &str) -> Result<Inode> {
        match self.find(root, name)? {
            Some(Found::Dir(node)) => Ok(node),
            Some(Found::File(_)) => Err(failed(Operation::Metadata, name, Errno::NOTDIR)),
            None => Err(not_found(name)),
        }
    }

    /// The file `name`.
    pub(super) fn find_file(&self, root: Inode, name: &str) -> Result<Inode> {
        match self.find(root, name)? {
            Some(Found::File(node)) => Ok(node),
            Some(Found::Dir(_)) => Err(failed(Operation::Metadata, name, Errno::ISDIR)),
            None => Err(not_found(name)),
        }
    }

    /// Returns the place of `name`, which may not exist; its directory exists.
    pub(super) fn place(&self, root: Inode, name: &str) -> Result<Place> {
        check_below_root(name)?;
        let (dir, last) = split(name);
        match self.find(root, dir)? {
            Some(Found::Dir(dir)) => Ok((dir, last.to_owned())),
            Some(Found::File(_)) => Err(failed(Operation::Metadata, name, Errno::NOTDIR)),
            None => Err(not_found(name)),
        }
    }

    /// Returns whether the directory `inner` is `outer` or is beneath it.
    pub(super) fn is_within(&self, outer: Inode, inner: Inode) -> bool {
        let mut seen = vec![outer];
        while let Some(node) = seen.pop() {
            if node == inner {
                return true;
            }
            let names = self.dir(node).map(|dir: &DirState| dir.current.values().copied());
            seen.extend(names.into_iter().flatten());
        }
        false
    }
}
