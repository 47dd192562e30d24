//! The files of a range, and their log.
//!
//! All names and small files are in memory. Changes go to the manifest log when a file or a
//! directory is synced, in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use codec::Corruption;
use device::{Accounting, FileNames};
use logc::Log;
use sync::Mutex;

use crate::changes::{Change, NodeId, decode_file, encode_first, encode_frame};
use crate::node::{Content, JournalFile, Node, Small};
use crate::place::{Failure, Place};
use crate::table::Table;

/// Bytes of a file of the manifest log above which another one is begun, if the first frame of that
/// has less than a quarter of them.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The files of a range.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) place: Arc<Place>,
    pub(crate) state: Mutex<State>,
    /// Held while changes are appended, so that they keep their order. Taken before `state`.
    manifest: Mutex<Manifest>,
    pub(crate) manifest_log: Log,
    pub(crate) journal: Log,
    pub(crate) accounting: Arc<Accounting>,
    pub(crate) locks: Mutex<BTreeSet<String>>,
    /// Held during a repair.
    pub(crate) repairing: Mutex<()>,
}

/// Names and changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) names: FileNames<Node>,
    /// Changes that are not in the log yet.
    pub(crate) pending: Vec<Change>,
    /// Files whose last name was removed by a pending change.
    pub(crate) removed: Vec<Arc<Node>>,
    next_node: u64,
    next_journal: u64,
}

/// The end of the manifest log.
#[derive(Debug)]
struct Manifest {
    file: u64,
    length: u64,
    failure: Option<Failure>,
}

impl Files {
    /// Reads the files of a range from its logs, and begins a file of the manifest log.
    ///
    /// # Errors
    /// Those of the logs; damage.
    pub(crate) fn open(
        place: Arc<Place>,
        journal: Log,
        manifest_log: Log,
    ) -> Result<Self, Failure> {
        let lengths = journal.files();
        let mut state = State {
            names: FileNames::default(),
            pending: Vec::new(),
            removed: Vec::new(),
            next_node: 1,
            next_journal: lengths.last().map_or(0, |(file, _)| *file) + 1,
        };
        let mut newest = 0;
        for (file, length) in manifest_log.files().into_iter().rev() {
            newest = newest.max(file);
            let bytes = manifest_log.read(file, 0, length);
            let bytes = bytes.map_err(|error| place.failure_of(error))?;
            let frames = decode_file(&bytes).map_err(Failure::Damaged)?;
            // A file whose first frame is not whole was being begun.
            if !frames.is_empty() {
                let mut nodes = BTreeMap::new();
                for change in frames.into_iter().flatten() {
                    let replayed = state.replay(change, &mut nodes, (&lengths, &place));
                    replayed.map_err(Failure::Damaged)?;
                }
                break;
            }
        }
        let manifest = Manifest { file: newest, length: 0, failure: None };
        let files = Self {
            place,
            state: Mutex::new(state),
            manifest: Mutex::new(manifest),
            manifest_log,
            journal,
            accounting: Arc::default(),
            locks: Mutex::default(),
            repairing: Mutex::default(),
        };
        // Tables that the replayed changes have replaced or removed are orphans.
        let live = files.tables().into_iter().flat_map(|(_, table)| table.names());
        files.place.live.set(live.collect::<Vec<_>>().into_iter());
        files.begin_manifest(&mut files.manifest.lock())?;
        files.release_orphans();
        Ok(files)
    }

    /// Writes all files to another file of the manifest log.
    fn begin_manifest(&self, manifest: &mut Manifest) -> Result<(), Failure> {
        let file = manifest.file + 1;
        let failed = |error| self.place.failure_of(error);
        self.manifest_log.begin_file(file).map_err(failed)?;
        let all = {
            let mut state = self.state.lock();
            // They are among all the changes. The next flush releases what they removed.
            state.pending.clear();
            state.as_changes()
        };
        let first = encode_first(&all);
        self.manifest_log.append(file, 0, &first).map_err(failed)?;
        (manifest.file, manifest.length) = (file, first.len() as u64);
        // The next file is removed with these if the coordinator is away.
        let _ = self.manifest_log.remove_before(file);
        Ok(())
    }

    /// Appends all changes so far to the log. They are durable on return.
    ///
    /// # Errors
    /// The range belongs to another owner, or the device is closed. Then nothing more is appended.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        let mut manifest = self.manifest.lock();
        if let Some(failure) = &manifest.failure {
            return Err(failure.clone());
        }
        let (changes, removed) = {
            let mut state = self.state.lock();
            (mem::take(&mut state.pending), mem::take(&mut state.removed))
        };
        if !changes.is_empty() {
            let appended = self.append(&mut manifest, &changes);
            if let Err(failure) = &appended {
                manifest.failure = Some(failure.clone());
                return appended;
            }
        }
        drop(manifest);
        self.release(removed);
        Ok(())
    }

    fn append(&self, manifest: &mut Manifest, changes: &[Change]) -> Result<(), Failure> {
        let frame = encode_frame(changes);
        let appended = self.manifest_log.append(manifest.file, manifest.length, &frame);
        appended.map_err(|error| self.place.failure_of(error))?;
        manifest.length += frame.len() as u64;
        if manifest.length < FILE_BYTES_MAX {
            return Ok(());
        }
        let first = self.state.lock().as_changes_bytes();
        if first < manifest.length / 4 { self.begin_manifest(manifest) } else { Ok(()) }
    }

    /// Releases the content of files without a name.
    fn release(&self, removed: Vec<Arc<Node>>) {
        let mut has_journal = false;
        for node in &removed {
            match &*node.content.lock() {
                Content::Table(table) => table.is_removed.store(true, SeqCst),
                Content::Journal(_) => has_journal = true,
                Content::Small(_) | Content::Filling(_) => {}
            }
        }
        if has_journal {
            let oldest = self.state.lock().oldest_journal();
            // The next removal removes these too if the coordinator is away.
            let _ = self.journal.remove_before(oldest);
        }
    }

    /// Closes the logs. A call that waits for a StoC ends.
    pub(crate) fn close(&self) {
        self.place.closing.close();
    }
}

