//! StoCs of other processes, as the coordinator lists them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coordinator::{Coordinator, StocRecord};
use environment::{Environment, Random};
use logc::Stocs;
use stoc::{Identity, Link, OnReply, RemoteLink, Request, Response};
use sync::Mutex;
use wire::Node;

use crate::error::Result;
use crate::stoc_choice::{self, Candidate, Domain, StocChoice};
use crate::stoc_load::{LoadId, StocLoads};

/// The StoCs of other processes. [`RemoteStocs::refresh`] reads their list.
pub struct RemoteStocs {
    coordinator: Arc<Coordinator>,
    node: Arc<Node>,
    known: Mutex<BTreeMap<u32, Known>>,
    loads: Arc<StocLoads>,
    choice: StocChoice,
    random: Mutex<Random>,
}

/// A StoC that can be reached.
#[derive(Debug)]
struct Known {
    cookie: u64,
    place: String,
    domain: Domain,
    link: Arc<NotedLink>,
}

/// A link that notes the load of its StoC.
struct NotedLink {
    link: RemoteLink,
    load: LoadId,
    loads: Arc<StocLoads>,
}

impl RemoteStocs {
    /// Returns the StoCs that the coordinator lists now. `node` connects to them, and new tables
    /// and segments of logs go to StoCs by `choice`.
    ///
    /// # Errors
    /// Those of the coordinator.
    pub fn new(
        coordinator: Arc<Coordinator>,
        node: Arc<Node>,
        choice: StocChoice,
        environment: Environment,
    ) -> Result<Self> {
        let random = Mutex::new(environment.random("choice of StoCs"));
        let (known, loads) = (Mutex::default(), Arc::new(StocLoads::new(environment)));
        let stocs = Self { coordinator, node, known, loads, choice, random };
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
            let StocRecord { cookie: Some(cookie), completed, place: Some(place), domain, .. } =
                record
            else {
                continue;
            };
            let domain = Domain::of(number, domain);
            if let Some(known) = known.get_mut(&number) {
                if known.cookie == cookie && known.place == place {
                    known.domain = domain;
                    continue;
                }
                self.loads.remove(known.link.load);
            }
            let cluster = self.coordinator.cluster();
            let incarnation = completed.unwrap_or(0);
            let identity = Identity { cluster, node: number, cookie, incarnation };
            let link = Arc::new(NotedLink {
                link: RemoteLink::new(&self.node, identity, &place),
                load: self.loads.add(),
                loads: Arc::clone(&self.loads),
            });
            known.insert(number, Known { cookie, place, domain, link });
        }
        Ok(())
    }
}

impl Stocs for RemoteStocs {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        let known = self.known.lock();
        known.get(&node).map(|known| Arc::clone(&known.link) as Arc<dyn Link>)
    }

    /// Chooses StoCs by their load, or randomly ([`StocChoice`]).
    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let known = self.known.lock();
        let figures = self.loads.figures();
        let candidate = |(node, known): (&u32, &Known)| {
            let figures = figures.get(&known.link.load)?;
            let domain = known.domain.clone();
            Some(Candidate { node: *node, domain, standing: figures.standing, wait: figures.wait })
        };
        let free = known.iter().filter(|(node, _)| !avoid.contains(node));
        let candidates = free.filter_map(candidate).collect();
        let taken = avoid.iter().filter_map(|node| known.get(node)).map(|it| it.domain.clone());
        let mut random = self.random.lock();
        let chosen = stoc_choice::choose(self.choice, candidates, count, taken, &mut random);
        let link = |node: u32| Some(Arc::clone(&known.get(&node)?.link) as Arc<dyn Link>);
        chosen.into_iter().filter_map(link).collect()
    }
}

impl Link for NotedLink {
    fn identity(&self) -> Identity {
        self.link.identity()
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        let started = self.loads.began(self.load, &request);
        let loads = Arc::clone(&self.loads);
        let note = move |reply: stoc::Result<Response>| {
            loads.ended(&started, &reply);
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
