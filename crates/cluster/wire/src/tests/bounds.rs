//! W4: peers that are slow, silent or greedy.

use super::*;
use crate::{Endpoint as _, Event, Frame, Hello};

/// An endpoint that has said hello, without a node.
struct Raw {
    endpoint: LocalEndpoint,
    connection: crate::ConnectionId,
}

impl Raw {
    fn new(network: &LocalNetwork) -> Self {
        let mut endpoint = network.endpoint(certified(Role::Ltc, 1));
        let connection = endpoint.dial(PLACE);
        let from = identity(Role::Ltc, 1, 1);
        let hello = Hello {
            oldest: 1,
            newest: 1,
            from,
            process: 8,
            class: Class::Log,
            channel: 1,
            dial: 1,
        };
        let mut raw = Self { endpoint, connection };
        raw.send(Kind::Hello, 0, 0, hello.encode());
        let mut events = (0..200).flat_map(|_| raw.endpoint.wait(Duration::from_millis(100)));
        assert!(events.any(|event| matches!(event, Event::Received { .. })), "a welcome comes");
        raw
    }

    fn send(&mut self, kind: Kind, version: u8, flags: u8, body: Vec<u8>) {
        let frame = Frame { kind: kind.code(), version, flags, request: 1, body };
        self.endpoint.send(self.connection, &frame.encode());
    }

    /// Waits for the end of the connection, and takes nothing else.
    fn await_end(mut self) -> String {
        for _ in 0..200 {
            for event in self.endpoint.wait(Duration::from_millis(100)) {
                if let Event::Closed { cause, .. } = event {
                    return cause;
                }
            }
        }
        panic!("the connection goes on");
    }
}

fn brief(options: &mut Options) {
    options.silence = Duration::from_millis(500);
}

/// A peer that asks, and never reads the replies, is disconnected. So is one that sends pings.
#[test]
fn a_peer_that_never_reads_is_disconnected() {
    for kind in [Kind::Append, Kind::Ping] {
        let network = LocalNetwork::default();
        let (_, _stoc) = serve(&network, &Arc::default(), brief);
        let mut raw = Raw::new(&network);
        let body = match kind {
            Kind::Ping => Vec::new(),
            // A reply of the same bytes is allowed.
            _ => [&[0; 4][..], &[255; 4], &[0; 1 << 20]].concat(),
        };
        let count = if kind == Kind::Ping { 600_000 } else { 30 };
        (0..count).for_each(|_| raw.send(kind, 1, 0, body.clone()));
        // It reads nothing for longer than the limit of silence.
        Environment::real().sleep(Duration::from_millis(2_000));
        raw.await_end();
    }
}

/// Requests beyond the credit, frames of another version, and requests of many frames that may have
/// one.
#[test]
fn a_greedy_peer_is_disconnected() {
    let request = |bytes: usize| [vec![0; 8], vec![1; bytes]].concat();
    let cases: [(Kind, u8, u8, usize); 4] = [
        (Kind::Append, 1, 0, 3_000),
        (Kind::Append, 2, 0, 10),
        (Kind::Seal, 1, 0b10, 10),
        (Kind::Append, 1, 0b01, 10),
    ];
    for (kind, version, flags, bytes) in cases {
        let network = LocalNetwork::default();
        let echo = Echo::holding();
        let (_, _stoc) = serve(&network, &echo, |options| options.credit_bytes = 2_000);
        let mut raw = Raw::new(&network);
        raw.send(kind, version, flags, request(bytes));
        raw.send(kind, version, flags, request(bytes));
        raw.await_end();
        assert!(echo.held.lock().len() <= 1);
    }
}

/// A message that takes longer than the limit of silence does not end its connection.
#[test]
fn a_long_message_is_no_silence() {
    let network = LocalNetwork::default();
    let (_, _stoc) = serve(&network, &Arc::default(), brief);
    let mut raw = Raw::new(&network);
    for _ in 0..30 {
        raw.send(Kind::Append, 1, 0b10, vec![0; 1_000]);
        Environment::real().sleep(Duration::from_millis(50));
        for event in raw.endpoint.wait(Duration::ZERO) {
            assert!(matches!(event, Event::Received { .. }), "{event:?}");
        }
    }
}

/// Two channels of one class to one node do not end each other.
#[test]
fn channels_of_one_class_are_apart() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |_| {});
    let (_, ltc) = ltc(&network, 1);
    let channels = [ltc.channel(address(), Class::Log), ltc.channel(address(), Class::Log)];
    let receivers = channels.each_ref().map(|channel| send(channel, vec![1]));
    echo.await_held(2);
    assert_eq!(echo.reply_all(), 2);
    assert_eq!(receivers.each_ref().map(reply), [Ok(vec![1]), Ok(vec![1])]);
}

/// A reaction that panics ends the node, and each request with an error.
#[test]
fn a_reaction_that_panics_leaves_no_request_without_an_end() {
    let network = LocalNetwork::default();
    let echo = Echo::holding();
    let (_, _stoc) = serve(&network, &echo, |_| {});
    let (_, ltc) = ltc(&network, 1);
    let channel = ltc.channel(address(), Class::Log);
    let panics = Box::new(|_| panic!("as the test says"));
    channel.send(Kind::Append, vec![1].into(), (None, 1), panics);
    let receiver = send(&channel, vec![2]);
    echo.await_held(2);
    echo.reply_all();
    let ended = reply(&receiver);
    assert!(ended == Ok(vec![2]) || ended == Err(Error::Stopped), "{ended:?}");
    let later = reply(&send(&channel, vec![3]));
    assert!(later == Err(Error::Stopped), "{later:?}");
}