impl State {
    /// Returns a file that has no name yet.
    pub(crate) fn new_node(&mut self, content: impl FnOnce(NodeId) -> Content) -> Arc<Node> {
        let id = NodeId(self.next_node);
        self.next_node += 1;
        Arc::new(Node::new(id, content(id)))
    }

    /// Returns the number of the next file of the write log.
    pub(crate) fn next_journal(&mut self) -> u64 {
        self.next_journal += 1;
        self.next_journal - 1
    }

    /// Returns the number of the oldest file of the write log that has a name, or of the next one.
    fn oldest_journal(&self) -> u64 {
        let files = self.names.files().filter_map(|(_, node)| match &*node.content.lock() {
            Content::Journal(Some(journal)) => Some(journal.file),
            _ => None,
        });
        files.min().unwrap_or(self.next_journal)
    }

    /// Applies a change of the log. `nodes` are the files so far, and `lengths` the files of the
    /// write log.
    fn replay(
        &mut self,
        next: Change,
        nodes: &mut BTreeMap<NodeId, Arc<Node>>,
        (lengths, place): (&[(u64, u64)], &Arc<Place>),
    ) -> Result<(), Corruption> {
        match next {
            Change::CreateDir { path } => self.names.create_dir(&path, &path).map_err(lost)?,
            Change::RemoveDir { path } => {
                self.names.remove_dir(&path, &path).map_err(lost)?;
            }
            Change::Name { path, node: id } => {
                self.next_node = self.next_node.max(id.0 + 1);
                let new = || Arc::new(Node::new(id, Content::Small(Small::default())));
                let node = nodes.entry(id).or_insert_with(new);
                self.names.set(&path, Arc::clone(node));
            }
            Change::Rename { from, to } => {
                self.names.rename((&from, &from), (&to, &to)).map_err(lost)?;
            }
            Change::Remove { path } => {
                self.names.remove(&path, &path).map_err(lost)?;
            }
            Change::Bytes { node, offset, bytes } => change(nodes, node, |content| {
                if let Content::Small(small) = content {
                    let _fits = small.write(offset, &bytes);
                }
            }),
            Change::Length { node, length } => change(nodes, node, |content| {
                if let Content::Small(small) = content {
                    let _fits = small.set_length(length);
                }
            }),
            Change::Journal { node, file } => {
                let length = lengths.iter().find(|(number, _)| *number == file);
                let length = length.map_or(0, |(_, length)| *length);
                self.next_journal = self.next_journal.max(file + 1);
                let is_begun = lengths.iter().any(|(number, _)| *number == file);
                let journal = JournalFile { file, length, is_begun };
                let journal = Content::Journal(Some(journal));
                change(nodes, node, |content| *content = journal);
            }
            Change::Table { node, placement } => {
                let table = Arc::new(Table::new(place, placement));
                change(nodes, node, |content| *content = Content::Table(table));
            }
        }
        Ok(())
    }

    /// Returns all files as changes of an empty range.
    fn as_changes(&self) -> Vec<Change> {
        let dirs = self.names.dirs().map(|path| Change::CreateDir { path: path.to_owned() });
        let mut changes: Vec<Change> = dirs.collect();
        let mut seen = BTreeSet::new();
        for (path, node) in self.names.files() {
            changes.push(Change::Name { path: path.to_owned(), node: node.id });
            if seen.insert(node.id) {
                match &*node.content.lock() {
                    Content::Small(small) => changes.extend(small.as_changes(node.id)),
                    Content::Journal(None) | Content::Filling(_) => {}
                    Content::Journal(Some(journal)) => {
                        changes.push(Change::Journal { node: node.id, file: journal.file });
                    }
                    Content::Table(table) => {
                        let placement = table.placement();
                        changes.push(Change::Table { node: node.id, placement });
                    }
                }
            }
        }
        changes
    }

    /// Returns the bytes of these changes, about.
    fn as_changes_bytes(&self) -> u64 {
        let bytes = self.names.files().map(|(path, node)| match &*node.content.lock() {
            Content::Small(small) => path.len() as u64 + small.length(),
            _ => path.len() as u64 + 64,
        });
        bytes.sum()
    }
}

/// Changes the content of a file, if it has a name: a file may be changed after its removal.
fn change(nodes: &BTreeMap<NodeId, Arc<Node>>, node: NodeId, change: impl FnOnce(&mut Content)) {
    if let Some(node) = nodes.get(&node) {
        change(&mut node.content.lock());
    }
}

fn lost(error: device::Error) -> Corruption {
    Corruption::new(format!("the changes of files do not fit each other: {error}"), 0)
}
