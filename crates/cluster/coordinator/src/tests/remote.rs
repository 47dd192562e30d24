//! The store of a coordinator behind a network.

use std::time::Duration;

use wire::{
    Address, Certified, Class, Cut, Endpoint as _, Identity, Kind, LocalNetwork, Node, Role,
};

use super::*;
use crate::{
    Beat, BeatReply, LEASE, LeaderReply, LeaseReport, Leases, LtcLease, MakeKeyspace, RangeLease,
    RemoteStore, Revision, StoreReply, StoreRequest, StoreService, decode_beat, decode_clients,
    decode_keyspace, decode_leader_reply, decode_store_reply, decode_store_request, encode_beat,
    encode_clients, encode_keyspace, encode_leader_reply, encode_store_reply, encode_store_request,
};

const CLUSTER: u64 = 0xc1;

struct Remote {
    network: LocalNetwork,
    ends: (usize, usize),
    store: Arc<RemoteStore>,
    service: Arc<StoreService>,
    _nodes: [Node; 2],
}

fn options(role: Role) -> wire::Options {
    let identity = Identity { cluster: CLUSTER, role, node: 1, cookie: 0, incarnation: 0 };
    let mut options = wire::Options::new(identity, Environment::real());
    options.silence = Duration::from_millis(400);
    options
}

impl Remote {
    /// Puts a store behind a network. A node of this role uses it.
    fn new(store: Arc<dyn Store>, role: Role) -> Self {
        let network = LocalNetwork::default();
        let certified = |role| Certified { cluster: CLUSTER, role, node: Some(1) };
        let service = StoreService::new(store, &Environment::real());
        let service = Arc::new(service.expect("there are threads"));
        let mut endpoint = network.endpoint(certified(Role::Coordinator));
        let place = endpoint.listen("coordinator:0").expect("the network is empty");
        let mut served = options(Role::Coordinator);
        served.handler = Some(Arc::clone(&service) as _);
        let client = network.endpoint(certified(role));
        let ends = (client.id(), endpoint.id());
        let server = Node::start(endpoint, served).expect("there is a thread");
        let client = Node::start(client, options(role)).expect("there is a thread");
        let to = Address { role: Role::Coordinator, node: None, cookie: None, place };
        let store = Arc::new(RemoteStore::new(vec![client.channel(to, Class::Control)]));
        Self { network, ends, store, service, _nodes: [server, client] }
    }
}

fn local_store() -> Arc<dyn Store> {
    let store = LocalStore::open(db(&device::memory()));
    Arc::new(store.expect("memory takes it"))
}

#[test]
fn calls_and_results_come_back() {
    let versioned = Versioned { value: b"value".to_vec(), revision: Revision(7) };
    let requests = [
        StoreRequest::Get { key: "key".to_owned() },
        StoreRequest::List { prefix: String::new() },
        StoreRequest::Commit {
            compares: vec![
                Compare::unchanged("a", Some(&versioned)),
                Compare::unchanged("b", None),
            ],
            writes: vec![Write::put("a", b"1".to_vec()), Write::remove("b")],
        },
    ];
    let replies = [
        vec![StoreReply::Record(None), StoreReply::Record(Some(versioned.clone()))],
        vec![
            StoreReply::Records(Vec::new()),
            StoreReply::Records(vec![("a".to_owned(), versioned)]),
        ],
        vec![StoreReply::Committed(false), StoreReply::Committed(true)],
    ];
    for (request, replies) in requests.into_iter().zip(replies) {
        let (kind, body) = encode_store_request(&request);
        assert_eq!(decode_store_request(kind, &body), Ok(request));
        let errors = [StoreError::Unavailable("a text".to_owned()), StoreError::NotLeader];
        for reply in replies.into_iter().map(Ok).chain(errors.map(Err)) {
            assert_eq!(decode_store_reply(kind, &encode_store_reply(&reply)), Ok(reply));
        }
    }
}

