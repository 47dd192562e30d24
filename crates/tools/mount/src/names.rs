//! Which name is which file, and which spaces are open.
//!
//! # Concurrency
//! The table's lock is held while names change, so that names and directories say the same, and
//! never while bytes are read or written. It comes before the locks of a file.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use environment::Environment;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use sync::Mutex;

use crate::attributes;
use crate::mounted::Report;
use crate::node::{self, Node};
use crate::refusal::{Outcome, Refusal};
use crate::source::Source;

/// The number of the directory itself.
pub(crate) const ROOT: u64 = 1;

/// Most spaces without a handle that are kept open because they were used: each takes a segment's
/// buffer and its tree.
const IDLE_MAX: usize = 16;

pub(crate) struct Names {
    source: Source,
    pub(crate) environment: Environment,
    table: Mutex<Table>,
    report: Report,
}

#[derive(Debug, Default)]
struct Table {
    by_number: HashMap<u64, Arc<Node>>,
    by_name: HashMap<OsString, Arc<Node>>,
    last_number: u64,
    /// Everything is being closed: no file is added that would not be.
    has_ended: bool,
}

impl Table {
    fn add(&mut self, name: &OsStr, make: impl FnOnce(u64) -> Node) -> Arc<Node> {
        self.last_number = self.last_number.max(ROOT) + 1;
        let node = Arc::new(make(self.last_number));
        self.by_number.insert(self.last_number, node.clone());
        self.by_name.insert(name.to_owned(), node.clone());
        node
    }
}

impl Names {
    pub(crate) fn new(source: Source, environment: Environment, report: Report) -> Self {
        Self { source, environment, table: Mutex::default(), report }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the file of a number.
    pub(crate) fn node(&self, number: u64) -> Result<Arc<Node>, Errno> {
        self.table.lock().by_number.get(&number).cloned().ok_or(Errno::STALE)
    }

    /// Returns the file of a name, for the kernel, which knows it from here on, until it is
    /// forgotten.
    pub(crate) fn lookup(&self, name: &OsStr) -> Result<Arc<Node>, Errno> {
        let mut table = self.table.lock();
        self.find_in(&mut table, name).inspect(|node| node.looked_up())
    }

    fn find_in(&self, table: &mut Table, name: &OsStr) -> Result<Arc<Node>, Errno> {
        let Some(dir) = self.source.find(name) else {
            // It may have been there.
            table.by_name.remove(name);
            return Err(Errno::NOENT);
        };
        match table.by_name.get(name) {
            Some(node) => Ok(node.clone()),
            None if table.has_ended => Err(Errno::IO),
            None => Ok(table.add(name, |number| Node::new(number, dir))),
        }
    }

    /// Returns all names, with the numbers of their files.
    pub(crate) fn list(&self) -> Result<Vec<(OsString, u64)>, Errno> {
        let mut table = self.table.lock();
        let names = self.source.names()?.into_iter();
        let found = names.filter_map(|name| {
            let number = self.find_in(&mut table, &name).ok()?.number;
            Some((name, number))
        });
        Ok(found.collect())
    }

    /// Makes an empty file.
    pub(crate) fn create(
        &self,
        name: &OsStr,
        permissions: u16,
        (uid, gid): (u32, u32),
    ) -> Outcome<Arc<Node>> {
        let mut table = self.table.lock();
        if table.has_ended {
            return Err(Errno::IO.into());
        }
        if self.source.find(name).is_some() {
            return Err(Errno::EXIST.into());
        }
        let (dir, space) = self.source.create(name)?;
        // Without attributes of directories all files have the same permissions.
        let _ = attributes::set_permissions(&dir, permissions);
        if uid != rustix::process::geteuid().as_raw() {
            attributes::set_owner(&dir, Some(uid), Some(gid)).inspect_err(|_| {
                // A refused call has made nothing.
                let _ = self.source.hide(&dir).map(|hidden| node::remove(&hidden));
            })?;
        }
        Ok(table.add(name, |number| Node::created(number, dir, space)))
    }

    /// Takes a name away; the file is removed with its last handle.
    pub(crate) fn remove(&self, name: &OsStr) -> Outcome<()> {
        let mut table = self.table.lock();
        let node = self.find_in(&mut table, name)?;
        let hidden = self.source.hide(&node.dir())?;
        table.by_name.remove(name);
        if node.removed(hidden) {
            self.drop_space(&mut table, &node)?;
        }
        Ok(())
    }

    /// Gives a file another name. A file that had that name is removed, or gets the first one's.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> Outcome<()> {
        self.store_what_replaces(from, to, flags)?;
        let mut table = self.table.lock();
        let node = self.find_in(&mut table, from)?;
        let other = self.find_in(&mut table, to).ok();
        if flags.contains(RenameFlags::EXCHANGE) {
            let other = other.ok_or(Errno::NOENT)?;
            let (one, two) = (node.dir(), other.dir());
            self.source.exchange(&one, &two)?;
            node.moved(two);
            other.moved(one);
            table.by_name.insert(from.to_owned(), other);
            table.by_name.insert(to.to_owned(), node);
            return Ok(());
        }
        if flags.contains(RenameFlags::NOREPLACE) && other.is_some() {
            return Err(Errno::EXIST.into());
        }
        if from == to {
            return Ok(());
        }
        let (dir, replaced) = self.source.rename(&node.dir(), to)?;
        node.moved(dir);
        table.by_name.remove(from);
        table.by_name.insert(to.to_owned(), node);
        if let (Some(other), Some(hidden)) = (other, replaced)
            && other.removed(hidden)
        {
            self.drop_space(&mut table, &other)?;
        }
        Ok(())
    }

