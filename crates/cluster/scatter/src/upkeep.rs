//! Upkeep of the files of a range: the release of orphans, and copies in place of lost ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use logc::Member;
use stoc::{FileName, Kind, Link, Listed, Request, Response, call_all};

use crate::changes::{Change, NodeId};
use crate::files::Files;
use crate::node::Content;
use crate::place::Failure;
use crate::table::Table;

/// A file of a table, and the link to its StoC.
struct Stored {
    link: Arc<dyn Link>,
    file: Listed,
}

impl Files {
    /// Returns all tables.
    fn tables(&self) -> Vec<(NodeId, Arc<Table>)> {
        let state = self.state.lock();
        let mut seen = BTreeSet::new();
        let table = |node: &crate::node::Node| match &*node.content.lock() {
            Content::Table(table) => Some((node.id, Arc::clone(table))),
            _ => None,
        };
        let nodes = state.names.files().map(|(_, node)| node);
        nodes.filter(|node| seen.insert(node.id)).filter_map(|node| table(node)).collect()
    }

    /// Returns the files of tables on all StoCs that reply.
    fn stored(&self) -> Vec<Stored> {
        let links = self.place.stocs.choose(usize::MAX, &[]);
        let list = Request::List { range: self.place.range };
        let replies = call_all(&links, &list, (self.place.slow, &self.place.environment));
        let mut stored = Vec::new();
        for (link, reply) in links.into_iter().zip(replies) {
            let Ok(Response::Files(files)) = reply else { continue };
            let files = files.into_iter().filter(|file| file.name.kind == Kind::Data);
            stored.extend(files.map(|file| Stored { link: Arc::clone(&link), file }));
        }
        stored
    }

    /// Releases the orphans on all StoCs that reply: files of tables that earlier owners have made
    /// and no table of the range has. Returns their number. (F5)
    pub(crate) fn release_orphans(&self) -> usize {
        let copies_of = |(_, table): (NodeId, Arc<Table>)| {
            let placement = table.placement();
            placement.copies.into_iter().map(move |member| (member.node, placement.name))
        };
        let named: BTreeSet<(u32, FileName)> =
            self.tables().into_iter().flat_map(copies_of).collect();
        let mut orphans = self.stored();
        orphans.retain(|stored| {
            let node = stored.link.identity().node;
            stored.file.epoch < self.place.epoch && !named.contains(&(node, stored.file.name))
        });
        orphans.iter().for_each(|orphan| self.place.release(&orphan.file.name, &*orphan.link));
        orphans.len()
    }

    /// Copies tables with too few copies to other StoCs. Returns the number of tables that it has
    /// copied. (F6)
    ///
    /// # Errors
    /// The range belongs to another owner, or the device is closed; a table without a copy that can
    /// be read.
    pub(crate) fn repair(&self) -> Result<usize, Failure> {
        let tables = self.tables();
        let finished = self.stored().into_iter().filter(|stored| stored.file.is_finished);
        let finished: BTreeSet<(u32, u64, FileName)> = finished
            .map(|Stored { link, file }| (link.identity().node, link.identity().cookie, file.name))
            .collect();
        let (mut repaired, mut failure) = (0, None);
        for (node, table) in tables {
            if self.place.closing.is_closed() {
                return Err(Failure::Closed);
            }
            let is_there =
                |member: &Member| finished.contains(&(member.node, member.cookie, table.name));
            match table.repair(is_there) {
                Ok(false) => {}
                Ok(true) => {
                    repaired += 1;
                    let placement = table.placement();
                    self.state.lock().pending.push(Change::Table { node, placement });
                    self.flush()?;
                }
                Err(Failure::Fenced) => return Err(Failure::Fenced),
                // A failure of one table does not end the repair of others.
                Err(other) => failure = Some(other),
            }
        }
        failure.map_or(Ok(repaired), Err)
    }
}
