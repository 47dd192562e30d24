//! Upkeep of the files of a range: the release of orphans, and copies in place of lost ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logc::Member;
use stoc::{FileName, Kind, Link, Listed, Request, Response, call_all};

use crate::changes::{Change, NodeId};
use crate::files::Files;
use crate::node::{Content, Node};
use crate::place::Failure;
use crate::table::{Dropped, Table};

/// The files of the range on all StoCs that have replied.
pub(crate) struct Stored {
    stocs: BTreeMap<u32, StocFiles>,
}

/// The files of the range on one StoC.
struct StocFiles {
    link: Arc<dyn Link>,
    files: BTreeMap<FileName, Listed>,
}

impl Stored {
    /// Returns whether a StoC may have a finished copy: it has listed the copy, or did not reply.
    pub(crate) fn may_have(&self, member: &Member, name: &FileName, length: u64) -> bool {
        let Some(StocFiles { link, files }) = self.stocs.get(&member.node) else { return true };
        let is_whole = |file: &Listed| file.is_finished && file.length == Some(length);
        link.identity().cookie == member.cookie && files.get(name).is_some_and(is_whole)
    }
}

impl Files {
    /// Returns all tables.
    pub(crate) fn tables(&self) -> Vec<(NodeId, Arc<Table>)> {
        let state = self.state.lock();
        let mut seen = BTreeSet::new();
        let table = |node: &Node| match &*node.content.lock() {
            Content::Table(table) => Some((node.id, Arc::clone(table))),
            _ => None,
        };
        let nodes = state.names.files().map(|(_, node)| node);
        nodes.filter(|node| seen.insert(node.id)).filter_map(|node| table(node)).collect()
    }

    /// Asks all StoCs for the files of the range that they have.
    fn stored(&self) -> Stored {
        let links = self.place.stocs.choose(usize::MAX, &[]);
        let list = Request::List { range: self.place.range };
        let replies = call_all(&links, &list, (self.place.slow, &self.place.environment));
        let mut stocs = BTreeMap::new();
        for (link, reply) in links.into_iter().zip(replies) {
            let Ok(Response::Files(files)) = reply else { continue };
            let files = files.into_iter().map(|file| (file.name, file)).collect();
            stocs.insert(link.identity().node, StocFiles { link, files });
        }
        Stored { stocs }
    }

    /// Releases the orphans on all StoCs that reply: files that this owner or earlier ones have
    /// made, and that no table and no segment of a log has. Returns their number. (F5)
    pub(crate) fn release_orphans(&self) -> usize {
        self.release_orphans_of(&self.stored())
    }

    fn release_orphans_of(&self, stored: &Stored) -> usize {
        let is_orphan = |file: &Listed| match file.name.kind {
            // The names of new copies are live before StoCs know of them, so a file that was listed
            // and is not live now is an orphan.
            Kind::Data | Kind::Parity | Kind::Metadata => {
                file.epoch <= self.place.epoch && !self.place.live.contains(&file.name)
            }
            Kind::Log => self.journal.is_orphan(file),
            Kind::Manifest => self.manifest_log.is_orphan(file),
        };
        let mut orphans = 0;
        for StocFiles { link, files } in stored.stocs.values() {
            for file in files.values().filter(|file| is_orphan(file)) {
                self.place.release(&file.name, Some(&**link));
                orphans += 1;
            }
        }
        orphans
    }

    /// Copies tables with too few copies to other StoCs, and releases orphans. Returns the number
    /// of tables that it has copied. (F5, F6)
    ///
    /// # Errors
    /// The range belongs to another owner, or the device is closed; a table without a copy that can
    /// be read.
    pub(crate) fn repair(&self) -> Result<usize, Failure> {
        let _turn = self.repairing.lock();
        let tables = self.tables();
        let stored = self.stored();
        let (mut repaired, mut failure) = (0, None);
        for (node, table) in tables {
            self.place.check_open()?;
            let (is_changed, dropped, failed) = table.repair(&stored);
            if is_changed {
                repaired += 1;
                let placement = table.placement();
                self.state.lock().pending.push(Change::Table { node, placement });
                self.flush()?;
                dropped.iter().for_each(Dropped::release);
            }
            match failed {
                Some(Failure::Fenced) => return Err(Failure::Fenced),
                // A failure of one table does not end the repair of others.
                Some(other) => failure = Some(other),
                None => {}
            }
        }
        self.release_orphans_of(&stored);
        failure.map_or(Ok(repaired), Err)
    }
}
