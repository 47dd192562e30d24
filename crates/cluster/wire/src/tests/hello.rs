//! W1 and W5: hellos that are accepted, and refused.

use super::*;
use crate::{Endpoint, Event, Frame, Hello, Refused, Welcome};

/// Sends bytes as the first ones of a connection, and returns the bytes of the reply.
fn first_bytes(network: &LocalNetwork, who: Certified, first: &[u8]) -> (Vec<u8>, bool) {
    let mut endpoint = network.endpoint(who);
    let connection = endpoint.dial(PLACE);
    endpoint.send(connection, first);
    let mut received = Vec::new();
    for _ in 0..200 {
        for event in endpoint.wait(Duration::from_millis(100)) {
            match event {
                Event::Opened { .. } | Event::Accepted { .. } => {}
                Event::Received { bytes, .. } => {
                    received.extend(bytes);
                    if received.starts_with(&[0; 4]) || is_welcome(&received) {
                        return (received, false);
                    }
                }
                Event::Closed { .. } => return (received, true),
            }
        }
    }
    panic!("neither a reply nor an end came");
}

fn await_welcome(endpoint: &mut LocalEndpoint) {
    let mut events = (0..200).flat_map(|_| endpoint.wait(Duration::from_millis(100)));
    let received = |event: &Event| matches!(event, Event::Received { .. });
    assert!(events.any(|event| received(&event)), "a reply comes");
}

fn frame(kind: Kind, body: Vec<u8>) -> Vec<u8> {
    Frame { kind: kind.code(), version: 0, flags: 0, request: 0, body }.encode()
}

fn decoded(bytes: &[u8]) -> Option<Frame> {
    let mut decoder = crate::Decoder::default();
    decoder.push(bytes);
    decoder.take().expect("nodes send frames")
}

fn is_welcome(bytes: &[u8]) -> bool {
    decoded(bytes).is_some_and(|frame| frame.kind == Kind::Welcome.code())
}

fn hello(from: Identity) -> Hello {
    Hello { oldest: 1, newest: 1, from, process: 8, class: Class::Log, channel: 1, dial: 1 }
}

fn refusal(network: &LocalNetwork, who: Certified, hello: &Hello) -> Option<Refusal> {
    let (bytes, is_closed) = first_bytes(network, who, &frame(Kind::Hello, hello.encode()));
    let frame = decoded(&bytes).expect("a whole frame came");
    if frame.kind == Kind::Welcome.code() {
        assert!(!is_closed);
        let welcome = Welcome::decode(&frame.body).expect("it is one");
        assert_eq!(welcome.from, identity(Role::Stoc, 3, 5));
        return None;
    }
    assert_eq!(frame.kind, Kind::Refused.code());
    assert!(is_closed, "a refused connection ends");
    Some(Refused::decode(&frame.body).expect("it is one").0)
}

/// Versions, clusters, certificates and starts that do not fit are refused, each with its reason.
#[test]
fn a_node_refuses_what_does_not_fit() {
    let network = LocalNetwork::default();
    let (_, _stoc) = serve(&network, &Arc::default(), |_| {});
    let who = certified(Role::Ltc, 1);
    let good = hello(identity(Role::Ltc, 1, 9));
    assert_eq!(refusal(&network, who, &good), None);
    let newer = Hello { oldest: 1, newest: 200, ..good };
    assert_eq!(refusal(&network, who, &newer), None, "both know version 1");
    let versions = Refusal::Version { oldest: 1, newest: 1 };
    let too_new = Hello { oldest: 2, newest: 200, ..good };
    assert_eq!(refusal(&network, who, &too_new), Some(versions.clone()));
    let too_old = Hello { oldest: 0, newest: 0, ..good };
    assert_eq!(refusal(&network, who, &too_old), Some(versions));
    let other = Hello { from: Identity { cluster: 2, ..good.from }, ..good };
    assert_eq!(refusal(&network, who, &other), Some(Refusal::Cluster { cluster: CLUSTER }));
    for from in [identity(Role::Ltc, 2, 9), identity(Role::Coordinator, 1, 9)] {
        assert_eq!(refusal(&network, who, &hello(from)), Some(Refusal::Certificate));
    }
    // A client may send nothing to a StoC. An LTC needs a start there.
    let client = hello(identity(Role::Client, 1, 1));
    assert_eq!(refusal(&network, certified(Role::Client, 1), &client), Some(Refusal::Role));
    let without = hello(identity(Role::Ltc, 1, 0));
    assert_eq!(refusal(&network, who, &without), Some(Refusal::NoStart));
    // An earlier connection of the same channel, which comes late.
    let later = Hello { dial: 5, ..good };
    let mut kept = network.endpoint(who);
    let connection = kept.dial(PLACE);
    kept.send(connection, &frame(Kind::Hello, later.encode()));
    await_welcome(&mut kept);
    assert_eq!(refusal(&network, who, &good), Some(Refusal::OldConnection));
    let of_role = Certified { node: None, ..who };
    assert_eq!(refusal(&network, of_role, &hello(identity(Role::Ltc, 77, 1))), None);
    // W5.
    let earlier = hello(identity(Role::Ltc, 1, 8));
    assert_eq!(refusal(&network, who, &earlier), Some(Refusal::OldStart { newest: 9 }));
    assert_eq!(refusal(&network, who, &hello(identity(Role::Ltc, 1, 10))), None);
    assert_eq!(refusal(&network, who, &good), Some(Refusal::OldStart { newest: 10 }));
}

