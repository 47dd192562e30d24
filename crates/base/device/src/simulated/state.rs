//! The contents of a simulated disk: readers' view, durable view, and the changes between them.
//!
//! The state changes by [`Event`]s alone and draws nothing, so the same events give the same state.
//!
//! # Invariants
//! - I1. A file's `base` with its `pending` changes made in order is its `current`.
//! - I2. `durable` is `base`, unless a sync failed and left bytes behind that will never be durable
//!   (`diverged`).
//! - I3. A directory's `durable` names with its pending changes made in order are its `current`.
//! - I4. `pending` is ordered by sequence number; the numbers are of the whole disk, so that a
//!   crash can cut all files and directories at one moment.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::content::Content;
use super::event::{Change, Event, Inode, Place, ROOT};
use super::faults::SyncFailure;

/// Bytes that a disk writes whole or not at all.
pub(super) const SECTOR: u64 = 512;

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) nodes: BTreeMap<Inode, Node>,
    pub(super) in_flight: BTreeMap<u64, InFlightWrite>,
    /// The number of the next event.
    pub(super) sequence: u64,
    pub(super) next_inode: Inode,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(FileState),
    Dir(DirState),
}

/// A write that is under way.
#[derive(Clone, Debug)]
pub(super) struct InFlightWrite {
    pub(super) node: Inode,
    pub(super) offset: u64,
    pub(super) bytes: Arc<[u8]>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    pub(super) durable: Content,
    pub(super) base: Content,
    pub(super) current: Content,
    pub(super) pending: Vec<(u64, Change)>,
    diverged: bool,
    /// The next sync succeeds without doing anything.
    skips_sync: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct DirState {
    pub(super) durable: BTreeMap<String, Inode>,
    pub(super) current: BTreeMap<String, Inode>,
    pub(super) pending: Vec<NameChange>,
}

/// A change of a directory's names.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    pub(super) sequence: u64,
    pub(super) unset: Option<String>,
    pub(super) set: Option<(String, Inode)>,
    /// A name that moved away: the directory that it moved to, whose change has the same sequence
    /// number and cannot be missing where this one is made.
    pub(super) moved_to: Option<Inode>,
}

impl NameChange {
    pub(super) fn make(&self, names: &mut BTreeMap<String, Inode>) {
        if let Some(name) = &self.unset {
            names.remove(name);
        }
        if let Some((name, node)) = &self.set {
            names.insert(name.clone(), *node);
        }
    }
}

impl Default for State {
    /// An empty root directory.
    fn default() -> Self {
        let nodes = BTreeMap::from([(ROOT, Node::Dir(DirState::default()))]);
        Self { nodes, in_flight: BTreeMap::new(), sequence: 0, next_inode: ROOT + 1 }
    }
}

impl Change {
    /// Makes the change.
    pub(super) fn make(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(*offset, bytes),
            Self::Zero(range) => content.zero(range.clone()),
            Self::SetLen(len) => content.set_len(*len),
        }
    }

    /// The whole sectors that it writes.
    pub(super) fn sectors(&self) -> Range<u64> {
        let range = match self {
            Self::Write { offset, bytes } => *offset..*offset + bytes.len() as u64,
            Self::Zero(range) => range.clone(),
            Self::SetLen(_) => 0..0,
        };
        range.start / SECTOR * SECTOR..range.end.next_multiple_of(SECTOR)
    }
}

impl FileState {
    /// A file that came through a crash as `content`.
    pub(super) fn durable(content: Content) -> Self {
        let (base, current) = (content.clone(), content.clone());
        Self { durable: content, base, current, ..Self::default() }
    }

    fn sync(&mut self, until: u64) {
        if std::mem::take(&mut self.skips_sync) {
            return;
        }
        let later = self.pending.split_off(self.pending.partition_point(|(at, _)| *at < until));
        let synced = if later.is_empty() {
            self.current.clone()
        } else {
            let mut content = self.base.clone();
            self.pending.iter().for_each(|(_, change)| change.make(&mut content));
            content
        };
        if self.diverged {
            // Whole sectors go to the medium, with bytes that an earlier failure left in them.
            for (_, change) in &self.pending {
                self.durable.copy_from(&synced, change.sectors());
            }
            self.durable.cut(synced.len());
        } else {
            self.durable = synced.clone();
        }
        self.base = synced;
        self.pending = later;
    }

    fn fail_sync(&mut self, how: SyncFailure) {
        match how {
            SyncFailure::MarkedClean => {
                self.pending.clear();
                self.base = self.current.clone();
                self.diverged = true;
            }
            SyncFailure::Reverted => {
                self.pending.clear();
                self.base = self.durable.clone();
                self.current = self.durable.clone();
                self.diverged = false;
            }
            SyncFailure::ReportedOnce => self.skips_sync = true,
        }
    }

