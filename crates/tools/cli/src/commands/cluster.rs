//! `thermocline cluster`: clusters.
//!
//! `dev` runs all components of a cluster in one process: three StoCs, an LTC, a coordinator over a
//! local database, and the server. Each numbered database of the server is a range.

pub(crate) mod arguments;

use std::path::Path;
use std::process;
use std::sync::Arc;

use environment::Environment;
use ltc::LocalCluster;
use serde_json::json;
use server::{Databases, Server};
use thermocline::{Db, EngineKind, PauseExpiry, SharedMemory};

use self::arguments::{ClusterCommand, ClusterDev};
use super::component::Change;
use super::{Context, component, serving};
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

/// The numbered databases of a cluster.
struct Ranges(Arc<LocalCluster>);

/// Returns the name of the keyspace of a numbered database.
fn name(index: u8) -> String {
    format!("redis-{index}")
}

impl Databases for Ranges {
    fn existing(&self) -> Vec<(u8, Db)> {
        let number = |(found, db): (String, Db)| {
            let index = (0..=u8::MAX).find(|index| name(*index) == found)?;
            Some((index, db))
        };
        self.0.keyspaces().into_iter().filter_map(number).collect()
    }

    fn make(&self, index: u8) -> Result<Db, String> {
        self.0.keyspace(&name(index)).map_err(|error| error.to_string())
    }

    fn pause_expiry(&self) -> PauseExpiry {
        self.0.shared().pause_expiry.clone()
    }

    fn memory_bytes(&self) -> (u64, u64) {
        self.0.shared().memory.as_ref().map(SharedMemory::bytes).unwrap_or_default()
    }
}

pub(super) fn run(context: &Context, command: &ClusterCommand) -> Outcome {
    match command {
        ClusterCommand::Dev(with) => dev(context, &with.own),
        ClusterCommand::Certs(with) => component::certs(context, &with.own),
        ClusterCommand::Status(_) => component::status(context),
        ClusterCommand::Keyspace(with) => component::change(context, &Change::Keyspace(&with.own)),
        ClusterCommand::Drop(with) => component::change(context, &Change::Drop(&with.own)),
        ClusterCommand::Move(with) => component::change(context, &Change::Move(&with.own)),
        ClusterCommand::AcceptLoss(with) => {
            component::change(context, &Change::AcceptLoss(&with.own))
        }
        ClusterCommand::Drain(with) => component::change(context, &Change::Drain(&with.own, true)),
        ClusterCommand::Undrain(with) => {
            component::change(context, &Change::Drain(&with.own, false))
        }
    }
}

fn dev(context: &Context, arguments: &ClusterDev) -> Outcome {
    let environment = Environment::real();
    let (database, mut options) = context.settings.serving().map_err(Failure::usage)?;
    if let Some(engine) = context.settings.engine_flag().map_err(Failure::usage)?
        && engine != EngineKind::Lsm
    {
        return Err(Failure::usage(format_args!(
            "a range of a cluster has the engine lsm, and not {engine}"
        )));
    }
    if options.backups.is_some() {
        return Err(Failure::usage("a cluster has no backups yet: leave out --backups"));
    }
    options.engine = EngineKind::Lsm;
    let signals = serving::take_signals()?;
    let bound = serving::bind(options, arguments.next_free_port)?;
    let dir = &arguments.data;
    let memory_bytes = database.memory_bytes;
    let of_cluster = ltc::Options { memory_bytes, database, ..ltc::Options::default() };
    let cluster = LocalCluster::open(dir, of_cluster).map_err(|error| opening(dir, &error))?;
    let cluster = Arc::new(cluster);
    for warning in cluster.warnings() {
        eprintln!("thermocline: {warning}");
    }
    let registry = cluster.shared().telemetry.clone();
    let databases = Arc::new(Ranges(Arc::clone(&cluster)));
    let server = bound.serve_databases(databases, registry, environment.clone());
    let server = server.map_err(Failure::server)?;
    announce(context, dir, &server)?;
    let watched = Arc::clone(&cluster);
    let errors = move || {
        let stopped = watched.stopped_stocs().into_iter();
        let stopped = stopped.map(|(node, error)| (format!("all, StoC {node}"), error));
        let damaged = match watched.damaged_copies() {
            0 => None,
            count => Some(format!("{count} copies of tables are damaged or missing")),
        };
        let lacking = (!watched.warnings().is_empty() && watched.is_repairing())
            .then(|| "tables may have too few copies: do not lose another StoC".to_owned());
        let all = damaged.into_iter().chain(lacking).map(|what| ("all".to_owned(), what));
        let stopped = stopped.chain(all);
        let keyspaces = watched.keyspaces().into_iter();
        stopped.chain(keyspaces.flat_map(|(_, db)| serving::errors_of(&db))).collect()
    };
    let closing = cluster.closing().clone();
    let (errors, end_waits) = (Box::new(errors), Box::new(move || closing.close()));
    let is_json = context.shared.json;
    let served = serving::attend(server, signals, &environment, errors, end_waits, is_json);
    let closed = cluster.close().map_err(|error| opening(dir, &error));
    served?;
    closed?;
    if !context.shared.quiet && !context.shared.json {
        eprintln!("stopped");
    }
    Ok(())
}

/// Prints the process, its address and its directory.
fn announce(context: &Context, dir: &Path, server: &Server) -> Outcome {
    let (pid, addr) = (process::id(), server.addr());
    if context.shared.json {
        return output::json_line(&json!({
            "pid": pid,
            "listening": addr.to_string(),
            "metrics": server.metrics_addr().map(|addr| addr.to_string()),
        }));
    }
    if context.shared.quiet {
        return Ok(());
    }
    output::line(&format!("process {pid} serves the cluster {} at {addr}", dir.display()))?;
    if let Some(metrics) = server.metrics_addr() {
        output::line(&format!("metrics at http://{metrics}/metrics"))?;
    }
    output::line(
        "one process is one failure domain: three StoCs share it, its disk and its power supply",
    )
}

/// Returns the failure of a cluster's directory.
pub(super) fn opening(dir: &Path, error: &ltc::Error) -> Failure {
    let dir = dir.display();
    match error {
        ltc::Error::InUse { .. } => Failure::new(Kind::InUse, error),
        ltc::Error::Newer { .. } => Failure::new(Kind::NewerVersion, error),
        ltc::Error::Damaged { .. } => Failure::new(Kind::Damaged, error),
        ltc::Error::NotACluster { .. } => Failure::new(Kind::Error, error),
        ltc::Error::NoMemory { .. } => Failure::usage(error),
        ltc::Error::Database(error) => {
            let failure = Failure::from(error.clone());
            let message = format!("cluster {dir}, database of the coordinator: {error}");
            Failure { message, ..failure }
        }
        _ => Failure::new(Kind::Error, format_args!("cluster {dir}: {error}")),
    }
}
