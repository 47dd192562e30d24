//! The arguments of `thermocline cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::{Shared, With};
use crate::config::ServerFlags;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Run a whole cluster in one process, for development: it serves Redis clients
    Dev(With<ClusterDev>),
}

#[derive(Debug, Args)]
pub(crate) struct ClusterDev {
    /// The cluster's directory; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "./cluster")]
    pub(crate) data: PathBuf,
    /// If the port is taken, use the next one that is free, and print it
    #[arg(long)]
    pub(crate) next_free_port: bool,
    #[command(flatten)]
    pub(crate) settings: ServerFlags,
}

impl ClusterCommand {
    /// Returns the arguments that the command shares with the others.
    pub(crate) fn shared(&self) -> &Shared {
        match self {
            Self::Dev(with) => &with.shared,
        }
    }

    /// Returns the settings that are given as flags.
    pub(crate) fn settings(&self) -> &ServerFlags {
        match self {
            Self::Dev(with) => &with.own.settings,
        }
    }
}
