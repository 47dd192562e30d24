//! StoCs of other processes, as the coordinator lists them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use coordinator::{Coordinator, StocRecord};
use environment::{Environment, Monotonic};
use logc::Stocs;
use stoc::{Identity, Link, OnReply, RemoteLink, Request, Response};
use sync::Mutex;
use wire::Node;

use crate::error::Result;

/// Time for which a StoC that could not be reached, or had no room, gets no new file if another one
/// can get it.
const AVOIDED: Duration = Duration::from_secs(10);

/// The StoCs of other processes. [`RemoteStocs::refresh`] reads their list.
pub struct RemoteStocs {
    coordinator: Arc<Coordinator>,
    node: Arc<Node>,
    known: Mutex<BTreeMap<u32, Known>>,
    /// StoCs that were chosen so far: a choice begins with the next one.
    chosen: AtomicUsize,
    environment: Environment,
}

/// A StoC that can be reached.
#[derive(Debug)]
struct Known {
    cookie: u64,
    place: String,
    link: Arc<NotedLink>,
}

/// A link that notes failures.
struct NotedLink {
    link: RemoteLink,
    /// The time of the last failure.
    failed: Arc<Mutex<Option<Monotonic>>>,
    environment: Environment,
}

impl RemoteStocs {
    /// Returns the StoCs that the coordinator lists now. `node` connects to them.
    ///
    /// # Errors
    /// Those of the coordinator.
    pub fn new(
        coordinator: Arc<Coordinator>,
        node: Arc<Node>,
        environment: Environment,
    ) -> Result<Self> {
        let (known, chosen) = (Mutex::default(), AtomicUsize::new(0));
        let stocs = Self { coordinator, node, known, chosen, environment };
        stocs.refresh()?;
        Ok(stocs)
    }

    /// Reads the list again. A StoC with another storage or another address gets another link, and
    /// requests by the link before cannot reach it.
    ///
    /// # Errors
    /// Those of the coordinator. The list is unchanged then.
    pub fn refresh(&self) -> Result<()> {
        let listed = self.coordinator.stocs()?;
        let mut known = self.known.lock();
        for (number, record) in listed {
            let StocRecord { cookie: Some(cookie), completed, place: Some(place), .. } = record
            else {
                continue;
            };
            let is_same = |known: &Known| known.cookie == cookie && known.place == place;
            if known.get(&number).is_some_and(is_same) {
                continue;
            }
            let cluster = self.coordinator.cluster();
            let incarnation = completed.unwrap_or(0);
            let identity = Identity { cluster, node: number, cookie, incarnation };
            let link = Arc::new(NotedLink {
                link: RemoteLink::new(&self.node, identity, &place),
                failed: Arc::default(),
                environment: self.environment.clone(),
            });
            known.insert(number, Known { cookie, place, link });
        }
        Ok(())
    }
}

impl Stocs for RemoteStocs {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        let known = self.known.lock();
        known.get(&node).map(|known| Arc::clone(&known.link) as Arc<dyn Link>)
    }

    /// Chooses StoCs in turn. StoCs that have failed a short time ago come last.
    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let known = self.known.lock();
        let mut all: Vec<(u32, &Known)> =
            known.iter().map(|(node, known)| (*node, known)).collect();
        let turn = self.chosen.fetch_add(1, Relaxed) % all.len().max(1);
        all.rotate_left(turn);
        all.sort_by_key(|(_, known)| known.link.has_failed());
        let free = all.into_iter().filter(|(node, _)| !avoid.contains(node));
        free.map(|(_, known)| Arc::clone(&known.link) as Arc<dyn Link>).take(count).collect()
    }
}

impl NotedLink {
    /// Returns whether a request has failed a short time ago.
    fn has_failed(&self) -> bool {
        self.failed.lock().is_some_and(|at| self.environment.now() - at < AVOIDED)
    }
}

impl Link for NotedLink {
    fn identity(&self) -> Identity {
        self.link.identity()
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        let (failed, environment) = (Arc::clone(&self.failed), self.environment.clone());
        let note = move |reply: stoc::Result<Response>| {
            let is_failure = matches!(
                reply,
                Err(stoc::Error::Unreachable { .. }
                    | stoc::Error::NoRoom { .. }
                    | stoc::Error::Failed { .. })
            );
            if is_failure {
                *failed.lock() = Some(environment.now());
            }
            on_reply(reply);
        };
        self.link.send(request, Box::new(note));
    }
}

impl fmt::Debug for NotedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotedLink").field("link", &self.link).finish_non_exhaustive()
    }
}

impl fmt::Debug for RemoteStocs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStocs").field("known", &self.known).finish_non_exhaustive()
    }
}
