//! The proxy: accepts, passes on, and follows.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use environment::{Environment, JoinHandle};
use sync::locks::Mutex;

use super::command::{ends_tracing, trace_lines};
use super::{Message, Parser};

/// Bytes of a key that are kept: longer keys are cut in the trace.
const KEY_BYTES_KEPT: usize = 4096;
/// Commands of one connection that may wait for their replies before it is no longer traced.
const WAITING_MAX: usize = 1 << 20;
/// How often the acceptor looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);
const PIECE_BYTES: usize = 64 << 10;

/// A running proxy; dropped, it continues until the process ends.
#[derive(Debug)]
pub struct Recorder {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<io::Result<()>>,
}

#[derive(Debug)]
struct Shared {
    env: Environment,
    stop: AtomicBool,
    commands: AtomicU64,
    untraced: AtomicU64,
    out: Mutex<BufWriter<File>>,
    /// Both sockets of every connection that is open, to be shut down at the end.
    sockets: Mutex<HashMap<SocketAddr, [TcpStream; 2]>>,
}

/// The state that the two threads of a connection share.
#[derive(Debug, Default)]
struct Connection {
    waiting: Mutex<VecDeque<Message>>,
    lost: AtomicBool,
}

impl Recorder {
    /// Listens on `listen`, passes connections on to `to`, and writes their trace to `out`.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(listen: &str, to: &str, out: File, env: &Environment) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            env: env.clone(),
            stop: AtomicBool::new(false),
            commands: AtomicU64::new(0),
            untraced: AtomicU64::new(0),
            out: Mutex::new(BufWriter::new(out)),
            sockets: Mutex::default(),
        });
        let (accepting, to) = (shared.clone(), to.to_owned());
        let acceptor = env.spawn("record-accept", move || accept(&listener, &to, &accepting))?;
        Ok(Self { address, shared, acceptor })
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Commands that were traced so far.
    pub fn commands(&self) -> u64 {
        self.shared.commands.load(Ordering::Relaxed)
    }

    /// Connections that could not be followed so far.
    pub fn untraced(&self) -> u64 {
        self.shared.untraced.load(Ordering::Relaxed)
    }

    /// Whether it still accepts; if not, [`Recorder::stop`] says why.
    pub fn is_running(&self) -> bool {
        !self.acceptor.is_finished()
    }

    /// Ends all connections, and completes the trace.
    ///
    /// # Errors
    /// Accepting failed, or the trace cannot be written.
    pub fn stop(self) -> io::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let accepted = match self.acceptor.join() {
            Ok(accepted) => accepted,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.shared.out.lock().flush()?;
        accepted
    }
}

fn accept(listener: &TcpListener, to: &str, shared: &Arc<Shared>) -> io::Result<()> {
    let mut threads = Vec::new();
    let result = loop {
        if shared.stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        match listener.accept() {
            // A server that is down is the client's to see: its connection closes.
            Ok((client, from)) => {
                threads.extend(connect(client, from, to, shared).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => shared.env.sleep(LOOK),
            Err(error) => break Err(error),
        }
        threads.retain(|thread: &JoinHandle<()>| !thread.is_finished());
    };
    for socket in shared.sockets.lock().values().flatten() {
        let _ = socket.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _ = thread.join();
    }
    result
}

/// Starts the two threads of a connection.
fn connect(
    client: TcpStream,
    from: SocketAddr,
    to: &str,
    shared: &Arc<Shared>,
) -> io::Result<Vec<JoinHandle<()>>> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    let server = TcpStream::connect(to)?;
    server.set_nodelay(true)?;
    let both = [client.try_clone()?, server.try_clone()?];
    shared.sockets.lock().insert(from, both);
    let connection = Arc::new(Connection::default());
    let (asking, answering) = (connection.clone(), connection);
    let (from_client, to_client) = (client.try_clone()?, client);
    let (from_server, to_server) = (server.try_clone()?, server);
    let shared_too = shared.clone();
    let requests = shared.env.spawn("record-ask", move || {
        let mut parser = Parser::new(KEY_BYTES_KEPT);
        pass(&from_client, &to_server, |piece| asking.ask(&mut parser, piece));
        // Half closed: the server may still be answering.
        let _ = to_server.shutdown(Shutdown::Write);
    })?;
    let replies = shared.env.spawn("record-answer", move || {
        let mut parser = Parser::new(0);
        pass(&from_server, &to_client, |piece| answering.answer(&mut parser, piece, &shared_too));
        let _ = to_client.shutdown(Shutdown::Both);
        let lost = answering.lost.load(Ordering::Relaxed);
        shared_too.untraced.fetch_add(lost.into(), Ordering::Relaxed);
        let _ = shared_too.out.lock().flush();
        shared_too.sockets.lock().remove(&from);
    })?;
    Ok(vec![requests, replies])
}

/// Passes bytes on until either side ends. Each piece is shown before it is passed, so that a reply
/// cannot overtake its command.
fn pass(mut from: &TcpStream, mut to: &TcpStream, mut show: impl FnMut(&[u8])) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(bytes) = from.read(&mut piece) {
        let Some(read) = piece.get(..bytes).filter(|read| !read.is_empty()) else {
            return;
        };
        show(read);
        if to.write_all(read).is_err() {
            return;
        }
    }
}

impl Connection {
    fn ask(&self, parser: &mut Parser, piece: &[u8]) {
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let mut ends = false;
        let fed = parser.feed(piece, |command| {
            ends |= ends_tracing(&command);
            waiting.push_back(command);
        });
        if fed.is_err() || ends || waiting.len() > WAITING_MAX {
            self.lost.store(true, Ordering::Relaxed);
            waiting.clear();
        }
    }

    fn answer(&self, parser: &mut Parser, piece: &[u8], shared: &Shared) {
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        let mut answered = Vec::new();
        let fed = parser.feed(piece, |reply| {
            // A push is no reply to a command.
            if reply.kind != b'>'
                && let Some(command) = self.waiting.lock().pop_front()
            {
                answered.push((command, reply));
            }
        });
        let mut out = shared.out.lock();
        let written =
            answered.iter().try_for_each(|(command, reply)| trace_lines(command, reply, &mut *out));
        shared.commands.fetch_add(answered.len() as u64, Ordering::Relaxed);
        if fed.is_err() || written.is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}
