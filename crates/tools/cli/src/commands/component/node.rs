//! The parts that all processes of a cluster share: certificates, the coordinator, and the wait for
//! the end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use coordinator::RemoteStore;
use environment::{Environment, Monotonic};
use serde_json::json;
use server::{MetricsListener, MetricsServer};
use signal_hook::iterator::Signals;
use sync::locks::Mutex;
use thermocline::telemetry::Snapshot;
use wire::tls::{Files, Tls};
use wire::{Address, Class, Endpoint as _, Handler, Identity, Node, Options, Role, SocketEndpoint};

use crate::commands::Context;
use crate::config::Member;
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two attempts to reach the coordinator.
const RETRY: Duration = Duration::from_millis(500);
/// Attempts between two reports of them.
const ATTEMPTS: u32 = 20;
/// Time between two looks at the files of certificates.
const RELOAD: Duration = Duration::from_secs(60);

/// A process of a cluster before it has connections.
pub(super) struct Process {
    pub(super) member: Member,
    pub(super) role: Role,
    pub(super) tls: Tls,
    pub(super) environment: Environment,
}

/// Reads the files of certificates again each minute.
pub(super) struct Reloads {
    tls: Tls,
    environment: Environment,
    /// The time of the last attempt, and its error.
    last: Mutex<(Monotonic, Option<String>)>,
}

impl Reloads {
    /// Reads the files if it is time for that. Returns the error of the last attempt.
    pub(super) fn error(&self) -> Option<String> {
        let mut last = self.last.lock();
        let now = self.environment.now();
        if now - last.0 > RELOAD {
            let error = self.tls.reload().err();
            let error = error.map(|error| format!("the certificates in use stay in use: {error}"));
            *last = (now, error);
        }
        last.1.clone()
    }
}

/// Returns the failure of a node.
pub(super) fn of_wire(error: wire::Error) -> Failure {
    Failure::new(Kind::Error, error)
}

/// Returns the failure of the coordinator.
pub(super) fn of_coordinator(error: &coordinator::Error) -> Failure {
    match error {
        coordinator::Error::Damaged { .. } => Failure::new(Kind::Damaged, error),
        _ => Failure::new(Kind::Error, error),
    }
}

impl Process {
    /// Reads the settings and the certificate of a process.
    pub(super) fn new(context: &Context, role: Role) -> Result<Self, Failure> {
        let member = context.settings.member(role.word()).map_err(Failure::usage)?;
        Self::of(member, role)
    }

    /// Reads the certificate of a process with these settings.
    pub(super) fn of(member: Member, role: Role) -> Result<Self, Failure> {
        let files = Files::of_process(&member.certificates, role, member.node);
        let tls = Tls::load(files).map_err(of_wire)?;
        let process = Self { member, role, tls, environment: Environment::real() };
        let (who, identity) = (process.tls.who(), process.identity());
        if !who.covers(&identity) {
            let message = format!("the certificate is for {}, and this is {identity}", who.uri());
            return Err(Failure::usage(message));
        }
        Ok(process)
    }

    /// Returns how the process names itself before it has a start.
    pub(super) fn identity(&self) -> Identity {
        let (cluster, node) = (self.tls.who().cluster, self.member.node);
        Identity { cluster, role: self.role, node, cookie: 0, incarnation: 0 }
    }

    /// Starts a node that sends requests.
    pub(super) fn client(&self) -> Result<Node, Failure> {
        let endpoint = SocketEndpoint::new(self.tls.clone(), &self.environment).map_err(of_wire)?;
        let options = Options::new(self.identity(), self.environment.clone());
        Node::start(endpoint, options).map_err(of_wire)
    }

    /// Starts a node that serves requests. Returns it and its address.
    pub(super) fn server(
        &self,
        bound: Bound,
        handler: Arc<dyn Handler>,
        identity: Identity,
    ) -> Result<Node, Failure> {
        let mut options = Options::new(identity, self.environment.clone());
        options.handler = Some(handler);
        Node::start(bound.endpoint, options).map_err(of_wire)
    }

