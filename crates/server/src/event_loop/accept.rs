//! Accepting connections and handing them round.

use std::io::{self, Write as _};
use std::sync::atomic::Ordering::Relaxed;

use mio::net::TcpStream;

use super::{EventLoop, Letter};

impl EventLoop {
    /// Accepts everybody who waits.
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
                    // No descriptor is free. Those who wait stay in the backlog.
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
        if shared.client_memory.is_exhausted() {
            return self.refuse(stream, "-ERR the memory for clients is used up, try again\r\n");
        }
        if !shared.clients.admit(clients_max) {
            return self.refuse(stream, "-ERR max number of clients reached\r\n");
        }
        // Replies leave in one write per turn; waiting to join them would only add delay.
        let _ = stream.set_nodelay(true);
        let target = self.next_loop;
        self.next_loop = (target + 1) % shared.mailboxes.len();
        if target == self.index {
            self.adopt(stream);
        } else {
            shared.mailboxes[target].send(Letter::Connection(stream));
        }
    }

    fn refuse(&mut self, mut stream: TcpStream, error: &str) {
        self.shared.stats.connections_refused.add(1);
        // A courtesy: the socket's buffer is empty, so this fits, or the peer is gone.
        let _ = stream.write(error.as_bytes());
    }
}