    /// Makes a file durable that replaces another one, since names are durable immediately. After a
    /// crash the name has the old bytes or the new ones, also if no program has asked for an
    /// `fsync` (M5). This runs without the table's lock, because it writes bytes; data that is
    /// written to the file meanwhile waits for the next sync, as usual.
    fn store_what_replaces(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> Outcome<()> {
        let mut nodes = {
            let mut table = self.table.lock();
            let (node, other) =
                (self.find_in(&mut table, from)?, self.find_in(&mut table, to).ok());
            let is_replaced = from != to && !flags.contains(RenameFlags::NOREPLACE);
            let Some(other) = other.filter(|_| is_replaced) else { return Ok(()) };
            // Of two that change names both replace one.
            let other = flags.contains(RenameFlags::EXCHANGE).then_some(other);
            std::iter::once(node).chain(other)
        };
        nodes.try_for_each(|node| self.reported(&node.dir(), node.sync()))
    }

    /// Opens a file for a handle; the caller gets the error if that fails.
    pub(crate) fn open(&self, node: &Node) -> Outcome<()> {
        node.opened()?;
        node.open().inspect_err(|_| {
            let _ = self.release(node);
        })
    }

    /// Releases a handle of a file.
    pub(crate) fn release(&self, node: &Node) -> Outcome<()> {
        if node.released() {
            return self.drop_space(&mut self.table.lock(), node);
        }
        self.close_idle();
        Ok(())
    }

    /// The kernel does not know a file any more.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        let node = {
            let table = self.table.lock();
            let Some(node) = table.by_number.get(&number).cloned() else { return };
            node.forgotten(count);
            if !node.is_forgotten() {
                return;
            }
            node
        };
        // Until the space is closed the table keeps it: another node of the same space would find
        // it locked.
        if self.close_one(&node).is_err() {
            return;
        }
        let mut table = self.table.lock();
        if node.is_forgotten() && !node.is_open() {
            table.by_number.remove(&number);
            table.by_name.retain(|_, named| named.number != number);
        }
    }

    /// Closes spaces without a handle, except a few.
    pub(crate) fn close_idle(&self) {
        let idle: Vec<Arc<Node>> = {
            let table = self.table.lock();
            let nodes = table.by_number.values().filter(|node| node.is_idle() && node.is_open());
            nodes.cloned().collect()
        };
        let too_many = idle.len().saturating_sub(IDLE_MAX);
        for node in idle.iter().take(too_many) {
            // The caller closed another file, and does not get this error.
            let _ = self.close_one(node);
        }
    }

    fn close_one(&self, node: &Node) -> Outcome<()> {
        self.reported_later(node, node.close_if_idle())
    }

    /// Does the periodic work of all files.
    pub(crate) fn tidy(&self) {
        for node in self.nodes() {
            // The next call that needs it gets the error, too.
            let _ = self.reported_later(&node, node.tidy());
        }
    }

    /// Stores everything; no more calls are accepted. Returns the first failure.
    pub(crate) fn close(&self) -> Outcome<()> {
        self.table.lock().has_ended = true;
        let mut first = Ok(());
        for node in self.nodes() {
            let closed = self.reported_later(&node, node.close());
            first = first.and(closed);
        }
        first
    }

    /// Passes on a call's result, and reports a failure to the operator of the mount.
    pub(crate) fn reported<T>(&self, what: &Path, outcome: Outcome<T>) -> Outcome<T> {
        outcome.inspect_err(|refusal| {
            if refusal.is_failure() {
                (self.report)(&format!("{}: {refusal}", what.display()));
            }
        })
    }

    /// Passes on the result of work that no caller has asked for, and reports every kind of failure
    /// to the operator of the mount: the writer had got a success. A failure that repeats is
    /// reported once.
    fn reported_later(&self, node: &Node, outcome: Outcome<()>) -> Outcome<()> {
        if node.is_news(&outcome)
            && let Err(refusal) = &outcome
        {
            (self.report)(&format!("{}: {refusal}", node.dir().display()));
        }
        outcome
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.table.lock().by_number.values().cloned().collect()
    }

    /// Removes the space of a file that has no name and no handle.
    fn drop_space(&self, table: &mut Table, node: &Node) -> Outcome<()> {
        node.abandon();
        table.by_number.remove(&node.number);
        node::remove(&node.dir()).map_err(Refusal::from)
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Names").field("source", &self.source).finish_non_exhaustive()
    }
}
