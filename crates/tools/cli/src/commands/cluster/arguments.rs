//! The arguments of `thermocline cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{Component, Shared, With};
use crate::config::{Flags, Scope, ServerFlags};

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Run a whole cluster in one process, for development: it serves Redis clients
    Dev(With<ClusterDev>),
    /// Make the certificates of a cluster
    Certs(With<ClusterCerts>),
    /// Show the processes of a cluster; with the certificate of the role admin
    Status(With<Component>),
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

#[derive(Debug, Args)]
pub(crate) struct ClusterCerts {
    /// The directory. An authority is made if it has none. Certificates take the place of earlier
    /// ones
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Make a certificate of this role alone
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) role: Option<RoleName>,
    /// Make it for the process of this number alone
    #[arg(long, value_name = "NUMBER", requires = "role", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) node: Option<u32>,
}

/// The roles of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    Coordinator,
    Ltc,
    Stoc,
    Client,
    Admin,
}

impl ClusterCommand {
    /// Returns the arguments that the command shares with the others.
    pub(crate) fn shared(&self) -> &Shared {
        match self {
            Self::Dev(with) => &with.shared,
            Self::Certs(with) => &with.shared,
            Self::Status(with) => &with.shared,
        }
    }

    /// Returns which settings it reads, and the ones given as flags.
    pub(crate) fn settings(&self) -> (Scope, &Flags) {
        static NONE: Flags = Vec::new();
        match self {
            Self::Dev(with) => (Scope::Server, &with.own.settings.0),
            Self::Certs(_) => (Scope::Member, &NONE),
            Self::Status(with) => (Scope::Member, &with.own.settings.0),
        }
    }
}
