//! StoCs behind a network: messages, order, and lost connections.

use std::num::NonZeroU64;
use std::sync::mpsc::channel;
use std::time::Duration;

use codec::Corruption;
use environment::{Clock, Monotonic, Seed};
use wire::{Certified, Cut, Endpoint as _, LocalNetwork, Node, Role};

use super::*;
use crate::{
    DirectLink, Fenced, Identity, Link, Listed, RemoteLink, Request, Response, Stats, StocService,
    Throttle, ThrottleOptions, call, decode_request, decode_response, encode_request,
    encode_response,
};

/// A limit that only a fault reaches.
const LONG: Duration = Duration::from_secs(20);

/// A StoC behind a network.
struct Remote {
    network: LocalNetwork,
    /// The endpoints of the owner and of the StoC.
    ends: (usize, usize),
    link: Arc<dyn Link>,
    service: Arc<StocService>,
    _nodes: [Node; 2],
}

fn node_options(role: Role, number: u32, identity: Identity) -> wire::Options {
    let Identity { cluster, cookie, incarnation, .. } = identity;
    let identity = wire::Identity { cluster, role, node: number, cookie, incarnation };
    wire::Options::new(identity, Environment::real())
}

impl Remote {
    fn new(stoc: &Arc<Stoc>) -> Self {
        let service = StocService::new(Arc::clone(stoc), 3, &Environment::real());
        Self::with_service(stoc, service.expect("there are threads"))
    }

    fn with_service(stoc: &Arc<Stoc>, service: StocService) -> Self {
        let network = LocalNetwork::default();
        let service = Arc::new(service);
        let identity = stoc.identity();
        let certified =
            |role, node| Certified { cluster: identity.cluster, role, node: Some(node) };
        let mut at_stoc = network.endpoint(certified(Role::Stoc, identity.node));
        let place = at_stoc.listen("stoc:0").expect("the network is empty");
        let mut options = node_options(Role::Stoc, identity.node, identity);
        options.handler = Some(Arc::clone(&service) as _);
        let at_owner = network.endpoint(certified(Role::Ltc, 1));
        let ends = (at_owner.id(), at_stoc.id());
        let server = Node::start(at_stoc, options).expect("there is a thread");
        let owner = Node::start(at_owner, node_options(Role::Ltc, 1, identity));
        let owner = owner.expect("there is a thread");
        let link = Arc::new(RemoteLink::new(&owner, identity, &place));
        Self { network, ends, link, service, _nodes: [server, owner] }
    }
}

fn ask(link: &Arc<dyn Link>, request: &Request) -> crate::Result<Response> {
    call(link, request, (LONG, &Environment::real()))
}

fn create_log() -> Request {
    Request::CreateLog { name: log(1), epoch: Epoch(1), in_memory: false }
}

fn append_to_log(offset: u64, bytes: Arc<[u8]>) -> Request {
    Request::Append { name: log(1), epoch: Epoch(1), start: None, offset, bytes }
}

/// Requests of all kinds. Some of them fail.
fn requests() -> Vec<Request> {
    let (name, epoch) = (log(1), Epoch(3));
    let of_table = table(2);
    let appended: Arc<[u8]> = bytes(1, 5_000).into();
    let piece: Arc<[u8]> = bytes(2, 70_000).into();
    let append_to = |name, start, offset| {
        let bytes = Arc::clone(&appended);
        Request::Append { name, epoch, start, offset, bytes }
    };
    let append = |offset| append_to(name, None, offset);
    let in_memory = log(3);
    let append_in_memory = |start, offset| append_to(in_memory, Some(start), offset);
    let write =
        |offset| Request::Write { name: of_table, epoch, offset, bytes: Arc::clone(&piece) };
    vec![
        Request::Fence { range: RANGE, epoch: Epoch(2) },
        Request::CreateLog { name, epoch, in_memory: false },
        Request::CreateLog { name, epoch, in_memory: false },
        append(0),
        append(0),
        append(5_000),
        append(7_000),
        append(10_001),
        Request::CreateLog { name: in_memory, epoch, in_memory: true },
        append_in_memory(1, 0),
        append_in_memory(2, 5_000),
        append_to(in_memory, None, 5_000),
        append_to(name, Some(1), 10_000),
        Request::Read { name: in_memory, offset: 4_990, bytes: 10 },
        Request::Seal { name: in_memory, epoch, length: 4_000 },
        Request::Read { name, offset: 4_990, bytes: 20 },
        Request::Read { name, offset: 9_990, bytes: 20 },
        Request::CreateTable { name: of_table, epoch, stripe: 7 },
        Request::CreateTable { name, epoch, stripe: 7 },
        write(0),
        write(70_000),
        Request::Finish { name: of_table, epoch, length: 140_000 },
        Request::Read { name: of_table, offset: 0, bytes: 140_000 },
        Request::Read { name: table(9), offset: 0, bytes: 1 },
        Request::Verify { name: of_table },
        Request::AddReferences { range: RANGE, epoch, others: vec![RangeId(8), RangeId(9)] },
        Request::List { range: RANGE },
        Request::Seal { name, epoch, length: 10_000 },
        Request::Fence { range: RANGE, epoch: Epoch(5) },
        append(10_000),
        Request::Release { name: of_table, by: RangeId(8), epoch: Epoch(5) },
        Request::List { range: RANGE },
        Request::Release { name, by: RANGE, epoch: Epoch(5) },
        Request::List { range: RANGE },
    ]
}