/// Bytes that are no hello end the connection.
#[test]
fn what_is_no_hello_ends_the_connection() {
    let network = LocalNetwork::default();
    let brief = |options: &mut Options| options.silence = Duration::from_millis(300);
    let (_, _stoc) = serve(&network, &Arc::default(), brief);
    let who = certified(Role::Ltc, 1);
    let mut too_long = hello(identity(Role::Ltc, 1, 9)).encode();
    too_long.resize(5_000, 0);
    let mut damaged = frame(Kind::Hello, hello(identity(Role::Ltc, 1, 9)).encode());
    damaged.iter_mut().skip(25).take(1).for_each(|byte| *byte ^= 1);
    let cases = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        [&u32::MAX.to_le_bytes()[..], &[1; 40]].concat(),
        frame(Kind::Append, vec![0; 20]),
        frame(Kind::Ping, Vec::new()),
        frame(Kind::Welcome, Vec::new()),
        frame(Kind::Hello, b"hello".to_vec()),
        frame(Kind::Hello, too_long),
        damaged,
    ];
    for first in cases {
        assert_eq!(first_bytes(&network, who, &first), (Vec::new(), true), "{first:?}");
    }
    // A connection that says nothing ends, too.
    assert_eq!(first_bytes(&network, who, b""), (Vec::new(), true));
}

/// A channel reaches only the node that it leads to.
#[test]
fn a_channel_refuses_another_node() {
    let network = LocalNetwork::default();
    let (_, _stoc) = serve(&network, &Arc::default(), |_| {});
    let (_, ltc) = ltc(&network, 1);
    let others = [
        (Address { node: Some(4), ..address() }, "there is stoc 3"),
        (Address { role: Role::Ltc, ..address() }, "there is stoc 3"),
        (Address { cookie: Some(8), ..address() }, "other storage"),
        (Address { place: "stoc:2".to_owned(), ..address() }, "refused"),
    ];
    for (address, part) in others {
        let channel = ltc.channel(address, Class::Log);
        match reply(&send(&channel, vec![1])) {
            Err(Error::Unreachable { cause, .. }) => assert!(cause.contains(part), "{cause}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(channel.peer(), None);
    }
    let any = Address { node: None, cookie: None, ..address() };
    assert_eq!(reply(&send(&ltc.channel(any, Class::Log), vec![1])), Ok(vec![1]));
}

/// A role that may not send a request, and a node without a handler.
#[test]
fn requests_that_a_role_may_not_send_are_refused() {
    let network = LocalNetwork::default();
    let (_, _stoc) = serve(&network, &Arc::default(), |_| {});
    let endpoint = network.endpoint(certified(Role::Admin, 1));
    let admin = Node::start(endpoint, options(identity(Role::Admin, 1, 1))).expect("a thread");
    let channel = admin.channel(address(), Class::Log);
    let refused = |reply| matches!(reply, Err(Error::Refused { refusal: Refusal::Role, .. }));
    assert!(refused(reply(&send(&channel, vec![1]))));
    assert!(refused(reply(&send(&channel, vec![2]))), "the connection goes on");
    let network = LocalNetwork::default();
    let (_, _stoc) = serve(&network, &Arc::default(), |options| options.handler = None);
    let (_, ltc) = ltc(&network, 1);
    assert!(refused(reply(&send(&ltc.channel(address(), Class::Log), vec![3]))));
    // Some role may send each request. A client may send none to a StoC.
    for kind in Kind::all().filter(|kind| kind.is_request()) {
        let pairs = || Role::ALL.into_iter().flat_map(|from| Role::ALL.map(|to| (from, to)));
        assert!(pairs().any(|(from, to)| kind.may_send(from, to)), "{kind:?}");
        assert!(!kind.may_send(Role::Client, Role::Stoc), "{kind:?}");
    }
}

/// No more connections than the limit are open.
#[test]
fn connections_have_a_limit() {
    let network = LocalNetwork::default();
    let (_, _stoc) = serve(&network, &Arc::default(), |options| options.connections_max = 2);
    let (_, ltc) = ltc(&network, 1);
    let classes = [Class::Control, Class::Log, Class::Bulk];
    let channels = classes.map(|class| ltc.channel(address(), class));
    let replies = channels.each_ref().map(|channel| reply(&send(channel, vec![1])));
    assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), 2, "{replies:?}");
}
