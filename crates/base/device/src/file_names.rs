//! The names of a device whose names are in memory: a map from full names to files, and a set of
//! directories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Operation, Result};
use crate::file::{Entry, Mode};
use crate::name::split;

/// The operating system's number for "there is a directory of that name".
const IS_DIRECTORY: i32 = rustix::io::Errno::ISDIR.raw_os_error();

/// All names, in full. A method also gets the name that the caller gave, for errors. `N` is a file,
/// which may have several names.
///
/// # Invariants
/// - I1. No name is both a file and a directory.
/// - I2. The directory of every name exists; the root always does.
#[derive(Debug)]
pub struct FileNames<N> {
    files: BTreeMap<String, Arc<N>>,
    dirs: BTreeSet<String>,
}

impl<N> Default for FileNames<N> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), dirs: BTreeSet::new() }
    }
}

fn not_found(name: &str) -> Error {
    Error::NotFound { name: name.to_owned() }
}

fn failed(operation: Operation, name: &str, code: i32) -> Error {
    Error::Io { operation, name: name.to_owned(), code }
}

impl<N> FileNames<N> {
    /// Returns whether there is a directory of this name.
    pub fn is_dir(&self, full: &str) -> bool {
        full.is_empty() || self.dirs.contains(full)
    }

    /// Returns whether there is a file or a directory of this name.
    pub fn exists(&self, full: &str) -> bool {
        self.is_dir(full) || self.files.contains_key(full)
    }

    /// Returns all files, in the order of their names.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Arc<N>)> {
        self.files.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// Returns all directories but the root, in the order of their names.
    pub fn dirs(&self) -> impl Iterator<Item = &str> {
        self.dirs.iter().map(String::as_str)
    }

    /// Refuses a name that could not be made: its directory is missing, or it is one.
    fn check_place(&self, full: &str, name: &str, operation: Operation) -> Result<()> {
        if self.is_dir(full) {
            Err(failed(operation, name, IS_DIRECTORY))
        } else if !self.is_dir(split(full).0) {
            Err(not_found(name))
        } else {
            Ok(())
        }
    }

    /// Returns the file that is to be opened; none if the caller has to make it.
    ///
    /// # Errors
    /// As [`crate::Device::open`], of names.
    pub fn find(&self, full: &str, name: &str, mode: Mode) -> Result<Option<Arc<N>>> {
        self.check_place(full, name, Operation::Open)?;
        match (self.files.get(full), mode) {
            (Some(_), Mode::CreateNew) => Err(Error::AlreadyExists { name: name.to_owned() }),
            (Some(node), _) => Ok(Some(Arc::clone(node))),
            (None, Mode::Read | Mode::Write) => Err(not_found(name)),
            (None, Mode::Create | Mode::CreateNew) => Ok(None),
        }
    }

    /// Gives a file a name, in a directory that exists.
    pub fn set(&mut self, full: &str, node: Arc<N>) {
        self.files.insert(full.to_owned(), node);
    }

