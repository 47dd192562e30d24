//! Accepting connections and handing them round.

use std::io::{self, Write as _};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

use super::{EventLoop, Letter};

/// Silence after which the kernel asks whether a client's machine is still there, and then again
/// each tenth of it. By Linux's default a peer that does not respond nine times is disconnected.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(300);

/// Lets the kernel find clients that vanished without a word, which would count for ever.
fn keep_alive(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 10);
    // A socket that refuses it is served nevertheless.
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

impl EventLoop {
    /// Accepts every client that waits.
    pub(super) fn accept(&mut self) {
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, _)) => self.welcome(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => {
                    // No descriptor is free. Waiting clients stay in the backlog.
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    /// Hands a connection to the loop whose turn it is, or refuses it.
    fn welcome(&mut self, stream: TcpStream) {
        let shared = &self.shared;
        shared.stats.connections.add(1);
        let clients_max = shared.settings.clients_max.load(Relaxed);
        if shared.clients.memory.is_exhausted() {
            return self.refuse(stream, "-ERR the memory for clients is used up, try again\r\n");
        }
        if !shared.clients.admit(clients_max) {
            return self.refuse(stream, "-ERR max number of clients reached\r\n");
        }
        // Replies leave in one write per turn; waiting to join them would only add delay.
        let _ = stream.set_nodelay(true);
        keep_alive(&stream);
        let target = self.next_loop;
        self.next_loop = (target + 1) % shared.threads.mailboxes.len();
        if target == self.index {
            self.adopt(stream);
        } else {
            shared.threads.mailboxes[target].send(Letter::Connection(stream));
        }
    }

    fn refuse(&mut self, mut stream: TcpStream, error: &str) {
        self.shared.stats.connections_refused.add(1);
        // A courtesy: the socket's buffer is empty, so this fits, or the peer has left.
        let _ = stream.write(error.as_bytes());
    }
}

#[cfg(test)]
mod tests;
