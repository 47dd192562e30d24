//! The invariants W1 to W5, over a network within the process.

mod bounds;
mod format;
mod hello;
mod loss;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use environment::Environment;
use sync::locks::{Condvar, Mutex};

use crate::{
    Address, Body, Certified, Channel, Class, Error, Handler, Identity, Kind, LocalEndpoint,
    LocalNetwork, Node, Options, Refusal, Request, Responder, Result, Role,
};

/// A limit that only a fault reaches.
const LONG: Duration = Duration::from_secs(20);
const CLUSTER: u64 = 0xc1;
const PLACE: &str = "stoc:1";

fn identity(role: Role, node: u32, incarnation: u64) -> Identity {
    Identity { cluster: CLUSTER, role, node, cookie: 7, incarnation }
}

fn certified(role: Role, node: u32) -> Certified {
    Certified { cluster: CLUSTER, role, node: Some(node) }
}

fn address() -> Address {
    Address { role: Role::Stoc, node: Some(3), cookie: Some(7), place: PLACE.to_owned() }
}

/// Keeps requests until a test takes them, or replies with their bytes.
#[derive(Debug, Default)]
struct Echo {
    held: Mutex<Vec<(Request, Responder)>>,
    came: Condvar,
    holds: bool,
}

impl Echo {
    fn holding() -> Arc<Self> {
        Arc::new(Self { holds: true, ..Self::default() })
    }

    /// Waits until `count` requests are held.
    fn await_held(&self, count: usize) {
        let mut held = self.held.lock();
        while held.len() < count {
            assert!(!self.came.wait_for(&mut held, LONG).timed_out(), "no request came");
        }
    }

    /// Replies to the requests that are held, in their order. Returns how many they were.
    fn reply_all(&self) -> usize {
        let held = std::mem::take(&mut *self.held.lock());
        let count = held.len();
        for (request, responder) in held {
            responder.reply(request.body.into());
        }
        count
    }
}

impl Handler for Echo {
    fn handle(&self, request: Request, responder: Responder) {
        if self.holds {
            self.held.lock().push((request, responder));
            self.came.notify_all();
        } else {
            responder.reply(request.body.into());
        }
    }
}

fn options(identity: Identity) -> Options {
    Options::new(identity, Environment::real())
}

/// Starts a StoC that serves by `echo`.
fn serve(
    network: &LocalNetwork,
    echo: &Arc<Echo>,
    change: impl FnOnce(&mut Options),
) -> (usize, Node) {
    use crate::Endpoint as _;
    let mut endpoint = network.endpoint(certified(Role::Stoc, 3));
    assert_eq!(endpoint.listen(PLACE), Ok(PLACE.to_owned()));
    let mut options = options(identity(Role::Stoc, 3, 5));
    options.handler = Some(Arc::clone(echo) as _);
    change(&mut options);
    (endpoint.id(), Node::start(endpoint, options).expect("there is a thread"))
}

/// Starts an LTC.
fn ltc(network: &LocalNetwork, incarnation: u64) -> (usize, Node) {
    let endpoint = network.endpoint(certified(Role::Ltc, 1));
    let id = endpoint.id();
    (id, Node::start(endpoint, options(identity(Role::Ltc, 1, incarnation))).expect("a thread"))
}

/// Sends a request, and returns where the reply comes.
fn send(channel: &Channel, body: impl Into<Body>) -> Receiver<Result<Vec<u8>>> {
    send_within(channel, body, None)
}

fn send_within(
    channel: &Channel,
    body: impl Into<Body>,
    limit: Option<Duration>,
) -> Receiver<Result<Vec<u8>>> {
    let (sender, receiver) = self::channel();
    let on_reply = move |reply| _ = sender.send(reply);
    let body = body.into();
    let reply_bytes = u32::try_from(body.len()).expect("tests have short bodies");
    channel.send(Kind::Append, body, (limit, reply_bytes), Box::new(on_reply));
    receiver
}

/// Returns whether a condition comes true, which another thread brings about.
fn eventually(mut is_true: impl FnMut() -> bool) -> bool {
    (0..2_000).any(|_| {
        Environment::real().sleep(Duration::from_millis(10));
        is_true()
    })
}

fn reply(receiver: &Receiver<Result<Vec<u8>>>) -> Result<Vec<u8>> {
    receiver.recv_timeout(LONG).expect("each request gets one reply")
}

fn is_unreachable(reply: &Result<Vec<u8>>) -> bool {
    matches!(reply, Err(Error::Unreachable { .. }))
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    (0..count as u64).map(|at| codec::hash64(seed, &at.to_le_bytes()) as u8).collect()
}

/// W3, W4: each request gets its reply, also one of many frames.
#[test]
fn requests_of_all_lengths_get_their_replies() {
    let network = LocalNetwork::default();
    let (_, _stoc) = serve(&network, &Arc::default(), |_| {});
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Bulk);
    let lengths = [0, 1, 100, 1 << 20, crate::BODY_BYTES_MAX - 4, crate::BODY_BYTES_MAX, 5 << 20];
    let sent: Vec<_> = (1..)
        .zip(lengths)
        .map(|(seed, length)| {
            let content = bytes(seed, length);
            let (head, tail) = content.split_at(length / 2);
            let body = Body { head: head.to_vec(), tail: Some(tail.into()) };
            (content, send(&channel, body))
        })
        .collect();
    for (content, receiver) in sent {
        assert!(reply(&receiver) == Ok(content), "the reply has the bytes of the request");
    }
    assert_eq!(channel.peer(), Some(identity(Role::Stoc, 3, 5)));
}

