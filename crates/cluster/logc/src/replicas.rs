//! The replicas of a segment, and the replies that are awaited from them.

use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use stoc::{Epoch, Error as StocError, FileName, Link, Request, Response};
use sync::{Condvar, Mutex};

use crate::record::{Member, Segment};
use crate::registry::Stocs;

/// Time after which a thread that waits for replies looks whether the log was closed.
const LOOK: Duration = Duration::from_millis(20);

/// The replicas of the segment that is appended to. Clones are of the same replicas.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    shared: Arc<Shared>,
    /// None for a StoC that cannot be used.
    links: Vec<Option<ReplicaLink>>,
    quorum: usize,
}

/// The link to a StoC, and the start that appends to it name.
type ReplicaLink = (Arc<dyn Link>, Option<u64>);

#[derive(Debug)]
struct Shared {
    all: Mutex<Vec<Replica>>,
    changed: Condvar,
}

/// The state of one replica, by its replies.
#[derive(Debug, Default)]
struct Replica {
    node: u32,
    /// The end of the bytes that the StoC has synced, or in memory for a segment in memory.
    acknowledged: u64,
    /// Whether it gets nothing more: it failed, or is slow or missing.
    has_failed: bool,
    /// Whether it has promised the range to a higher epoch.
    is_fenced: bool,
}

/// The result of waiting for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Qa StoCs have the bytes as the mode of the segment says.
    Acknowledged,
    /// A StoC has promised the range to a higher epoch.
    Fenced,
    /// Too few StoCs are left to acknowledge the bytes.
    Lost,
    /// The log was closed.
    Closed,
}

impl Replicas {
    /// Returns the replicas of a segment. StoCs that cannot be reached, or that have other storage
    /// than the registered one, have failed. So have other starts of the StoCs of a segment in
    /// memory.
    pub(crate) fn new(segment: &Segment, stocs: &dyn Stocs, quorum: usize) -> Self {
        let link_of = |member: &Member| {
            let link = stocs.link(member.node)?;
            let is_present = segment.is_of(member, &Member::of(link.identity()));
            is_present.then_some((link, segment.start_of(member)))
        };
        let links: Vec<_> = segment.ensemble.iter().map(link_of).collect();
        let replica = |(node, link): (u32, &Option<_>)| Replica {
            node,
            has_failed: link.is_none(),
            ..Replica::default()
        };
        let all = segment.nodes().zip(&links).map(replica).collect();
        let shared = Arc::new(Shared { all: Mutex::new(all), changed: Condvar::new() });
        Self { shared, links, quorum }
    }

    /// Sends an append to each replica that has not failed. A successful reply acknowledges all
    /// bytes up to its end.
    pub(crate) fn append(&self, (name, epoch): (FileName, Epoch), offset: u64, bytes: &Arc<[u8]>) {
        let end = offset + bytes.len() as u64;
        for (at, link) in self.links.iter().enumerate() {
            let has_failed = self.shared.all.lock().get(at).is_none_or(|one| one.has_failed);
            let Some((link, start)) = link.as_ref().filter(|_| !has_failed) else { continue };
            let shared = Arc::clone(&self.shared);
            let on_reply = move |reply: Result<Response, StocError>| {
                if let Some(replica) = shared.all.lock().get_mut(at) {
                    replica.note(&reply, end);
                }
                shared.changed.notify_all();
            };
            let (start, bytes) = (*start, Arc::clone(bytes));
            let request = Request::Append { name, epoch, start, offset, bytes };
            link.send(request, Box::new(on_reply));
        }
    }

    /// Waits until Qa StoCs have all bytes up to `end`, or this is impossible. A StoC that
    /// does not reply for `slow` has failed, if the quorum needs it.
    pub(crate) fn wait(
        &self,
        end: u64,
        (slow, environment): (Duration, &Environment),
        is_closed: impl Fn() -> bool,
    ) -> Waited {
        let deadline = environment.now() + slow;
        let mut all = self.shared.all.lock();
        loop {
            let has = |replica: &&Replica| replica.acknowledged >= end;
            if all.iter().filter(has).count() >= self.quorum {
                return Waited::Acknowledged;
            }
            if all.iter().any(|replica| replica.is_fenced) {
                return Waited::Fenced;
            }
            let may_have = |replica: &&Replica| replica.acknowledged >= end || !replica.has_failed;
            if all.iter().filter(may_have).count() < self.quorum {
                return Waited::Lost;
            }
            if is_closed() {
                return Waited::Closed;
            }
            if environment.now() >= deadline {
                all.iter_mut().for_each(|replica| replica.has_failed |= replica.acknowledged < end);
                continue;
            }
            self.shared.changed.wait_for(&mut all, LOOK.min(slow));
        }
    }

    /// Counts the StoCs that have not failed. One that is more than `backlog` bytes behind `end`
    /// fails now.
    pub(crate) fn healthy(&self, end: u64, backlog: u64) -> usize {
        let mut all = self.shared.all.lock();
        let behind = |replica: &Replica| end.saturating_sub(replica.acknowledged) > backlog;
        all.iter_mut().for_each(|replica| replica.has_failed |= behind(replica));
        all.iter().filter(|replica| !replica.has_failed).count()
    }

    /// Returns the numbers of the StoCs that have failed.
    pub(crate) fn failed_nodes(&self) -> Vec<u32> {
        let all = self.shared.all.lock();
        all.iter().filter(|replica| replica.has_failed).map(|replica| replica.node).collect()
    }
}

impl Replica {
    fn note(&mut self, reply: &Result<Response, StocError>, end: u64) {
        match reply {
            Ok(_) => self.acknowledged = self.acknowledged.max(end),
            Err(StocError::Fenced { .. }) => (self.is_fenced, self.has_failed) = (true, true),
            Err(_) => self.has_failed = true,
        }
    }
}
