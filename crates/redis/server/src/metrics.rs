//! The metrics page: `GET /metrics` over HTTP, in Prometheus's text format.
//!
//! One thread serves requests one by one, each within a deadline, so that a slow or hostile reader
//! delays other readers of metrics and no other client.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use thermocline::environment::{Environment, JoinHandle, Monotonic};
use thermocline::telemetry::Snapshot;

use crate::process::Process;
use crate::server::{Error, listen};

/// Bytes of a request's head.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Time to send a request, and to take the response.
const DEADLINE: Duration = Duration::from_secs(2);
/// Time between checks whether the thread must stop.
const TICK: Duration = Duration::from_millis(200);

/// An address for a metrics page, which no other process can take.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
    addr: SocketAddr,
}

/// The metrics page of a process that is no server for Redis clients. It ends when this is dropped.
pub struct MetricsServer {
    addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The page's server.
pub(crate) struct MetricsPage {
    /// Returns the metrics in Prometheus's text format.
    render: Box<dyn Fn() -> String + Send>,
    is_over: Box<dyn Fn() -> bool + Send>,
    environment: Environment,
    started: Monotonic,
    poll: Poll,
    listener: TcpListener,
}

impl MetricsListener {
    /// Takes an address. Readers may connect already.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn new(addr: SocketAddr) -> Result<Self, Error> {
        let listener = listen(addr).map_err(|cause| Error::Listen { addr, cause })?;
        let addr = listener.local_addr()?;
        Ok(Self { listener, addr })
    }

    /// Returns the address of the page.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves the page. Calls `metrics` for each request, one at a time.
    ///
    /// # Errors
    /// The operating system refused a thread or a poll.
    pub fn serve(
        self,
        metrics: impl Fn() -> Snapshot + Send + 'static,
        environment: &Environment,
    ) -> Result<MetricsServer, Error> {
        let addr = self.addr;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let page = MetricsPage::new(
            self,
            Box::new(move || metrics().render_prometheus()),
            Box::new(move || ends.load(Relaxed)),
            environment.clone(),
        )?;
        let thread = environment.spawn("metrics", move || page.run())?;
        Ok(MetricsServer { addr, is_over, thread: Some(thread) })
    }
}

impl MetricsServer {
    /// Returns the address of the page.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // The process does its work without the page, too.
            let _ended = thread.join();
        }
    }
}

impl fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsServer").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl MetricsPage {
    /// Returns a page of the metrics that `render` returns, which ends when `is_over` returns true.
    pub(crate) fn new(
        MetricsListener { mut listener, .. }: MetricsListener,
        render: Box<dyn Fn() -> String + Send>,
        is_over: Box<dyn Fn() -> bool + Send>,
        environment: Environment,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, Token(0), Interest::READABLE)?;
        let started = environment.now();
        Ok(Self { render, is_over, environment, started, poll, listener })
    }

    /// Serves requests until the process stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(4);
        while !(self.is_over)() {
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            while let Ok((stream, _)) = self.listener.accept() {
                if (self.is_over)() {
                    break;
                }
                // A reader that went away is no failure of ours.
                let _ = self.answer(stream.into());
            }
        }
        Ok(())
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let (status, body) = match self.read_request(&mut stream)? {
            Request::Metrics => {
                let mut page = (self.render)();
                if let Some(process) = Process::now() {
                    let up = self.environment.now() - self.started;
                    let started = self.environment.wall().saturating_sub(up);
                    page.push_str(&process.render_prometheus(started.as_secs()));
                }
                ("200 OK", page)
            }
            Request::Other => ("404 Not Found", "only /metrics is here\n".to_owned()),
            Request::WrongMethod => ("405 Method Not Allowed", "only GET is known\n".to_owned()),
            Request::Malformed => ("400 Bad Request", "that is no HTTP request\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        self.send(&mut stream, &[head.as_bytes(), body.as_bytes()].concat())
    }

    /// Sends `bytes`; a reader that takes them drop by drop gets no more than the deadline.
    fn send(&self, stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        let begun = self.environment.now();
        while !bytes.is_empty() {
            let left = DEADLINE.saturating_sub(self.environment.now() - begun);
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_write_timeout(Some(left))?;
            match stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => bytes = bytes.get(len..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads a request's head; each read may take the deadline, all together twice that.
    fn read_request(&self, stream: &mut TcpStream) -> io::Result<Request> {
        let begun = self.environment.now();
        let mut head = Vec::new();
        let mut piece = [0; 1024];
        loop {
            let request = parse(&head);
            if let Some(request) = request {
                return Ok(request);
            }
            let len = stream.read(&mut piece)?;
            head.extend_from_slice(piece.get(..len).unwrap_or_default());
            if len == 0
                || head.len() > REQUEST_BYTES_MAX
                || self.environment.now() - begun > DEADLINE
            {
                return Ok(Request::Malformed);
            }
        }
    }
}

/// The resource that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Metrics,
    Other,
    WrongMethod,
    Malformed,
}

/// Returns the request that `head` makes, once it is whole.
fn parse(head: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => None,
        Err(_) => Some(Request::Malformed),
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default();
            Some(match (request.method, path) {
                (Some("GET"), "/metrics") => Request::Metrics,
                (Some("GET"), _) => Request::Other,
                _ => Request::WrongMethod,
            })
        }
    }
}

#[cfg(test)]
mod tests;