/// The calls of the leader, and the replies to them.
#[test]
fn calls_of_the_leader_keep_their_content() {
    let ranges = vec![RangeId(1), RangeId(7)];
    let (term, is_ending) = (3, true);
    let beat = Beat { owner: owner(3), number: 9, term, is_ending, ranges: ranges.clone() };
    assert_eq!(decode_beat(&encode_beat(&beat)), Ok(beat));
    assert_eq!(decode_clients(&encode_clients(16)), Ok(16));
    let (name, options) = ("users".to_owned(), b"abc".to_vec());
    let made = MakeKeyspace { name, options, splits: vec![b"g".to_vec(), b"p".to_vec()] };
    assert_eq!(decode_keyspace(&encode_keyspace(&made)), Ok(made));
    let open = vec![Order { range: RangeId(2), epoch: Epoch(5), term }];
    let (lease, next) = (Duration::from_secs(5), Duration::from_millis(50));
    let reply = BeatReply { term, lease, next, open, moving: ranges.clone(), close: ranges };
    let (silent, left) = (Duration::from_millis(70), lease);
    let ltc = LtcLease { owner: owner(3), silent, left, ranges: 2, is_ending };
    let covers = [None, Some(3)].map(|ordered| {
        let (range, is_covered) = (RangeId(2), ordered.is_none());
        RangeLease { range, is_covered, ordered }
    });
    let report = LeaseReport { term, moves: 4, ltcs: vec![ltc], ranges: covers.into() };
    for (kind, reply) in [
        (Kind::Beat, LeaderReply::Beat(reply)),
        (Kind::Clients, LeaderReply::Clients(300)),
        (Kind::MakeKeyspace, LeaderReply::Done),
        (Kind::Leases, LeaderReply::Leases(report)),
    ] {
        let errors = [
            Error::Store(StoreError::NotLeader),
            Error::Store(StoreError::Unavailable("a text".to_owned())),
            Error::OldStart { role: Role::Ltc, node: 3, given: 1, last: 2 },
            Error::Rejected("a text".to_owned()),
        ];
        for reply in std::iter::once(Ok(reply)).chain(errors.map(Err)) {
            assert_eq!(decode_leader_reply(kind, &encode_leader_reply(&reply)), Ok(reply));
        }
    }
}

/// A client gets ids and makes keyspaces from the leader alone.
#[test]
fn the_leader_serves_clients() {
    let store = local_store();
    let coordinator = Arc::new(Coordinator::found(Arc::clone(&store), CLUSTER).expect("it is new"));
    let remote = Remote::new(store, Role::Client);
    let made = MakeKeyspace { name: "users".to_owned(), options: Vec::new(), splits: Vec::new() };
    let none = Error::Store(StoreError::Unavailable("no coordinator leads".to_owned()));
    assert_eq!(remote.store.clients(4), Err(none));
    let leases = Leases::begin(Arc::clone(&coordinator), LEASE, || true, &Environment::real());
    remote.service.lead(Some(Arc::new(leases.expect("the database is open"))));
    let first = remote.store.clients(4).expect("there is a leader");
    assert_eq!(remote.store.clients(1), Ok(first + 4));
    assert_eq!(remote.store.make_keyspace(&made), Ok(()));
    assert_eq!(remote.store.make_keyspace(&made), Ok(()));
    let bad = MakeKeyspace { name: String::new(), ..made };
    assert!(matches!(remote.store.make_keyspace(&bad), Err(Error::Rejected(_))));
    assert_eq!(coordinator.keyspaces().map(|all| all.len()), Ok(1));
}

/// C2 and C4 hold for several coordinators over one store behind a network.
#[test]
fn several_processes_use_one_store() {
    let remote = Remote::new(local_store(), Role::Ltc);
    let store = || Arc::clone(&remote.store) as Arc<dyn Store>;
    assert_eq!(Coordinator::join(store(), CLUSTER).err(), Some(Error::NoCluster));
    let found = Coordinator::found(store(), CLUSTER).expect("the store is empty");
    assert_eq!(found.cluster(), CLUSTER);
    let other = Error::OtherCluster { found: CLUSTER, expected: 2 };
    assert_eq!(Coordinator::join(store(), 2).err(), Some(other.clone()));
    assert_eq!(Coordinator::found(store(), 2).err(), Some(other));
    let ids = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let joined = Coordinator::join(store(), CLUSTER).expect("it is there");
                    (0..25).map(|_| joined.next_client().expect("it is there")).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 100, "no id is given twice");
    let made = found.create_keyspace("users", b"", &[]).expect("the store is there");
    let range = *made.ranges.first().expect("a keyspace has a range");
    assert_eq!(found.take(range, owner(1)).map(|taken| taken.epoch), Ok(Epoch(1)));
    assert_eq!(found.take(range, owner(2)).map(|taken| taken.epoch), Ok(Epoch(2)));
    assert_eq!(found.ranges().map(|ranges| ranges.len()), Ok(1));
}

