//! One TCP connection with TLS.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use socket2::{SockRef, TcpKeepalive};

use crate::peer::Certified;
use crate::tls::certified;

/// Bytes that a socket reads in a turn, about: the others read, too.
const TURN_BYTES: usize = 512 << 10;
/// Bytes that are read together.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes that were written before memory is released.
const WRITTEN_BYTES_MAX: usize = 1 << 20;
/// Time after which the system asks a peer that is silent.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The server name in handshakes. Certificates are for nodes ([`crate::tls`]).
const NAME: &str = "thermocline";

/// The cause of an end, in words.
type Cause = String;

/// A TCP connection with TLS.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    tls: Connection,
    /// Bytes that were taken before the handshake was done.
    early: Vec<u8>,
    received: Vec<u8>,
    opened: Option<Certified>,
    is_open: bool,
    /// Whether the stream may have more bytes.
    has_more: bool,
    is_paused: bool,
    /// Bytes of TLS records that wait for the stream.
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that were written.
    written: usize,
}

impl Socket {
    /// Begins the handshake with a node that was dialled.
    pub(super) fn dialled(stream: TcpStream, config: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::new(stream, tls.into()))
    }

    /// Begins the handshake with a node that has dialled.
    pub(super) fn accepted(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self::new(stream, tls.into()))
    }

    fn new(stream: TcpStream, mut tls: Connection) -> Self {
        // Connections work without these settings.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        // The node bounds what it sends.
        tls.set_buffer_limit(None);
        Self {
            stream,
            tls,
            early: Vec::new(),
            received: Vec::new(),
            opened: None,
            is_open: false,
            has_more: false,
            is_paused: false,
            outgoing: Vec::new(),
            written: 0,
        }
    }

    /// Returns whether the handshake has ended.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Returns what the certificate of the peer says, when the handshake has just ended.
    pub(super) fn take_opened(&mut self) -> Option<Certified> {
        self.opened.take()
    }

    /// Returns the bytes that were received since.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Returns whether there may be more to read.
    pub(super) fn may_read(&self) -> bool {
        self.has_more && !self.is_paused
    }

    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        // The poll reports nothing twice.
        self.has_more |= !is_paused;
    }

    /// Returns the bytes that were taken and that the stream does not have yet.
    pub(super) fn queued(&self) -> usize {
        self.early.len() + self.outgoing.len() - self.written
    }

    /// Takes bytes, and sends what the stream takes.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        if !self.is_open {
            self.early.extend_from_slice(bytes);
            return Ok(());
        }
        self.tls.writer().write_all(bytes).map_err(|error| error.to_string())?;
        self.write()
    }

    /// Writes what the stream takes.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn write(&mut self) -> Result<(), Cause> {
        loop {
            while self.tls.wants_write() {
                let taken = self.tls.write_tls(&mut self.outgoing);
                taken.map_err(|error| error.to_string())?;
            }
            let rest = self.outgoing.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                self.outgoing.clear();
                self.outgoing.shrink_to(WRITTEN_BYTES_MAX);
                self.written = 0;
                return Ok(());
            }
            match self.stream.write(rest) {
                Ok(0) => return Err("the peer takes no bytes".to_owned()),
                Ok(bytes) => {
                    self.written += bytes;
                    if self.written > WRITTEN_BYTES_MAX && self.written > self.outgoing.len() / 2 {
                        self.outgoing.drain(..self.written);
                        self.outgoing.shrink_to(self.outgoing.len() + WRITTEN_BYTES_MAX);
                        self.written = 0;
                    }
                }
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Reads what the stream has, but not more than the share of one turn.
    ///
    /// # Errors
    /// The connection has ended. The bytes before the end can be taken.
    pub(super) fn read(&mut self) -> Result<(), Cause> {
        if self.is_paused {
            self.has_more = true;
            return Ok(());
        }
        self.has_more = false;
        let mut piece = vec![0; PIECE_BYTES];
        for _ in 0..TURN_BYTES / PIECE_BYTES {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err("the peer has closed the connection".to_owned()),
                Ok(bytes) => self.take(piece.get(..bytes).unwrap_or_default())?,
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.has_more = true;
        Ok(())
    }

    /// Takes bytes of TLS records.
    fn take(&mut self, mut records: &[u8]) -> Result<(), Cause> {
        while !records.is_empty() {
            self.tls.read_tls(&mut records).map_err(|error| error.to_string())?;
            let state = match self.tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The alert says why.
                    let _ = self.write();
                    return Err(in_words(&error));
                }
            };
            let begun = self.received.len();
            self.received.resize(begun + state.plaintext_bytes_to_read(), 0);
            if let Some(room) = self.received.get_mut(begun..) {
                self.tls.reader().read_exact(room).map_err(|error| error.to_string())?;
            }
            self.agree()?;
            if state.peer_has_closed() {
                return Err("the peer has closed the connection".to_owned());
            }
        }
        self.write()
    }

    /// Notes the end of the handshake, once.
    fn agree(&mut self) -> Result<(), Cause> {
        if self.is_open || self.tls.is_handshaking() {
            return Ok(());
        }
        let first = self.tls.peer_certificates().and_then(<[_]>::first);
        let first = first.ok_or_else(|| "the peer has shown no certificate".to_owned())?;
        self.opened = Some(certified(first)?);
        self.is_open = true;
        let early = std::mem::take(&mut self.early);
        self.send(&early)
    }

    /// Says goodbye, and sends what the stream takes now.
    pub(super) fn finish(&mut self) {
        self.tls.send_close_notify();
        let _ = self.write();
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

/// Returns whether the stream has no bytes, or no room, just now. One that is being connected has
/// no room yet.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}

/// Returns the cause of a failed handshake in words.
fn in_words(error: &rustls::Error) -> Cause {
    match error {
        rustls::Error::InvalidMessage(_) => "the peer does not speak TLS".to_owned(),
        rustls::Error::AlertReceived(alert) => {
            format!("the peer refuses the certificate or the handshake: {alert:?}")
        }
        error => error.to_string(),
    }
}