#[test]
fn requests_and_replies_come_back() {
    for request in requests().into_iter().chain([Request::Stats]) {
        let (kind, body) = encode_request(&request);
        let bytes = [body.head, body.tail.map(|tail| tail.to_vec()).unwrap_or_default()].concat();
        assert_eq!(decode_request(kind, &bytes), Ok(request));
    }
    let (name, range) = (log(1), RANGE);
    let listed = |length| Listed {
        name,
        epoch: Epoch(4),
        length,
        is_finished: true,
        references: vec![RANGE, RangeId(9)],
    };
    let stats = Stats { files: 1, bytes: 2, damaged_files: 3, free_bytes: 4 };
    let fenced = Fenced { before: Epoch(1), logs: vec![(name, Some(0)), (log(2), None)] };
    let replies = [
        (wire::Kind::Append, Ok(Response::Done)),
        (wire::Kind::Read, Ok(Response::Bytes(bytes(1, 100)))),
        (wire::Kind::Fence, Ok(Response::Fenced(fenced))),
        (wire::Kind::List, Ok(Response::Files(vec![listed(Some(7)), listed(None)]))),
        (wire::Kind::Stats, Ok(Response::Stats(stats))),
    ];
    let errors = [
        Error::Fenced { range, promise: Epoch(9) },
        Error::NotAtEnd { name, length: 1 },
        Error::OtherBytes { name, offset: 2 },
        Error::NoFile { name },
        Error::Exists { name },
        Error::OtherKind { name },
        Error::PastEnd { name, length: 3 },
        Error::NoRoom { bytes: 4 },
        Error::OtherStart { wanted: 5, present: 6 },
        Error::Damaged(Corruption::new("a unit", 0).at("data-1", 5)),
        Error::Failed { what: "a text".to_owned(), is_fatal: false },
    ];
    let errors = errors.into_iter().map(|error| (wire::Kind::Append, Err(error)));
    for (kind, reply) in replies.into_iter().chain(errors) {
        assert_eq!(decode_response(kind, &encode_response(&reply)), Ok(reply));
    }
    // Errors of the device keep their text, and whether the StoC has stopped.
    let stopped: crate::Result<Response> =
        Err(Error::Stopped(Arc::new(Error::NoRoom { bytes: 1 })));
    let text = stopped.as_ref().expect_err("it is one").to_string();
    let decoded = decode_response(wire::Kind::Append, &encode_response(&stopped));
    assert_eq!(decoded, Ok(Err(Error::Failed { what: text, is_fatal: true })));
}

/// A StoC behind a network does the same as one of this process.
#[test]
fn a_remote_stoc_does_what_a_local_one_does() {
    let (near, far) = (open(&device::memory(), 1), open(&device::memory(), 1));
    let near: Arc<dyn Link> = Arc::new(DirectLink(Arc::new(near)));
    let remote = Remote::new(&Arc::new(far));
    for request in requests() {
        assert_eq!(ask(&remote.link, &request), ask(&near, &request), "{request:?}");
    }
    assert_eq!(remote.link.identity().incarnation, 1);
}

/// S3: appends that are sent together are all taken, in their order. Each short one would overtake
/// the long one before it.
#[test]
fn s3_appends_that_are_sent_together_are_taken_in_order() {
    const PAIRS: u64 = 30;
    let stoc = Arc::new(open(&device::memory(), 1));
    let remote = Remote::new(&stoc);
    let create = create_log();
    assert_eq!(ask(&remote.link, &create), Ok(Response::Done));
    let (sender, replies) = channel();
    let (long, short): (Arc<[u8]>, Arc<[u8]>) = (bytes(1, 500_000).into(), bytes(2, 10).into());
    let mut offset = 0;
    for bytes in (0..PAIRS).flat_map(|_| [&long, &short]) {
        let sender = sender.clone();
        let bytes = Arc::clone(bytes);
        let next = offset + bytes.len() as u64;
        let append = append_to_log(offset, bytes);
        remote.link.send(append, Box::new(move |reply| _ = sender.send(reply)));
        offset = next;
    }
    for _ in 0..2 * PAIRS {
        assert_eq!(replies.recv_timeout(LONG), Ok(Ok(Response::Done)));
    }
}