    /// Takes the address at which others reach the process, and that of its metrics. No connection
    /// is served yet.
    pub(super) fn bind(&self) -> Result<Bound, Failure> {
        let own = self.member.address;
        let is_here = |place: &String| {
            let host = place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        let elsewhere = self.member.coordinators.iter().find(|place| !is_here(place));
        if let Some(elsewhere) = elsewhere.filter(|_| own.ip().is_loopback()) {
            return Err(Failure::usage(format!(
                "the coordinator {elsewhere} is on another machine, and other machines do not \
                 reach {own}: give the address of this machine, like --address 10.0.0.7:7401"
            )));
        }
        let endpoint = SocketEndpoint::new(self.tls.clone(), &self.environment);
        let mut endpoint = endpoint.map_err(of_wire)?;
        let place = endpoint.listen(&self.member.address.to_string()).map_err(of_wire)?;
        let metrics = self.member.metrics.map(MetricsListener::new).transpose();
        let metrics = metrics.map_err(Failure::server)?;
        Ok(Bound { endpoint, place, metrics })
    }

    /// Returns the store of the coordinators.
    pub(super) fn store(&self, node: &Node) -> Arc<RemoteStore> {
        let channels = self.member.coordinators.iter().map(|place| {
            let place = place.clone();
            let to = Address { role: Role::Coordinator, node: None, cookie: None, place };
            node.channel(to, Class::Control)
        });
        Arc::new(RemoteStore::new(channels.collect()))
    }

    /// Calls the coordinator until it can be reached, and reports that it waits. Returns nothing
    /// after a signal.
    ///
    /// # Errors
    /// The coordinator's, but that it cannot be reached.
    pub(super) fn reach<T>(
        &self,
        signals: &mut Signals,
        call: impl Fn() -> coordinator::Result<T>,
    ) -> Result<Option<T>, Failure> {
        let mut attempts = 0;
        loop {
            match call() {
                Ok(result) => return Ok(Some(result)),
                Err(error @ (coordinator::Error::Store(_) | coordinator::Error::NoCluster)) => {
                    if attempts % ATTEMPTS == 0 {
                        eprintln!("thermocline: waiting for the coordinator: {error}");
                    }
                    attempts += 1;
                }
                Err(error) => return Err(of_coordinator(&error)),
            }
            if !self.sleep(signals, RETRY) {
                return Ok(None);
            }
        }
    }

    /// Waits. Returns whether no signal came.
    fn sleep(&self, signals: &mut Signals, time: Duration) -> bool {
        let until = self.environment.now() + time;
        while self.environment.now() < until {
            if signals.pending().next().is_some() {
                return false;
            }
            self.environment.sleep(LOOK);
        }
        true
    }

    /// Waits for a signal, or until `ended` returns a failure. Reads the files of certificates
    /// again each minute.
    pub(super) fn attend(
        &self,
        signals: &mut Signals,
        ended: impl Fn() -> Option<Failure>,
    ) -> Outcome {
        let reloads = self.reloads();
        let mut known = None;
        loop {
            if !self.sleep(signals, LOOK) {
                return Ok(());
            }
            if let Some(failure) = ended() {
                return Err(failure);
            }
            let error = reloads.error();
            if let Some(error) = error.as_ref().filter(|_| error != known) {
                eprintln!("thermocline: {error}");
            }
            known = error;
        }
    }

    /// Returns the reader of the files of certificates.
    pub(super) fn reloads(&self) -> Reloads {
        let environment = self.environment.clone();
        let last = Mutex::new((environment.now(), None));
        Reloads { tls: self.tls.clone(), environment, last }
    }

    /// Serves the metrics of the process, if they have an address, until the result is dropped.
    pub(super) fn serve_metrics(
        &self,
        listener: Option<MetricsListener>,
        metrics: impl Fn() -> Snapshot + Send + 'static,
    ) -> Result<Option<MetricsServer>, Failure> {
        let served = listener.map(|listener| listener.serve(metrics, &self.environment));
        served.transpose().map_err(Failure::server)
    }

    /// Prints that the process serves.
    pub(super) fn announce(
        &self,
        context: &Context,
        place: &str,
        metrics: Option<&MetricsServer>,
    ) -> Outcome {
        let (pid, role, node) = (std::process::id(), self.role, self.member.node);
        let cluster = format!("{:016x}", self.tls.who().cluster);
        let metrics = metrics.map(|metrics| metrics.addr().to_string());
        if context.shared.json {
            return output::json_line(&json!({
                "pid": pid,
                "role": role.word(),
                "node": node,
                "cluster": cluster,
                "listening": place,
                "metrics": metrics,
            }));
        }
        if context.shared.quiet {
            return Ok(());
        }
        output::line(&format!("process {pid} is {role} {node} of cluster {cluster} at {place}"))?;
        metrics.map_or(Ok(()), |addr| output::line(&format!("metrics at http://{addr}/metrics")))
    }
}

/// Addresses that are taken.
pub(super) struct Bound {
    endpoint: SocketEndpoint,
    pub(super) place: String,
    pub(super) metrics: Option<MetricsListener>,
}
