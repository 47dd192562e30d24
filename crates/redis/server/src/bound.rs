//! A server's ports, taken before there is anything to serve.
//!
//! Options that would be refused and ports that are taken are reported before a database is opened,
//! or made: a refusal leaves nothing behind.

use std::net::SocketAddr;
use std::sync::Arc;

use client::Cluster;
use mio::net::TcpListener;
use thermocline::Db;
use thermocline::environment::Environment;
use thermocline::telemetry::Registry;

use crate::metrics::MetricsListener;
use crate::open_files;
use crate::options::Options;
use crate::server::{Error, Server, check, listen};
use crate::store::Durable;
use crate::store::database::Database;
use crate::store::gateway::Gateway;
use crate::store::ranges::{Databases, Ranges};

/// Options that were checked, and ports that no other process can take. Clients may connect
/// already; they are answered once [`Bound::serve`] was called, and cut off if this is dropped
/// instead.
#[derive(Debug)]
pub struct Bound {
    pub(crate) options: Options,
    pub(crate) listener: TcpListener,
    pub(crate) metrics_listener: Option<MetricsListener>,
    pub(crate) addr: SocketAddr,
}

impl Bound {
    /// Checks `options` and takes the ports that they name.
    ///
    /// # Errors
    /// [`Error::NoPassword`], [`Error::EmptyPassword`], [`Error::Threads`]; [`Error::Listen`] for
    /// an address that cannot be had.
    pub fn new(options: Options) -> Result<Self, Error> {
        check(&options)?;
        let options =
            Options { clients_max: open_files::fit_clients(options.clients_max), ..options };
        let addr = options.listen;
        let listener = listen(addr).map_err(|cause| Error::Listen { addr, cause })?;
        let metrics_listener = options.metrics.map(MetricsListener::new).transpose()?;
        let addr = listener.local_addr()?;
        Ok(Self { options, listener, metrics_listener, addr })
    }

    /// Returns the address to which clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves `db` as [`Server::start`] does.
    ///
    /// # Errors
    /// The operating system refused a thread or a poll; [`Error::Keyspace`].
    pub fn serve(self, db: &Db, environment: Environment) -> Result<Server, Error> {
        let store = Database::new(db, self.options.durability, self.options.engine);
        let store = Arc::new(store.map_err(|error| Error::Keyspace(error.to_string()))?);
        self.serve_on(store, environment, db.telemetry().clone())
    }

    /// Serves numbered databases that are apart: a command or a transaction that needs two of them
    /// is refused. Their metrics are in `registry`.
    ///
    /// # Errors
    /// The operating system refused a thread or a poll; [`Error::Keyspace`].
    pub fn serve_databases(
        self,
        databases: Arc<dyn Databases>,
        registry: Registry,
        environment: Environment,
    ) -> Result<Server, Error> {
        let store = Ranges::new(databases, self.options.durability, self.options.engine);
        let store = Arc::new(store.map_err(|error| Error::Keyspace(error.to_string()))?);
        self.serve_on(store, environment, registry)
    }

    /// Serves the numbered databases of a cluster. Other gateways may serve them, too.
    ///
    /// # Errors
    /// The operating system refused a thread or a poll.
    pub fn serve_cluster(
        self,
        cluster: Cluster,
        registry: Registry,
        environment: Environment,
    ) -> Result<Server, Error> {
        self.serve_on(Arc::new(Gateway::new(cluster)), environment, registry)
    }

    /// Serves `store`.
    pub(crate) fn serve_on(
        self,
        store: Arc<dyn Durable>,
        environment: Environment,
        registry: Registry,
    ) -> Result<Server, Error> {
        Server::start_bound(self, store, environment, registry)
    }
}