/// The log has a prefix of the appends that were sent, wherever connections end.
#[test]
fn s3_appends_are_a_prefix_when_connections_end() {
    const APPENDS: u64 = 40;
    for round in 0..30 {
        let stoc = Arc::new(open(&device::memory(), 1));
        let remote = Remote::new(&stoc);
        let create = create_log();
        assert_eq!(ask(&remote.link, &create), Ok(Response::Done));
        let (sender, replies) = channel();
        for number in 0..APPENDS {
            let sender = sender.clone();
            let (offset, bytes) = (number * 100, bytes(number, 100).into());
            let append = append_to_log(offset, bytes);
            let on_reply = move |reply| _ = sender.send((number, reply));
            remote.link.send(append, Box::new(on_reply));
            if number == round {
                remote.network.cut(remote.ends.0, remote.ends.1, Some(Cut::Reset));
                remote.network.cut(remote.ends.0, remote.ends.1, None);
            }
        }
        let replies: Vec<_> =
            (0..APPENDS).map(|_| replies.recv_timeout(LONG).expect("each gets one")).collect();
        let acknowledged = replies.iter().filter(|(_, reply)| reply.is_ok());
        let most = acknowledged.map(|(number, _)| number + 1).max().unwrap_or(0);
        let listed = stoc.list(RANGE);
        let length = listed.first().and_then(|file| file.length).expect("it has a log");
        assert!(length >= most * 100, "round {round}: {length} bytes, and {most} appends");
        let stored = stoc.read(&log(1), 0, length).expect("it is sound");
        let stream: Vec<u8> = (0..APPENDS).flat_map(|number| bytes(number, 100)).collect();
        assert!(stream.starts_with(&stored), "round {round}");
    }
}

/// S6: the service knows how long a request has been under way.
#[test]
fn s6_a_request_that_does_not_end_is_seen() {
    let stoc = Arc::new(open(&device::memory(), 1));
    let remote = Remote::new(&stoc);
    let range = stoc.range(RANGE);
    let held = range.lock();
    let (sender, replies) = channel();
    let create = create_log();
    remote.link.send(create, Box::new(move |reply| _ = sender.send(reply)));
    let seen = (0..2_000).any(|_| {
        Environment::real().sleep(Duration::from_millis(5));
        remote.service.longest_run() >= Duration::from_millis(50)
    });
    assert!(seen);
    drop(held);
    assert_eq!(replies.recv_timeout(LONG), Ok(Ok(Response::Done)));
    let is_over = (0..2_000).any(|_| {
        Environment::real().sleep(Duration::from_millis(5));
        remote.service.longest_run() == Duration::ZERO
    });
    assert!(is_over);
}

/// A clock that a sleep moves, so that it counts the time of all sleeps.
#[derive(Debug, Default)]
struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn monotonic(&self) -> Monotonic {
        Monotonic::from_nanos(self.0.load(SeqCst))
    }

    fn wall(&self) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }

    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, SeqCst);
    }
}

/// A throttled StoC does the same as another one. Its requests take the time of the disk that it
/// seems to have: 2 ms for each of 23 operations, and 1 us for each of 311,051 bytes.
#[test]
fn a_throttled_stoc_takes_the_time_of_its_disk() {
    let (near, far) = (open(&device::memory(), 1), Arc::new(open(&device::memory(), 1)));
    let near: Arc<dyn Link> = Arc::new(DirectLink(Arc::new(near)));
    let clock = Arc::new(CountingClock::default());
    let environment = Environment::new(Arc::clone(&clock) as _, Seed::from(1));
    let options = ThrottleOptions {
        bytes_per_s: NonZeroU64::new(1_000_000),
        operation: Duration::from_millis(2),
    };
    let service = StocService::new(Arc::clone(&far), 3, &Environment::real());
    let service = service.expect("there are threads");
    let service = service.with_throttle(Throttle::new(options, &environment));
    let remote = Remote::with_service(&far, service);
    for request in requests() {
        assert_eq!(ask(&remote.link, &request), ask(&near, &request), "{request:?}");
    }
    assert_eq!(clock.wall(), Duration::from_micros(23 * 2_000 + 311_051));
}

/// S5: a link leads to one storage.
#[test]
fn s5_a_link_does_not_reach_other_storage() {
    let stoc = Arc::new(open(&device::memory(), 1));
    let remote = Remote::new(&stoc);
    let [_, owner] = &remote._nodes;
    let other = Identity { cookie: 1, ..stoc.identity() };
    let link: Arc<dyn Link> = Arc::new(RemoteLink::new(owner, other, "stoc:1"));
    assert_eq!(ask(&link, &Request::Stats), Err(Error::Unreachable { node: 3 }));
    assert!(matches!(ask(&remote.link, &Request::Stats), Ok(Response::Stats(_))));
}