    /// Makes a directory, and those above it.
    ///
    /// # Errors
    /// As [`crate::Device::create_dir`].
    pub fn create_dir(&mut self, full: &str, name: &str) -> Result<()> {
        let parts = full.match_indices('/').map(|(end, _)| &full[..end]).chain([full]);
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| self.files.contains_key(*part)) {
            return Err(Error::AlreadyExists { name: name.to_owned() });
        }
        self.dirs.extend(parts.into_iter().map(str::to_owned));
        Ok(())
    }

    /// Returns the names in a directory, sorted.
    ///
    /// # Errors
    /// As [`crate::Device::list`].
    pub fn list(&self, full: &str, dir: &str) -> Result<Vec<Entry>> {
        if !self.is_dir(full) {
            return Err(not_found(dir));
        }
        // Names of one directory are adjacent, with the names of its directories among them.
        let front = if full.is_empty() { String::new() } else { format!("{full}/") };
        let rest = |name: &String| {
            name.strip_prefix(&front)
                .filter(|rest| !rest.is_empty() && !rest.contains('/'))
                .map(str::to_owned)
        };
        let below = |name: &&String| name.starts_with(&front);
        let files = self.files.range(front.clone()..).map(|(name, _)| name).take_while(below);
        let dirs = self.dirs.range(front.clone()..).take_while(below);
        let entry = |name, is_dir| Entry { name, is_dir };
        let files = files.filter_map(rest).map(|name| entry(name, false));
        let dirs = dirs.filter_map(rest).map(|name| entry(name, true));
        let mut entries: Vec<Entry> = files.chain(dirs).collect();
        entries.sort();
        Ok(entries)
    }

    /// Renames a file or a directory. Returns the file that had the new name.
    ///
    /// # Errors
    /// As [`crate::Device::rename`].
    pub fn rename(&mut self, from: (&str, &str), to: (&str, &str)) -> Result<Option<Arc<N>>> {
        if self.dirs.contains(from.0) {
            return self.rename_dir(from, to).map(|()| None);
        }
        if !self.files.contains_key(from.0) {
            return Err(not_found(from.1));
        }
        self.check_place(to.0, to.1, Operation::Metadata)?;
        if let (Some(old), Some(new)) = (self.files.get(from.0), self.files.get(to.0))
            && Arc::ptr_eq(old, new)
        {
            // Both names of one file stay, as POSIX says.
            return Ok(None);
        }
        let moved = self.files.remove(from.0);
        Ok(moved.and_then(|node| self.files.insert(to.0.to_owned(), node)))
    }

    fn rename_dir(&mut self, from: (&str, &str), to: (&str, &str)) -> Result<()> {
        if from.0 == to.0 {
            return Ok(());
        }
        let below = format!("{}/", from.0);
        if self.exists(to.0) || to.0.starts_with(&below) {
            return Err(Error::AlreadyExists { name: to.1.to_owned() });
        }
        if !self.is_dir(split(to.0).0) {
            return Err(not_found(to.1));
        }
        let moved = |name: &str| match name.strip_prefix(&below) {
            Some(rest) => format!("{}/{rest}", to.0),
            None if name == from.0 => to.0.to_owned(),
            None => name.to_owned(),
        };
        let files = std::mem::take(&mut self.files);
        self.files = files.into_iter().map(|(name, node)| (moved(&name), node)).collect();
        self.dirs = self.dirs.iter().map(|name| moved(name)).collect();
        Ok(())
    }

    /// Gives a file a second name. Returns the file.
    ///
    /// # Errors
    /// As [`crate::Device::link`].
    pub fn link(&mut self, from: (&str, &str), to: (&str, &str)) -> Result<Arc<N>> {
        let node = self.files.get(from.0).cloned().ok_or_else(|| not_found(from.1))?;
        if self.exists(to.0) {
            return Err(Error::AlreadyExists { name: to.1.to_owned() });
        }
        self.check_place(to.0, to.1, Operation::Metadata)?;
        self.files.insert(to.0.to_owned(), Arc::clone(&node));
        Ok(node)
    }

    /// Removes the name of a file. Returns the file.
    ///
    /// # Errors
    /// As [`crate::Device::remove`].
    pub fn remove(&mut self, full: &str, name: &str) -> Result<Arc<N>> {
        if self.is_dir(full) {
            return Err(failed(Operation::Metadata, name, IS_DIRECTORY));
        }
        self.files.remove(full).ok_or_else(|| not_found(name))
    }

    /// Removes a directory and all that is in it. Returns the files that have lost a name.
    ///
    /// # Errors
    /// As [`crate::Device::remove_dir`].
    pub fn remove_dir(&mut self, full: &str, name: &str) -> Result<Vec<Arc<N>>> {
        if self.files.contains_key(full) {
            let code = rustix::io::Errno::NOTDIR.raw_os_error();
            return Err(failed(Operation::Metadata, name, code));
        }
        let below = format!("{full}/");
        let removed = self.files.extract_if(.., |name, _| name.starts_with(&below));
        let removed = removed.map(|(_, node)| node).collect();
        self.dirs.retain(|name| name != full && !name.starts_with(&below));
        Ok(removed)
    }
}
