//! The attempts of a coordinator to lead, and the leases that it gives while it does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use environment::Environment;

use crate::coordinator::Coordinator;
use crate::error::{Error, Result};
use crate::leases::Leases;
use crate::remote::StoreService;
use crate::store::{Revision, Store, StoreError};

/// A store whose users elect a leader. Each commit fails for all others.
pub trait Election: Store + 'static {
    /// Renews the lease of the leader, or tries to become the leader. `name` is stored for others.
    /// Call it at least three times in the time of a lease. Returns the revision at which this
    /// coordinator has become the leader, if it leads. Another revision is another leadership.
    ///
    /// # Errors
    /// [`StoreError`].
    fn campaign(&self, name: &str) -> std::result::Result<Option<Revision>, StoreError>;

    /// Returns whether this coordinator leads, by its clock.
    fn leads(&self) -> bool;

    /// Ends the leadership, so that another coordinator can lead without a pause.
    ///
    /// # Errors
    /// [`StoreError`]: the lease ends by itself then.
    fn resign(&self) -> std::result::Result<(), StoreError>;
}

/// Called with a line for the operator when something has changed.
pub type OnReport = Box<dyn Fn(&str) + Send>;

/// The attempts of a coordinator to lead.
pub struct Campaign<E> {
    store: Arc<E>,
    service: Arc<StoreService>,
    environment: Environment,
    cluster: u64,
    name: String,
    /// The lease of an LTC.
    lease: Duration,
    report: OnReport,
    leads: bool,
    /// The leadership in which this coordinator gives leases.
    gives_in: Option<Revision>,
    error: Option<String>,
}

impl<E: Election> Campaign<E> {
    /// Returns the campaign of a coordinator whose name is `name`. While it leads, `service` gives
    /// leases of this length to LTCs.
    pub fn new(
        (store, service): (Arc<E>, Arc<StoreService>),
        (cluster, name): (u64, String),
        lease: Duration,
        environment: &Environment,
        report: OnReport,
    ) -> Self {
        let environment = environment.clone();
        let (leads, gives_in, error) = (false, None, None);
        Self { store, service, environment, cluster, name, lease, report, leads, gives_in, error }
    }

    /// Renews the lease, or tries to lead. The leader makes the cluster, if there is none.
    pub fn step(&mut self) {
        let led = match self.store.campaign(&self.name) {
            Ok(led) => led,
            Err(error) => return self.note(Some(error.to_string())),
        };
        if led.is_some() != self.leads {
            let who = if led.is_some() { "this" } else { "another" };
            (self.report)(&format!("{who} coordinator leads"));
            self.leads = led.is_some();
        }
        if self.gives_in.is_some() && self.gives_in != led {
            // Also if this coordinator leads again, after another one.
            self.service.lead(None);
            self.gives_in = None;
        }
        let made = match led {
            Some(led) => self.make_cluster().and_then(|()| self.lead(led)),
            None => Ok(()),
        };
        self.note(made.err().map(|error| error.to_string()));
    }

    /// Ends the leadership.
    ///
    /// # Errors
    /// [`StoreError`]: the lease ends by itself then.
    pub fn resign(&self) -> std::result::Result<(), StoreError> {
        self.service.lead(None);
        self.store.resign()
    }

    /// Gives leases, if this coordinator has begun to lead.
    fn lead(&mut self, led: Revision) -> Result<()> {
        if self.gives_in == Some(led) {
            return Ok(());
        }
        let joined = Coordinator::join(Arc::clone(&self.store) as _, self.cluster)?;
        let store = Arc::clone(&self.store);
        let leads = move || store.leads();
        let leases = Leases::begin(Arc::new(joined), self.lease, leads, &self.environment)?;
        self.service.lead(Some(Arc::new(leases)));
        self.gives_in = Some(led);
        Ok(())
    }

    /// Makes the cluster if the store has no records of it.
    fn make_cluster(&self) -> Result<()> {
        let store = || Arc::clone(&self.store) as Arc<dyn Store>;
        match Coordinator::join(store(), self.cluster) {
            Err(Error::NoCluster) => {
                (self.report)("the store has no records of the cluster: it begins without any");
                Coordinator::found(store(), self.cluster).map(drop)
            }
            joined => joined.map(drop),
        }
    }

    /// Reports an error once, and its end.
    fn note(&mut self, error: Option<String>) {
        if self.error != error {
            (self.report)(error.as_deref().unwrap_or("the error before is over"));
            self.error = error;
        }
    }
}

impl<E> fmt::Debug for Campaign<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Campaign").field("name", &self.name).finish_non_exhaustive()
    }
}
