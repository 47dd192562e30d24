//! Directories of groups that are not in memory: they are read in the background.
//!
//! A job makes the directory of a group whose records it moves first. An opening has none, and
//! memory may not suffice for all of them. A lookup that needs one which is not in memory searches
//! footers, and has the directory read.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use engine::Result;
use workers::{Class, StopToken};

use crate::collect::Entries as _;
use crate::collect::FooterEntries;
use crate::key_hash::KeyHash;
use crate::segment_table::{Described, State};
use crate::store::Shared;
use crate::values::directory::Directory;
use crate::values::group::Group;

impl Shared {
    /// Has the directory of a key's group read, soon.
    pub(crate) fn load_directory(self: &Arc<Self>, key: &[u8]) {
        // Lookups search footers until then, and if it fails.
        self.read_footers(self.values.hash(key), "read a directory", Self::read_directory);
    }

    /// Has `read` called with the group of a key, soon. Returns false if a task reads footers
    /// already, or if the store is being closed.
    pub(crate) fn read_footers(
        self: &Arc<Self>,
        hash: KeyHash,
        name: &'static str,
        read: fn(&Self, &Group, &StopToken) -> Result<()>,
    ) -> bool {
        if self.values.gates.is_loading.swap(true, SeqCst) {
            return false;
        }
        let group = Arc::clone(self.values.group(hash.position()));
        let shared = Arc::downgrade(self);
        let task = move |stop: &StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            let _ = read(&shared, &group, stop);
            shared.values.gates.is_loading.store(false, SeqCst);
        };
        let is_queued = self.group.submit(Class::Collect, name, task).is_ok();
        if !is_queued {
            self.values.gates.is_loading.store(false, SeqCst);
        }
        is_queued
    }

    /// Reads the directory of a group, unless a job changes its base segments meanwhile.
    fn read_directory(&self, group: &Group, stop: &StopToken) -> Result<()> {
        let state = group.state.lock();
        let version = state.version;
        let bases: Vec<Described> = state.sealed.values().copied().filter(is_base).collect();
        drop(state);
        let entries: usize = bases.iter().map(|base| base.entries() as usize).sum();
        let (bytes, share) = (Directory::bytes_for(entries), self.memory_split().directory_bytes);
        let segments_max = Directory::segments_max(self.values.geometry.segment_bytes);
        if bases.len() > segments_max || bytes > share {
            return Ok(());
        }
        // The others leave room for it before it takes any.
        self.values.drop_directories(share - bytes);
        self.values.accounts.directories.add(bytes);
        self.fit_cache();
        let made = self.make_directory(&bases, entries, stop);
        self.values.accounts.directories.release(bytes);
        let Some(directory) = made? else { return Ok(()) };
        let mut state = group.state.lock();
        if state.version == version && state.directory.is_none() {
            self.values.accounts.directories.add(directory.bytes());
            state.directory = Some(Arc::new(directory));
        }
        drop(state);
        self.values.drop_directories(share);
        self.fit_cache();
        Ok(())
    }

    /// Returns a directory of these base segments; none if the store is closed.
    fn make_directory(
        &self,
        bases: &[Described],
        entries: usize,
        stop: &StopToken,
    ) -> Result<Option<Directory>> {
        let mut directory = Directory::with_room(entries, self.values.geometry.segment_bytes);
        for base in bases {
            self.health.check_open()?;
            if stop.is_stopping() {
                return Ok(None);
            }
            let mut footer = FooterEntries::new(&self.values, *base);
            let mut records = Vec::with_capacity(base.entries() as usize);
            while let Some(entry) = footer.next()? {
                records.push((entry.hash, entry.offset));
            }
            if !directory.add(base.number, records) {
                return Ok(None);
            }
        }
        Ok(Some(directory))
    }
}

fn is_base(described: &Described) -> bool {
    matches!(described.state, State::Sealed { is_base: true, .. })
}
