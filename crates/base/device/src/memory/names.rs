//! The names of a memory device: a map from full names to files, and a set of directories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Operation, Result};
use crate::file::{Entry, Mode};
use crate::name::split;

use super::file::Node;
use super::{IS_DIRECTORY, failed, not_found};

/// All names, in full. A name as the caller gave it goes with each, to put in errors.
///
/// # Invariants
/// - I1. No name is both a file and a directory.
/// - I2. The directory of every name exists; the root always does.
#[derive(Debug, Default)]
pub(super) struct Names {
    files: BTreeMap<String, Arc<Node>>,
    dirs: BTreeSet<String>,
}

impl Names {
    pub(super) fn is_dir(&self, full: &str) -> bool {
        full.is_empty() || self.dirs.contains(full)
    }

    pub(super) fn exists(&self, full: &str) -> bool {
        self.is_dir(full) || self.files.contains_key(full)
    }

    /// Bytes in all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|node| node.len()).sum()
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

    pub(super) fn open(&mut self, full: &str, name: &str, mode: Mode) -> Result<Arc<Node>> {
        self.check_place(full, name, Operation::Open)?;
        match (self.files.get(full), mode) {
            (Some(_), Mode::CreateNew) => Err(Error::AlreadyExists { name: name.to_owned() }),
            (Some(node), _) => Ok(node.clone()),
            (None, Mode::Read | Mode::Write) => Err(not_found(name)),
            (None, Mode::Create | Mode::CreateNew) => {
                Ok(self.files.entry(full.to_owned()).or_default().clone())
            }
        }
    }

    pub(super) fn create_dir(&mut self, full: &str, name: &str) -> Result<()> {
        let parts = full.match_indices('/').map(|(end, _)| &full[..end]).chain([full]);
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| self.files.contains_key(*part)) {
            return Err(Error::AlreadyExists { name: name.to_owned() });
        }
        self.dirs.extend(parts.into_iter().map(str::to_owned));
        Ok(())
    }

    pub(super) fn list(&self, full: &str, dir: &str) -> Result<Vec<Entry>> {
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

    pub(super) fn rename(&mut self, from: (&str, &str), to: (&str, &str)) -> Result<()> {
        if self.dirs.contains(from.0) {
            return self.rename_dir(from, to);
        }
        if !self.files.contains_key(from.0) {
            return Err(not_found(from.1));
        }
        self.check_place(to.0, to.1, Operation::Metadata)?;
        if let Some(node) = self.files.remove(from.0) {
            self.files.insert(to.0.to_owned(), node);
        }
        Ok(())
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

    pub(super) fn link(&mut self, from: (&str, &str), to: (&str, &str)) -> Result<()> {
        let node = self.files.get(from.0).cloned().ok_or_else(|| not_found(from.1))?;
        if self.exists(to.0) {
            return Err(Error::AlreadyExists { name: to.1.to_owned() });
        }
        self.check_place(to.0, to.1, Operation::Metadata)?;
        self.files.insert(to.0.to_owned(), node);
        Ok(())
    }

    pub(super) fn remove(&mut self, full: &str, name: &str) -> Result<()> {
        if self.is_dir(full) {
            return Err(failed(Operation::Metadata, name, IS_DIRECTORY));
        }
        self.files.remove(full).map(drop).ok_or_else(|| not_found(name))
    }

    pub(super) fn remove_dir(&mut self, full: &str, name: &str) -> Result<()> {
        if self.files.contains_key(full) {
            let code = rustix::io::Errno::NOTDIR.raw_os_error();
            return Err(failed(Operation::Metadata, name, code));
        }
        let below = format!("{full}/");
        self.files.retain(|name, _| !name.starts_with(&below));
        self.dirs.retain(|name| name != full && !name.starts_with(&below));
        Ok(())
    }
}
