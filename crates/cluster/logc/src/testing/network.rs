//! StoCs behind a network within the process.

use std::sync::Arc;

use environment::Environment;
use stoc::{Identity, Link, OnReply, RemoteLink, Request, Stoc, StocService};
use wire::{Certified, Cut, Endpoint as _, LocalEndpoint, LocalNetwork, Node, Options, Role};

/// Threads of a StoC.
const THREADS: usize = 2;

/// The link to a StoC behind a network.
#[derive(Debug)]
pub(super) struct NetworkLink {
    link: RemoteLink,
    network: LocalNetwork,
    /// The endpoints of the owner and of the StoC.
    ends: (usize, usize),
    _service: Arc<StocService>,
    _stoc: Node,
    _owner: Node,
}

fn named(
    role: Role,
    node: u32,
    Identity { cluster, cookie, incarnation, .. }: Identity,
) -> Options {
    let identity = wire::Identity { cluster, role, node, cookie, incarnation };
    Options::new(identity, Environment::real())
}

fn endpoint(network: &LocalNetwork, of: &Options) -> LocalEndpoint {
    let wire::Identity { cluster, role, node, .. } = of.identity;
    network.endpoint(Certified { cluster, role, node: Some(node) })
}

impl NetworkLink {
    /// Puts a StoC behind a network.
    pub(super) fn new(stoc: &Arc<Stoc>) -> Self {
        let (network, environment) = (LocalNetwork::default(), Environment::real());
        let service = StocService::new(Arc::clone(stoc), THREADS, &environment);
        let service = Arc::new(service.expect("there are threads"));
        let identity = stoc.identity();
        let mut options = named(Role::Stoc, identity.node, identity);
        options.handler = Some(Arc::clone(&service) as _);
        let mut at_stoc = endpoint(&network, &options);
        let place = at_stoc.listen("stoc:0").expect("the network is empty");
        let of_owner = named(Role::Ltc, 1, identity);
        let at_owner = endpoint(&network, &of_owner);
        let ends = (at_owner.id(), at_stoc.id());
        let stoc = Node::start(at_stoc, options).expect("there is a thread");
        let owner = Node::start(at_owner, of_owner).expect("there is a thread");
        let link = RemoteLink::new(&owner, identity, &place);
        Self { link, network, ends, _service: service, _stoc: stoc, _owner: owner }
    }

    /// Ends all connections. The next request makes another one.
    pub(super) fn reset(&self) {
        self.network.cut(self.ends.0, self.ends.1, Some(Cut::Reset));
        self.network.cut(self.ends.0, self.ends.1, None);
    }
}

impl Link for NetworkLink {
    fn identity(&self) -> Identity {
        self.link.identity()
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        self.link.send(request, on_reply);
    }
}