    /// Damages the medium, and with it all that was read from it.
    fn damage(&mut self, damage: impl Fn(&mut Content)) {
        damage(&mut self.durable);
        damage(&mut self.base);
        damage(&mut self.current);
    }
}

impl State {
    pub(super) fn dir(&self, node: Inode) -> Option<&DirState> {
        match self.nodes.get(&node) {
            Some(Node::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    pub(super) fn file(&self, node: Inode) -> Option<&FileState> {
        match self.nodes.get(&node) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    fn dir_mut(&mut self, node: Inode) -> Option<&mut DirState> {
        match self.nodes.get_mut(&node) {
            Some(Node::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    fn file_mut(&mut self, node: Inode) -> Option<&mut FileState> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Makes `event` happen. The files and directories that it names exist: the maker of the event
    /// has checked.
    pub(super) fn apply(&mut self, event: &Event) {
        let sequence = self.sequence;
        self.sequence += 1;
        match event {
            Event::Create { at, is_dir } => self.create(at, *is_dir),
            Event::Link { node, at } => self.change_names(at.0, None, Some((at, *node)), None),
            Event::Rename { from, to } => self.rename(from, to),
            Event::Unlink { at } => self.change_names(at.0, Some(at), None, None),
            Event::SyncDir(node) => self.sync_dir(*node, u64::MAX),
            Event::Change { node, change } => {
                if let Some(file) = self.file_mut(*node) {
                    change.make(&mut file.current);
                    file.pending.push((sequence, change.clone()));
                }
            }
            Event::Sync { node, until } => {
                if let Some(file) = self.file_mut(*node) {
                    file.sync(*until);
                }
            }
            Event::SyncFailed { node, how } => {
                if let Some(file) = self.file_mut(*node) {
                    file.fail_sync(*how);
                }
            }
            Event::Started { ticket, node, offset, bytes } => {
                let write = InFlightWrite { node: *node, offset: *offset, bytes: bytes.clone() };
                self.in_flight.insert(*ticket, write);
            }
            Event::Ended { ticket } => {
                self.in_flight.remove(ticket);
            }
            Event::Rot { node, offset, bit } => {
                if let Some(file) = self.file_mut(*node) {
                    file.damage(|content| content.flip(*offset, *bit));
                }
            }
            Event::ZeroSector { node, offset } => {
                if let Some(file) = self.file_mut(*node) {
                    file.damage(|content| content.zero(*offset..*offset + SECTOR));
                }
            }
        }
    }

    fn create(&mut self, at: &Place, is_dir: bool) {
        let node = self.next_inode;
        self.next_inode += 1;
        let made =
            if is_dir { Node::Dir(DirState::default()) } else { Node::File(FileState::default()) };
        self.nodes.insert(node, made);
        self.change_names(at.0, None, Some((at, node)), None);
    }

    fn rename(&mut self, from: &Place, to: &Place) {
        let Some(node) = self.dir(from.0).and_then(|dir| dir.current.get(&from.1).copied()) else {
            return;
        };
        if from.0 == to.0 {
            self.change_names(from.0, Some(from), Some((to, node)), None);
        } else {
            self.change_names(to.0, None, Some((to, node)), None);
            self.change_names(from.0, Some(from), None, Some(to.0));
        }
    }

    /// A pending change, of the event that is being applied.
    fn change_names(
        &mut self,
        dir: Inode,
        unset: Option<&Place>,
        set: Option<(&Place, Inode)>,
        moved_to: Option<Inode>,
    ) {
        let change = NameChange {
            sequence: self.sequence - 1,
            unset: unset.map(|(_, name)| name.clone()),
            set: set.map(|((_, name), node)| (name.clone(), node)),
            moved_to,
        };
        if let Some(dir) = self.dir_mut(dir) {
            change.make(&mut dir.current);
            dir.pending.push(change);
        }
    }

    /// Makes the changes of a directory up to and with `last` durable, and those without which
    /// they cannot be: a name that moved away is durable where it moved to first.
    fn sync_dir(&mut self, node: Inode, last: u64) {
        let Some(dir) = self.dir_mut(node) else { return };
        let cut = dir.pending.partition_point(|change| change.sequence <= last);
        let synced: Vec<NameChange> = dir.pending.drain(..cut).collect();
        for change in &synced {
            change.make(&mut dir.durable);
        }
        for change in synced {
            if let Some(target) = change.moved_to {
                self.sync_dir(target, change.sequence);
            }
        }
    }
}