/// W2: the handler gets the requests of a channel in order.
#[test]
fn requests_arrive_in_order() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |_| {});
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Log);
    let receivers: Vec<_> =
        (0..500_u32).map(|number| send(&channel, number.to_le_bytes().to_vec())).collect();
    echo.await_held(500);
    let numbers =
        echo.held.lock().iter().map(|(request, _)| request.body.clone()).collect::<Vec<_>>();
    let expected: Vec<_> = (0..500_u32).map(|number| number.to_le_bytes().to_vec()).collect();
    assert_eq!(numbers, expected);
    assert_eq!(echo.reply_all(), 500);
    for (number, receiver) in (0..500_u32).zip(receivers) {
        assert_eq!(reply(&receiver), Ok(number.to_le_bytes().to_vec()));
    }
}

/// W4: requests beyond the credit wait at the sender. The bytes of replies count.
#[test]
fn a_sender_keeps_to_the_credit() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |options| options.credit_bytes = 4_000);
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Log);
    let receivers: Vec<_> = (0..20).map(|seed| send(&channel, bytes(seed, 468))).collect();
    let mut served = 0;
    while served < 20 {
        // Each counts for 1,000 bytes.
        echo.await_held((20 - served).min(4));
        assert!(echo.held.lock().len() <= 4, "four use up the credit");
        served += echo.reply_all();
    }
    for (seed, receiver) in (0..).zip(receivers) {
        assert_eq!(reply(&receiver), Ok(bytes(seed, 468)));
    }
}

/// W4: a channel holds a bounded number of bytes, and one request of any length.
#[test]
fn a_full_queue_refuses_requests() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |options| options.credit_bytes = 1);
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Bulk);
    let tail: Arc<[u8]> = vec![0; 16 << 20].into();
    let body = || Body { head: Vec::new(), tail: Some(Arc::clone(&tail)) };
    let first = send(&channel, body());
    let second = send(&channel, body());
    assert!(matches!(reply(&second), Err(Error::QueueFull { .. })));
    let third = send(&channel, vec![1]);
    echo.await_held(1);
    echo.reply_all();
    assert_eq!(reply(&first).map(|reply| reply.len()), Ok(16 << 20));
    echo.await_held(1);
    echo.reply_all();
    assert_eq!(reply(&third), Ok(vec![1]));
    let too_long = Body { head: Vec::new(), tail: Some(vec![0; (256 << 20) + 1].into()) };
    assert!(matches!(reply(&send(&channel, too_long)), Err(Error::TooLong { .. })));
    // A reply of more bytes than the request allows.
    let (sender, receiver) = self::channel();
    let on_reply = move |reply| _ = sender.send(reply);
    channel.send(Kind::Append, vec![0; 10].into(), (None, 9), Box::new(on_reply));
    echo.await_held(1);
    echo.reply_all();
    let refused = reply(&receiver);
    assert!(matches!(refused, Err(Error::Refused { refusal: Refusal::TooLong, .. })));
}

/// A request whose time is over is not served, and its sender learns it in time.
#[test]
fn late_requests_are_not_served() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |options| options.credit_bytes = 1);
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Read);
    let brief = Some(Duration::from_secs(1));
    let first = send_within(&channel, vec![1], brief);
    echo.await_held(1);
    // The credit is used up, so this one waits.
    let second = send_within(&channel, vec![2], Some(Duration::from_millis(50)));
    assert_eq!(reply(&second), Err(Error::Expired));
    assert!(is_unreachable(&reply(&first)), "it was sent");
    let (request, responder) = echo.held.lock().pop().expect("it is held");
    assert!(request.is_late(Environment::real().now()));
    responder.refuse(Refusal::Late);
    let third = send(&channel, vec![3]);
    echo.await_held(1);
    assert_eq!(echo.held.lock().first().map(|(request, _)| request.body.clone()), Some(vec![3]));
    echo.reply_all();
    assert_eq!(reply(&third), Ok(vec![3]));
    assert_eq!(first.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
}

/// W3: a handler that forgets a request, and a node that stops.
#[test]
fn forgotten_and_stopped_requests_end_with_an_error() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, stoc) = serve(&network, &echo, |_| {});
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Log);
    let forgotten = send(&channel, vec![1]);
    echo.await_held(1);
    echo.held.lock().clear();
    let refused = reply(&forgotten);
    assert!(matches!(refused, Err(Error::Refused { refusal: Refusal::NoReply, .. })));
    let pending = send(&channel, vec![2]);
    echo.await_held(1);
    ltc.stop();
    assert_eq!(reply(&pending), Err(Error::Stopped));
    assert_eq!(reply(&send(&channel, vec![3])), Err(Error::Stopped));
    stoc.stop();
    // A reply of a node that has stopped goes nowhere.
    echo.reply_all();
}

/// A channel that no handle leads to any more ends its connection.
#[test]
fn a_dropped_channel_ends() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |_| {});
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Log);
    let pending = send(&channel, vec![1]);
    echo.await_held(1);
    drop(channel);
    assert_eq!(reply(&pending), Err(Error::Stopped));
    let held = echo.held.lock();
    let (request, _) = held.first().expect("it is held");
    assert!(eventually(|| request.is_dropped()), "the server learns of the end");
}
