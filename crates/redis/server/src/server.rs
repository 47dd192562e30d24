//! The running server: its threads from start to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::Poll;
use rand::Rng as _;
use thermocline::Db;
use thermocline::environment::{Environment, JoinHandle};
use thermocline::sync::locks::Mutex;
use thermocline::telemetry::Registry;

use crate::bound::Bound;
use crate::clients::Clients;
use crate::event_loop::{EventLoop, Mailbox, Walker};
use crate::gate::Gate;
use crate::key_marks::KeyMarks;
use crate::metrics::{MetricsListener, MetricsPage};
use crate::options::Options;
use crate::retired;
use crate::saving::Saving;
use crate::scan_cursors::ScanCursors;
use crate::shared::{KeyTables, Run, Settings, Shared, Threads};
use crate::stats::Stats;
use crate::store::Durable;
use crate::watch::Watches;
use crate::write_status::WriteStatus;

/// Why a server did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Clients from elsewhere could come in unasked.
    #[error(
        "refusing to listen on {addr} without a password: set one, or listen on a loopback \
         address (127.0.0.1 or ::1)"
    )]
    NoPassword {
        /// The address.
        addr: SocketAddr,
    },
    /// An empty password, which excludes no client.
    #[error("the password is empty: leave it out to serve without one")]
    EmptyPassword,
    /// A number of threads that cannot serve.
    #[error("{threads} threads cannot serve: between 1 and 64 can")]
    Threads {
        /// The number asked for.
        threads: usize,
    },
    /// The address cannot be had.
    #[error("cannot listen on {addr}: {cause}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why not.
        cause: io::Error,
    },
    /// A keyspace with the name of a numbered database cannot be served, for example since it was
    /// made without values that expire.
    #[error("cannot serve the database: {0}")]
    Keyspace(String),
    /// The operating system refused a thread or a poll.
    #[error("cannot run the server: {0}")]
    System(#[from] io::Error),
    /// The store could not make its data durable at the end.
    #[error("the store failed when the server stopped: {0}")]
    Store(String),
    /// Clients got MISCONF while the server ran, though the end was orderly.
    #[error("writes failed while the server ran, first because of: {0}")]
    WritesFailed(String),
    /// A thread of the server panicked.
    #[error("thread {0} of the server panicked")]
    Panicked(String),
}

/// A running server. Dropping it stops it.
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    metrics_addr: Option<SocketAddr>,
    threads: Mutex<Vec<(String, JoinHandle<io::Result<()>>)>>,
}

impl Server {
    /// Serves `db` to Redis clients. Returns once it listens; counts into the database's registry.
    ///
    /// The database stays open when the server stops; syncing in the background is the database's
    /// own ([`thermocline::Options::sync_interval`]).
    ///
    /// ```
    /// use std::io::{Read as _, Write as _};
    /// use std::net::{SocketAddr, TcpStream};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path();
    /// let env = thermocline::environment::Environment::real();
    /// let db = thermocline::Db::open(path, thermocline::Options::default())?;
    /// let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    /// let options = thermocline_server::Options { listen, ..Default::default() };
    /// let server = thermocline_server::Server::start(&db, options, env)?;
    ///
    /// let mut client = TcpStream::connect(server.addr())?;
    /// client.write_all(b"SET greeting hello\r\nGET greeting\r\n")?;
    /// let mut replies = [0; 16];
    /// client.read_exact(&mut replies)?;
    /// assert_eq!(&replies, b"+OK\r\n$5\r\nhello\r\n");
    ///
    /// server.stop();
    /// server.wait()?;
    /// db.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Options that would not serve, or would serve every client; an address that cannot be had.
    pub fn start(db: &Db, options: Options, environment: Environment) -> Result<Self, Error> {
        Bound::new(options)?.serve(db, environment)
    }

    /// Serves `store` at ports that are taken already.
    pub(crate) fn start_bound(
        bound: Bound,
        store: Arc<dyn Durable>,
        environment: Environment,
        registry: Registry,
    ) -> Result<Self, Error> {
        let Bound { options, listener, metrics_listener, addr } = bound;
        let polls: Vec<Poll> =
            (0..options.threads).map(|_| Poll::new()).collect::<io::Result<_>>()?;
        let mailboxes = polls.iter().map(Mailbox::new).collect::<io::Result<_>>()?;
        let mut random = environment.random("run id");
        let id = format!("{:016x}{:016x}{:08x}", random.next_u64(), random.next_u64(), 0);
        let last = store.last();
        let shared = Arc::new(Shared {
            gate: Gate::new(options.threads, store.pause_expiry()),
            is_gateway: store.remote().is_some(),
            store,
            settings: Settings::new(&options),
            keys: KeyTables {
                watches: Watches::default(),
                cursors: ScanCursors::default(),
                marks: KeyMarks::new(environment.wall_ms()),
            },
            clients: Clients::new(options.client_memory_bytes),
            stats: Stats::new(registry),
            run: Run { addr, started: environment.now(), id },
            saving: Arc::new(Saving::new(&environment, last)),
            threads: Threads::new(mailboxes),
            write_status: WriteStatus::default(),
            environment,
            options,
        });
        let metrics_addr = metrics_listener.as_ref().map(MetricsListener::addr);
        let server = Self { shared, metrics_addr, threads: Mutex::default() };
        server.start_threads(polls, listener, metrics_listener)?;
        Ok(server)
    }

