//! When a connection is dropped because its peer does not move.

use std::net::TcpListener;
use std::sync::Arc;

use mio::net::TcpStream;
use thermocline::environment::Environment;

use super::reply_queue::Waiting;
use super::{CLOSING_TICKS_MAX, Connection};
use crate::clients::Client;
use crate::commands::Parked;
use crate::protocol::{Bounds, Parser, Step};
use crate::session::Session;
use crate::store::session::Purpose;

/// A connection, and its peer's end.
fn connection() -> (Connection, std::net::TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let addr = listener.local_addr().expect("it has an address");
    let peer = std::net::TcpStream::connect(addr).expect("connects");
    let (stream, from) = listener.accept().expect("accepts");
    stream.set_nonblocking(true).expect("a mode is set");
    let environment = Environment::real();
    let client = Arc::new(Client::new(1, (from, addr), environment.now(), (0, 0)));
    let session = Session::new(client, true, environment.random("session"));
    (Connection::new(TcpStream::from_std(stream), session, environment.now()), peer)
}

/// Returns the ticks after which it is dropped.
fn ticks(connection: &mut Connection) -> u32 {
    let now = Environment::real().now();
    let most = 3 * CLOSING_TICKS_MAX;
    (0..most).find(|_| connection.tick(now)).unwrap_or(most)
}

#[test]
fn a_closing_connection_has_time_as_long_as_the_device_is_slow() {
    let (mut connection, _peer) = connection();
    connection.session.closing = true;
    let line = b"GET a\r\n";
    let mut parser = Parser::default();
    assert!(matches!(parser.step(line, &Bounds::UNAUTHENTICATED), Step::Command { .. }));
    let parked = Parked { command: 0, purpose: Purpose::Read, is_muted: false, begun: None };
    connection.output.reply_queue.push(Waiting::new(parked, parser.args(line), 1, None));
    assert_eq!(ticks(&mut connection), 3 * CLOSING_TICKS_MAX);
    // Now it is the peer that does not read.
    connection.output.bytes.extend_from_slice(b"+OK\r\n");
    assert_eq!(ticks(&mut connection), CLOSING_TICKS_MAX);
}

#[test]
fn a_closing_connection_without_anything_to_wait_for_is_given_up() {
    let (mut connection, _peer) = connection();
    assert_eq!(ticks(&mut connection), 3 * CLOSING_TICKS_MAX);
    connection.session.closing = true;
    assert_eq!(ticks(&mut connection), CLOSING_TICKS_MAX);
}
