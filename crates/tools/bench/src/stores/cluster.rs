//! The cluster that a run of the engine `nova` is on, as the command line names it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::{StoreError, WordError, nova};
use crate::run::Config;

/// The name of the engine.
pub(super) const NOVA: &str = "nova";
/// The word for a cluster in this process.
const DEV: &str = "dev";

/// The place of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterPlace {
    /// In this process, and in the directory of the run.
    Dev,
    /// In other processes: the addresses of its coordinators, with commas between them.
    Running(String),
}

/// A cluster, and how this process takes part in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Its place.
    pub place: ClusterPlace,
    /// The directory of certificates; of a running cluster alone.
    pub certificates: PathBuf,
    /// The number of this process among the clients; of a running cluster alone.
    pub node: u32,
}

impl ClusterSettings {
    /// Whether the cluster is in other processes.
    pub fn is_elsewhere(&self) -> bool {
        self.place != ClusterPlace::Dev
    }
}

impl FromStr for ClusterPlace {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text {
            "" => Err(WordError::new(text, "the addresses of coordinators, or dev")),
            DEV => Ok(Self::Dev),
            places => Ok(Self::Running(places.to_owned())),
        }
    }
}

impl fmt::Display for ClusterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dev => DEV,
            Self::Running(places) => places,
        })
    }
}

/// Returns whether a store by this name is on a cluster.
pub(super) fn is_on_cluster(name: &str) -> bool {
    name.split(':').next() == Some(NOVA)
}

/// Refuses a run that has a cluster and another engine, or the engine and no cluster, or that the
/// cluster has no means for.
pub(crate) fn check_cluster(config: &Config) -> Result<(), StoreError> {
    match (is_on_cluster(&config.engine), &config.cluster) {
        (false, None) => Ok(()),
        (false, Some(_)) => Err(format!("--cluster: only the engine {NOVA} is on one").into()),
        (true, None) => Err(format!(
            "the engine {NOVA} needs --cluster: the addresses of the coordinators of a running \
             one, or {DEV} for one in this process"
        )
        .into()),
        (true, Some(cluster)) => nova::check(config, cluster),
    }
}
