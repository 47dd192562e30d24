//! `thermocline serve --cluster`: a gateway, which serves the numbered databases of a cluster to
//! Redis clients.

use std::sync::Arc;

use client::Cluster;
use serde_json::json;
use thermocline::Registry;
use wire::Role;

use super::node::Process;
use crate::arguments::Serve;
use crate::commands::{Context, serving};
use crate::config::Member;
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

/// Settings of databases, which the LTCs have.
const OF_DATABASES: [&str; 8] = [
    "durability",
    "sync-interval",
    "engine",
    "compression",
    "engine-settings",
    "io",
    "journal-max",
    "background-threads",
];

pub(super) fn run(context: &Context, arguments: &Serve, coordinators: &str) -> Outcome {
    let settings = context.settings.member(Role::Client.word()).map_err(Failure::usage)?;
    let member = Member {
        node: arguments.node,
        coordinators: crate::config::hosts_and_ports(coordinators).map_err(Failure::usage)?,
        certificates: arguments.certificates.clone(),
        ..settings
    };
    let process = Process::of(member, Role::Client)?;
    let (_, options) = context.settings.serving().map_err(Failure::usage)?;
    if options.backups.is_some() {
        return Err(Failure::usage("a cluster has no backups yet: leave out --backups"));
    }
    let refused = context.settings.refuse_flags(&OF_DATABASES, "a gateway");
    refused.map_err(Failure::usage)?;
    let mut signals = serving::take_signals()?;
    let bound = serving::bind(options, arguments.next_free_port)?;
    let node = Arc::new(process.client()?);
    let registry = Registry::default();
    let cluster_options = client::Options {
        environment: process.environment.clone(),
        telemetry: registry.clone(),
        ..client::Options::new(process.tls.who().cluster, process.member.coordinators.clone())
    };
    let connect = || match Cluster::connect(Arc::clone(&node), &cluster_options) {
        Ok(cluster) => Ok(cluster),
        Err(client::Error::Coordinator(error)) => Err(error),
        Err(error) => Err(coordinator::Error::Rejected(error.to_string())),
    };
    let Some(cluster) = process.reach(&mut signals, connect)? else { return Ok(()) };
    let served = bound.serve_cluster(cluster.clone(), registry, process.environment.clone());
    let server = served.map_err(Failure::server)?;
    let addr = server.addr();
    match context.shared.json {
        true => output::json_line(&json!({
            "pid": std::process::id(),
            "listening": addr.to_string(),
            "metrics": server.metrics_addr().map(|addr| addr.to_string()),
        }))?,
        false if context.shared.quiet => {}
        false => {
            let cluster = process.tls.who().cluster;
            output::line(&format!("serving cluster {cluster:016x} at {addr}"))?;
            if let Some(metrics) = server.metrics_addr() {
                output::line(&format!("metrics at http://{metrics}/metrics"))?;
            }
        }
    }
    let reloads = process.reloads();
    let errors = Box::new(move || {
        let error = reloads.error().into_iter();
        error.map(|error| ("certificates".to_owned(), error)).collect()
    });
    let stopped = cluster.clone();
    let end_waits = Box::new(move || stopped.stop());
    let is_json = context.shared.json;
    let ended = serving::attend(server, signals, &process.environment, errors, end_waits, is_json);
    cluster.stop();
    node.stop();
    if ended.is_err() {
        return ended.map_err(|failure| Failure { kind: Kind::Error, ..failure });
    }
    Ok(())
}
