//! W2 and W3 when connections are lost.

use super::*;
use crate::{Cut, Endpoint as _};

/// A reset ends all requests with an error, and later ones take a new connection.
#[test]
fn a_channel_survives_a_reset() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (server, _stoc) = serve(&network, &echo, |_| {});
    let (client, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Log);
    let lost: Vec<_> = (0..5).map(|seed| send(&channel, bytes(seed, 10))).collect();
    echo.await_held(5);
    network.cut(client, server, Some(Cut::Reset));
    for receiver in lost {
        assert!(is_unreachable(&reply(&receiver)));
    }
    assert!(is_unreachable(&reply(&send(&channel, vec![1]))), "it cannot be dialled");
    network.cut(client, server, None);
    let held = std::mem::take(&mut *echo.held.lock());
    let is_dropped = || held.iter().all(|(request, _)| request.is_dropped());
    // The server sees the end of the connection at another moment than the client.
    assert!(eventually(is_dropped), "the requests of a lost connection are dropped");
    drop(held);
    let mut replies = (0..1_000).map(|_| {
        Environment::real().sleep(Duration::from_millis(5));
        let receiver = send(&channel, vec![2]);
        loop {
            if let Ok(reply) = receiver.recv_timeout(Duration::from_millis(10)) {
                return reply;
            }
            echo.reply_all();
        }
    });
    assert!(replies.any(|reply| reply == Ok(vec![2])), "a later attempt succeeds");
}

/// Without a word from the peer a connection ends.
#[test]
fn a_silent_peer_is_unreachable() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let silence = Duration::from_secs(1);
    let (server, _stoc) = serve(&network, &echo, |options| options.silence = silence);
    let endpoint = network.endpoint(certified(Role::Ltc, 1));
    let client = endpoint.id();
    let of_ltc = Options { silence, ..options(identity(Role::Ltc, 1, 1)) };
    let ltc = Node::start(endpoint, of_ltc).expect("there is a thread");
    let channel = ltc.channel(address(), Class::Log);
    let held = send(&channel, vec![1]);
    echo.await_held(1);
    // A slow handler is no silent peer: the nodes ask each other.
    assert!(held.recv_timeout(silence * 3).is_err(), "it is under way");
    network.cut(client, server, Some(Cut::Silent));
    match reply(&held) {
        Err(Error::Unreachable { cause, .. }) => assert!(cause.contains("silent"), "{cause}"),
        other => panic!("{other:?}"),
    }
    let request = echo.held.lock().pop().expect("it is held").0;
    assert!(eventually(|| request.is_dropped()), "the server ends the connection, too");
}

/// W5: a later start of a node ends all connections of the earlier one, whose requests are
/// dropped.
#[test]
fn a_later_start_ends_the_earlier_one() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |_| {});
    let (_, before) = ltc(&network, 1);
    let earlier = before.channel(address(), Class::Log);
    let lost = send(&earlier, vec![1]);
    let other = before.channel(address(), Class::Read);
    let lost_too = send(&other, vec![2]);
    echo.await_held(2);
    let (_, after) = ltc(&network, 2);
    let later = after.channel(address(), Class::Log);
    let receiver = send(&later, vec![3]);
    echo.await_held(3);
    assert!(is_unreachable(&reply(&lost)));
    assert!(is_unreachable(&reply(&lost_too)));
    let dropped = |body: u8| {
        let held = echo.held.lock();
        let found = held.iter().find(|(request, _)| request.body == [body]);
        found.expect("it is held").0.is_dropped()
    };
    assert_eq!([1, 2, 3].map(dropped), [true, true, false]);
    echo.reply_all();
    assert_eq!(reply(&receiver), Ok(vec![3]));
    // The start before is refused from now on.
    let refused = eventually(|| match reply(&send(&earlier, vec![4])) {
        Err(Error::Unreachable { cause, .. }) => cause.contains("start 2"),
        other => panic!("{other:?}"),
    });
    assert!(refused);
}

/// W2: what a lane has not begun when its connection ends never begins, and a later request waits
/// for the one that has begun.
#[test]
fn a_later_request_overtakes_none() {
    let network = LocalNetwork::default();
    let serial = Arc::new(Serial::new());
    let mut endpoint = network.endpoint(certified(Role::Stoc, 3));
    assert!(endpoint.listen(PLACE).is_ok());
    let server = endpoint.id();
    let mut served = options(identity(Role::Stoc, 3, 5));
    served.handler = Some(Arc::clone(&serial) as _);
    let _stoc = Node::start(endpoint, served).expect("there is a thread");
    let (client, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Log);
    let lost: Vec<_> = (1..=3).map(|number| send(&channel, vec![number])).collect();
    serial.await_begun(1);
    network.cut(client, server, Some(Cut::Reset));
    lost.iter().for_each(|receiver| assert!(is_unreachable(&reply(receiver))));
    network.cut(client, server, None);
    // It reaches the handler by the next connection, while the first one is still under way.
    let receiver = (0..500).find_map(|_| {
        Environment::real().sleep(Duration::from_millis(5));
        let receiver = send(&channel, vec![4]);
        let waits = receiver.recv_timeout(Duration::from_millis(100));
        (waits == Err(RecvTimeoutError::Timeout)).then_some(receiver)
    });
    let receiver = receiver.expect("the peer is there again");
    assert_eq!(*serial.begun.lock(), [1]);
    serial.open();
    assert_eq!(reply(&receiver), Ok(vec![4]));
    assert_eq!(*serial.begun.lock(), [1, 4], "the requests between them never begin");
}

/// Serves requests in one lane. The first one waits until a test opens the gate.
#[derive(Debug)]
struct Serial {
    lanes: crate::Lanes<()>,
    begun: Arc<Mutex<Vec<u8>>>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Serial {
    fn new() -> Self {
        let lanes = crate::Lanes::new("serial", 2, &Environment::real()).expect("threads");
        Self { lanes, begun: Arc::default(), gate: Arc::default() }
    }

    fn open(&self) {
        *self.gate.0.lock() = true;
        self.gate.1.notify_all();
    }

    fn await_begun(&self, count: usize) {
        assert!(eventually(|| self.begun.lock().len() >= count));
    }
}

impl Handler for Serial {
    fn handle(&self, request: Request, responder: Responder) {
        let (begun, gate) = (Arc::clone(&self.begun), Arc::clone(&self.gate));
        self.lanes.add(Some(()), move || {
            if request.is_dropped() {
                return;
            }
            begun.lock().extend_from_slice(&request.body);
            let mut is_open = gate.0.lock();
            while !*is_open {
                assert!(!gate.1.wait_for(&mut is_open, LONG).timed_out());
            }
            drop(is_open);
            responder.reply(request.body.into());
        });
    }
}