    fn start_threads(
        &self,
        polls: Vec<Poll>,
        listener: mio::net::TcpListener,
        metrics_listener: Option<MetricsListener>,
    ) -> Result<(), Error> {
        let mut listener = Some(listener);
        for (index, poll) in polls.into_iter().enumerate() {
            let shared = Arc::clone(&self.shared);
            let turns = EventLoop::new(shared, index, poll, listener.take())?;
            self.spawn(format!("serve-{index}"), move || turns.run())?;
        }
        self.start_helpers(metrics_listener)
    }

    /// Starts the threads that work for the loops.
    fn start_helpers(&self, metrics_listener: Option<MetricsListener>) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        self.spawn_helper("retired", move || retired::drop_them(&shared))?;
        let shared = Arc::clone(&self.shared);
        self.spawn_helper("walker", move || Walker::run(&shared))?;
        let shared = Arc::clone(&self.shared);
        self.spawn_helper("alone", move || shared.threads.command_threads.alone.run(&shared))?;
        let shared = Arc::clone(&self.shared);
        let run = move || shared.threads.command_threads.next_to_others.run(&shared);
        self.spawn_helper("next-to-others", run)?;
        let shared = Arc::clone(&self.shared);
        self.spawn_helper("writes", move || shared.threads.command_threads.writes.run(&shared))?;
        if self.shared.is_gateway {
            let shared = Arc::clone(&self.shared);
            let run = move || shared.threads.command_threads.commits.run(&shared);
            self.spawn_helper("commits", run)?;
        }
        if let Some(listener) = metrics_listener {
            let (shared, stops) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
            let environment = self.shared.environment.clone();
            let render = Box::new(move || shared.render_metrics());
            let is_over = Box::new(move || stops.threads.stop.is_asked());
            let page = MetricsPage::new(listener, render, is_over, environment)?;
            self.spawn_helper("metrics", move || page.run())?;
        }
        Ok(())
    }

    fn spawn_helper(
        &self,
        name: &str,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), Error> {
        self.spawn(name.to_owned(), move || {
            thermocline::telemetry::note_background_thread();
            work()
        })
    }

    /// Starts a thread; if it ends, however it ends, the server does.
    fn spawn(
        &self,
        name: String,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), Error> {
        let stopper = StopOnDrop(Arc::clone(&self.shared));
        let thread = self.shared.environment.spawn(&name, move || {
            let stopper = stopper;
            let result = work();
            drop(stopper);
            result
        })?;
        self.threads.lock().push((name, thread));
        Ok(())
    }

    /// Returns the address to which clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.shared.run.addr
    }

    /// Returns the address of `GET /metrics`, if there is one.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// Asks the server to stop; [`Self::wait`] returns soon after. May be called from any thread.
    pub fn stop(&self) {
        self.shared.threads.ask_to_stop();
    }

    /// A handle by which another thread can stop the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Blocks until the server has stopped (by [`Self::stop`], by a client's SHUTDOWN, or because
    /// a thread failed), and everything acknowledged is on the device.
    ///
    /// # Errors
    /// A thread failed or panicked, the store could not sync, or a client got MISCONF for a write.
    pub fn wait(&self) -> Result<(), Error> {
        while !self.shared.threads.stop.wait_for(Duration::from_secs(3600)) {}
        self.shared.threads.ask_to_stop();
        let mut result = Ok(());
        for (name, thread) in std::mem::take(&mut *self.threads.lock()) {
            let ended = match thread.join() {
                Ok(ended) => ended.map_err(Error::System),
                Err(_) => Err(Error::Panicked(name)),
            };
            result = result.and(ended);
        }
        self.shared.saving.wait();
        let saved = self.shared.store.save();
        result = result.and(saved.map_err(|error| Error::Store(error.to_string())));
        let failed = self.shared.write_status.first_failure();
        result.and(failed.map_or(Ok(()), |cause| Err(Error::WritesFailed(cause))))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        // A caller that wants to know how it ended has called `wait`.
        let _ = self.wait();
    }
}

/// Stops a server from anywhere, a signal's thread for instance. Cheap to clone.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Asks the server to stop.
    pub fn stop(&self) {
        self.0.threads.ask_to_stop();
    }
}

/// Stops the server when the thread that holds it ends, by a panic too.
struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.threads.ask_to_stop();
    }
}

/// Refuses options that would not serve, or would serve every client.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    match &options.password {
        Some(secret) if secret.is_empty() => return Err(Error::EmptyPassword),
        None if !options.listen.ip().is_loopback() => {
            return Err(Error::NoPassword { addr: options.listen });
        }
        _ => {}
    }
    if !(1..=64).contains(&options.threads) {
        return Err(Error::Threads { threads: options.threads });
    }
    Ok(())
}

/// A listening socket.
pub(crate) fn listen(addr: SocketAddr) -> io::Result<mio::net::TcpListener> {
    /// Connections that may wait to be accepted; the kernel caps it at its own limit.
    const BACKLOG: i32 = 1024;
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(mio::net::TcpListener::from_std(socket.into()))
}
