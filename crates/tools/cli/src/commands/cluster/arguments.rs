//! The arguments of `thermocline cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{Component, Shared, With};
use crate::config::{Flags, MemberFlags, Scope, ServerFlags};

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Run a whole cluster in one process, for development: it serves Redis clients
    Dev(With<ClusterDev>),
    /// Make the certificates of a cluster
    Certs(With<ClusterCerts>),
    /// Show the processes of a cluster; with the certificate of the role admin
    Status(With<Component>),
    /// Make a keyspace; with the certificate of the role admin
    Keyspace(With<ClusterKeyspace>),
    /// Drop a keyspace and everything in it; with the certificate of the role admin
    Drop(With<ClusterDrop>),
    /// Move a range to another LTC, or cancel its move; with the certificate of the role admin
    Move(With<ClusterMove>),
    /// Open a range without its write log, whose replicas are lost; with the certificate of the
    /// role admin
    AcceptLoss(With<ClusterAcceptLoss>),
    /// Have an LTC leave its ranges, and get no others; with the certificate of the role admin
    Drain(With<ClusterLtc>),
    /// Have a drained LTC get ranges again; with the certificate of the role admin
    Undrain(With<ClusterLtc>),
}

#[derive(Debug, Args)]
pub(crate) struct ClusterKeyspace {
    /// Its name; redis-0 to redis-15 are the numbered databases of `serve --cluster`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The first key of another range of it, in ascending order; may be given several times
    #[arg(long, value_name = "KEY")]
    pub(crate) split_at: Vec<String>,
    /// How the write logs of its ranges are kept, and so when a write is acknowledged
    #[arg(long, value_enum, value_name = "MODE", default_value_t = LogName::Durable)]
    pub(crate) log: LogName,
    #[command(flatten)]
    pub(crate) settings: MemberFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterDrop {
    /// The keyspace
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The name again, since all data of the keyspace is lost
    #[arg(long, value_name = "NAME")]
    pub(crate) confirm: String,
    #[command(flatten)]
    pub(crate) settings: MemberFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterMove {
    /// The number of the range (thermocline cluster status)
    #[arg(value_name = "RANGE")]
    pub(crate) range: u32,
    /// The number of the LTC that is to get it
    #[arg(long, value_name = "NUMBER", required_unless_present = "cancel")]
    pub(crate) to: Option<u32>,
    /// Cancel the move of the range, if its owner has not begun to close it
    #[arg(long, conflicts_with = "to")]
    pub(crate) cancel: bool,
    #[command(flatten)]
    pub(crate) settings: MemberFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterAcceptLoss {
    /// The number of the range (thermocline cluster status)
    #[arg(value_name = "RANGE")]
    pub(crate) range: u32,
    /// The number again, since writes that are in no table of the range are lost
    #[arg(long, value_name = "RANGE")]
    pub(crate) confirm: u32,
    #[command(flatten)]
    pub(crate) settings: MemberFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterLtc {
    /// The number of the LTC
    #[arg(value_name = "NUMBER")]
    pub(crate) number: u32,
    #[command(flatten)]
    pub(crate) settings: MemberFlags,
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

/// The modes of write logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogName {
    /// Two of three StoCs have synced a write before it is acknowledged
    Durable,
    /// Two of three StoCs have a write in memory; it survives the loss of one StoC at a time, and
    /// no power cut of several
    Memory,
    /// Only the LTC has a write in memory; for experiments
    None,
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
            Self::Keyspace(with) => &with.shared,
            Self::Drop(with) => &with.shared,
            Self::Move(with) => &with.shared,
            Self::AcceptLoss(with) => &with.shared,
            Self::Drain(with) | Self::Undrain(with) => &with.shared,
        }
    }

    /// Returns which settings it reads, and the ones given as flags.
    pub(crate) fn settings(&self) -> (Scope, &Flags) {
        static NONE: Flags = Vec::new();
        match self {
            Self::Dev(with) => (Scope::Server, &with.own.settings.0),
            Self::Certs(_) => (Scope::Member, &NONE),
            Self::Status(with) => (Scope::Member, &with.own.settings.0),
            Self::Keyspace(with) => (Scope::Member, &with.own.settings.0),
            Self::Drop(with) => (Scope::Member, &with.own.settings.0),
            Self::Move(with) => (Scope::Member, &with.own.settings.0),
            Self::AcceptLoss(with) => (Scope::Member, &with.own.settings.0),
            Self::Drain(with) | Self::Undrain(with) => (Scope::Member, &with.own.settings.0),
        }
    }
}
