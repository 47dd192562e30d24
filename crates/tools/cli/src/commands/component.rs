//! Processes of a cluster: `stoc`, `ltc`, `coordinator`, the gateway of `serve --cluster`, and the
//! commands of `cluster` that need a running one.
//!
//! They need the feature `cluster`, because TLS compiles C.

#[cfg(feature = "cluster")]
mod certs;
#[cfg(feature = "cluster")]
mod change;
#[cfg(feature = "cluster")]
mod coordinator;
#[cfg(feature = "cluster")]
mod gateway;
#[cfg(feature = "cluster")]
mod ltc;
#[cfg(feature = "cluster")]
mod node;
#[cfg(feature = "cluster")]
mod releases;
#[cfg(feature = "cluster")]
mod status;
#[cfg(feature = "cluster")]
mod stoc;

use super::Context;
use super::cluster::arguments::{
    ClusterAcceptLoss, ClusterCerts, ClusterDrop, ClusterKeyspace, ClusterLtc, ClusterMove,
};
use crate::arguments::Serve;
use crate::failure::Outcome;

/// Runs a StoC until a signal.
pub(super) fn stoc(context: &Context, start_empty: bool) -> Outcome {
    #[cfg(feature = "cluster")]
    return stoc::run(context, start_empty);
    #[cfg(not(feature = "cluster"))]
    {
        let _ = start_empty;
        without_cluster(context)
    }
}

/// Runs an LTC until a signal.
pub(super) fn ltc(context: &Context) -> Outcome {
    #[cfg(feature = "cluster")]
    return ltc::run(context);
    #[cfg(not(feature = "cluster"))]
    return without_cluster(context);
}

/// Serves a cluster to Redis clients.
pub(super) fn gateway(context: &Context, arguments: &Serve, coordinators: &str) -> Outcome {
    #[cfg(feature = "cluster")]
    return gateway::run(context, arguments, coordinators);
    #[cfg(not(feature = "cluster"))]
    {
        let _ = (arguments, coordinators);
        without_cluster(context)
    }
}

/// A change of a running cluster.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "cluster"),
    expect(dead_code, reason = "only the processes of a cluster read it")
)]
pub(super) enum Change<'a> {
    /// Makes a keyspace.
    Keyspace(&'a ClusterKeyspace),
    /// Drops a keyspace.
    Drop(&'a ClusterDrop),
    /// Moves a range.
    Move(&'a ClusterMove),
    /// Opens a range without its write log.
    AcceptLoss(&'a ClusterAcceptLoss),
    /// Has an LTC leave its ranges, or ends that.
    Drain(&'a ClusterLtc, bool),
}

/// Changes a running cluster.
pub(super) fn change(context: &Context, change: &Change<'_>) -> Outcome {
    #[cfg(feature = "cluster")]
    return change::run(context, change);
    #[cfg(not(feature = "cluster"))]
    {
        let _ = change;
        without_cluster(context)
    }
}

/// Runs a coordinator until a signal.
pub(super) fn coordinator(context: &Context) -> Outcome {
    #[cfg(feature = "cluster")]
    return coordinator::run(context);
    #[cfg(not(feature = "cluster"))]
    return without_cluster(context);
}

/// Makes certificates.
pub(super) fn certs(context: &Context, arguments: &ClusterCerts) -> Outcome {
    #[cfg(feature = "cluster")]
    return certs::run(context, arguments);
    #[cfg(not(feature = "cluster"))]
    {
        let _ = arguments;
        without_cluster(context)
    }
}

/// Shows the processes of a cluster.
pub(super) fn status(context: &Context) -> Outcome {
    #[cfg(feature = "cluster")]
    return status::run(context);
    #[cfg(not(feature = "cluster"))]
    return without_cluster(context);
}

/// Refuses a command of this file. Its settings are checked nevertheless.
#[cfg(not(feature = "cluster"))]
fn without_cluster(context: &Context) -> Outcome {
    use crate::failure::{Failure, Kind};
    context.settings.member("stoc").map_err(Failure::usage)?;
    Err(Failure::new(
        Kind::Error,
        "this program was built without the processes of a cluster: `cargo build --release -p \
         thermocline-cli --features cluster` builds them, and needs a C compiler",
    ))
}
