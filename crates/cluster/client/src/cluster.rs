//! A cluster, as a client sees it.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, LogMode, MakeKeyspace, RemoteStore};
use environment::Environment;
use thermocline::Registry;
use wire::{Address, Class, Node, Role};

use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::router::Router;

/// How a client uses a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of the cluster.
    pub cluster: u64,
    /// The addresses of the coordinators: `HOST:PORT`.
    pub coordinators: Vec<String>,
    /// Time that a request has, with its repetitions.
    pub limit: Duration,
    /// The source of time, threads and randomness.
    pub environment: Environment,
    /// The metrics of the client.
    pub telemetry: Registry,
}

impl Options {
    /// Returns the options for a cluster. Requests have ten seconds.
    pub fn new(cluster: u64, coordinators: Vec<String>) -> Self {
        let (limit, environment) = (Duration::from_secs(10), Environment::real());
        Self { cluster, coordinators, limit, environment, telemetry: Registry::default() }
    }
}

/// A cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster {
    router: Arc<Router>,
    limit: Duration,
}

impl Cluster {
    /// Connects to a cluster, as `node`.
    ///
    /// # Errors
    /// [`Error::Coordinator`], [`Error::Thread`].
    pub fn connect(node: Arc<Node>, options: &Options) -> Result<Self> {
        let channel = |place: &String| {
            let (role, place) = (Role::Coordinator, place.clone());
            node.channel(Address { role, node: None, cookie: None, place }, Class::Control)
        };
        let channels = options.coordinators.iter().map(channel).collect();
        let store = Arc::new(RemoteStore::new(channels));
        let coordinator = Coordinator::join(Arc::clone(&store) as _, options.cluster)?;
        let router = Router::start(node, store, coordinator, options)?;
        Ok(Self { router: Arc::new(router), limit: options.limit })
    }

    /// Returns the same cluster with another time that a request has.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self { limit, ..self.clone() }
    }

    /// Returns a keyspace.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`]; [`Error::Unavailable`] if the coordinator cannot be reached.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        if !self.router.look(|routes| routes.has(name)) {
            self.router.refresh()?;
        }
        match self.router.look(|routes| routes.has(name)) {
            true => Ok(Keyspace::new(Arc::clone(&self.router), name.into(), self.limit)),
            false => Err(Error::NoKeyspace(name.to_owned())),
        }
    }

    /// Returns a keyspace that may not be there yet: its operations fail with
    /// [`Error::NoKeyspace`] until it is.
    pub fn keyspace_unchecked(&self, name: &str) -> Keyspace {
        Keyspace::new(Arc::clone(&self.router), name.into(), self.limit)
    }

    /// Makes a keyspace with a range before, between and after the keys of `splits`, or returns the
    /// one that is there.
    ///
    /// # Errors
    /// [`Error::Coordinator`]; otherwise as [`Cluster::keyspace`].
    pub fn make_keyspace(&self, name: &str, splits: &[Vec<u8>]) -> Result<Keyspace> {
        self.make_keyspace_with_log(name, splits, LogMode::default())
    }

    /// Makes a keyspace whose ranges keep their write logs in another mode. One that is there with
    /// the same mode is returned.
    ///
    /// # Errors
    /// As [`Cluster::make_keyspace`].
    pub fn make_keyspace_with_log(
        &self,
        name: &str,
        splits: &[Vec<u8>],
        log: LogMode,
    ) -> Result<Keyspace> {
        let (name, options) = (name.to_owned(), log.to_options());
        let made = MakeKeyspace { name, options, splits: splits.to_vec() };
        self.router.store().make_keyspace(&made)?;
        self.keyspace(&made.name)
    }

    /// Returns the names of the keyspaces that the client knows.
    pub fn keyspaces(&self) -> Vec<String> {
        self.router.look(|routes| routes.names())
    }

    /// Reads the owners of ranges from the coordinator.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Stopped`].
    pub fn refresh(&self) -> Result<()> {
        self.router.refresh()
    }

    /// Ends the threads of the client. Requests that are repeated end with an error.
    pub fn stop(&self) {
        self.router.stop();
    }
}