/// A store that cannot be reached is an error, and is reached again later.
#[test]
fn a_lost_store_is_unavailable() {
    let remote = Remote::new(local_store(), Role::Ltc);
    let found = Coordinator::found(Arc::clone(&remote.store) as _, CLUSTER);
    let found = found.expect("the store is empty");
    for cut in [Cut::Reset, Cut::Silent] {
        remote.network.cut(remote.ends.0, remote.ends.1, Some(cut));
        assert!(matches!(found.next_client(), Err(Error::Store(StoreError::Unavailable(_)))));
        remote.network.cut(remote.ends.0, remote.ends.1, None);
        let again = (0..200).find(|_| {
            Environment::real().sleep(Duration::from_millis(20));
            found.next_client().is_ok()
        });
        assert!(again.is_some(), "after {cut:?}");
    }
}

/// A store whose coordinator does not lead.
#[derive(Debug)]
struct StandBy(Arc<dyn Store>);

impl Store for StandBy {
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        self.0.get(key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.0.list(prefix)
    }

    fn commit(&self, _: &[Compare], _: &[Write]) -> Result<bool, StoreError> {
        Err(StoreError::NotLeader)
    }
}

/// A commit goes to the coordinator that leads.
#[test]
fn a_commit_finds_the_leader() {
    let shared = local_store();
    let network = LocalNetwork::default();
    let certified = |role, node| Certified { cluster: CLUSTER, role, node: Some(node) };
    let mut nodes = Vec::new();
    let mut places = vec!["nobody:1".to_owned()];
    let stand_by = Arc::new(StandBy(Arc::clone(&shared))) as Arc<dyn Store>;
    for (number, store) in [(1, stand_by), (2, Arc::clone(&shared))] {
        let mut endpoint = network.endpoint(certified(Role::Coordinator, number));
        places.push(endpoint.listen("coordinator:0").expect("a port is free"));
        let mut served = options(Role::Coordinator);
        served.identity.node = number;
        let service = StoreService::new(store, &Environment::real());
        served.handler = Some(Arc::new(service.expect("there are threads")) as _);
        nodes.push(Node::start(endpoint, served).expect("there is a thread"));
    }
    let client = network.endpoint(certified(Role::Ltc, 1));
    let client = Node::start(client, options(Role::Ltc)).expect("there is a thread");
    let store_of = |places: &[String]| {
        let channels = places.iter().map(|place| {
            let to =
                Address { role: Role::Coordinator, node: None, cookie: None, place: place.clone() };
            client.channel(to, Class::Control)
        });
        RemoteStore::new(channels.collect())
    };
    let store = store_of(&places);
    // The first one is away, and the commit may have reached it.
    let first = store.commit(&[], &[Write::put("a", b"1".to_vec())]);
    assert!(matches!(first, Err(StoreError::Unavailable(_))));
    assert_eq!(store.commit(&[], &[Write::put("a", b"2".to_vec())]), Ok(true));
    assert_eq!(
        shared.get("a").map(|found| found.map(|found| found.value)),
        Ok(Some(b"2".to_vec()))
    );
    assert_eq!(store_of(&places).get("a"), shared.get("a"), "reads try the next one");
    let none = store_of(places.get(1..2).expect("there are three"))
        .commit(&[], &[Write::put("a", b"3".to_vec())]);
    assert_eq!(none, Err(StoreError::Unavailable("no coordinator leads".to_owned())));
}

/// A client reads the records, and changes none.
#[test]
fn a_client_changes_nothing() {
    let remote = Remote::new(local_store(), Role::Client);
    assert_eq!(remote.store.get("cluster"), Ok(None));
    assert_eq!(remote.store.list(""), Ok(Vec::new()));
    let refused = remote.store.commit(&[], &[Write::put("cluster", Vec::new())]);
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    assert_eq!(remote.store.get("cluster"), Ok(None));
}
