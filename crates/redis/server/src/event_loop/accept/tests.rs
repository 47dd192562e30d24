//! Clients that vanish are found by the kernel.

use socket2::SockRef;

use super::{TcpStream, keep_alive};

#[test]
fn sockets_are_kept_alive() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("listens");
    let stream = std::net::TcpStream::connect(listener.local_addr().expect("an address"));
    let stream = stream.expect("connects");
    stream.set_nonblocking(true).expect("is set");
    let stream = TcpStream::from_std(stream);
    keep_alive(&stream);
    assert!(SockRef::from(&stream).keepalive().expect("is told"));
}
