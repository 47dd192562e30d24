//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::byte_string::Encoding;
use crate::commands::{ClusterCommand, FlexspaceCommand};
use crate::config::{LoadFlags, LtcFlags, MemberFlags, ServerFlags, StocFlags, StoreFlags};

const AFTER_HELP: &str = "\
Settings are taken from a TOML file (--config or THERMOCLINE_CONFIG), then from variables
THERMOCLINE_MEMORY and so on, then from flags; later ones win, unknown ones are errors.

Exit codes: 0 success, 1 error, 2 usage or configuration, 3 damaged data,
4 not found (key, keyspace, database), 5 the database is open in another process,
6 a newer version wrote the data.";

/// A key-value store for data larger than memory.
#[derive(Debug, Parser)]
#[command(name = "thermocline", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Returns the shared arguments before the command and after it; the ones after it win.
    pub(crate) fn shared(&self) -> Shared {
        let before = self.shared.clone();
        let Some(behind) = self.command.shared() else { return before };
        Shared {
            config: behind.config.clone().or(before.config),
            json: behind.json || before.json,
            print_config: behind.print_config || before.print_config,
            quiet: behind.quiet || before.quiet,
        }
    }

    /// Whether results and failures are to be JSON.
    pub(crate) fn wants_json(&self) -> bool {
        self.shared().json
    }
}

/// The arguments that every command takes, before its name or behind it, except `bench` and `tune`,
/// whose command lines are contracts of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct Shared {
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// Print results, and failures, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the settings in force and where each came from, and do nothing else
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Show no progress, and no summary; `serve` then does not say where it listens, unless as JSON
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A command's own arguments together with the shared ones.
#[derive(Debug, Args)]
pub(crate) struct With<T: Args> {
    #[command(flatten)]
    pub(crate) own: T,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a database to Redis clients
    Serve(With<Serve>),
    /// Run a cluster, and show it
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Run a StoC: a process of a cluster that stores files
    Stoc(With<StocProcess>),
    /// Run an LTC of a cluster, which serves ranges
    Ltc(With<LtcProcess>),
    /// Run a coordinator: the process of a cluster that keeps its records
    Coordinator(With<Component>),
    /// Measure stores: workloads, verification, reports
    #[command(subcommand)]
    Bench(bench::cli::BenchCommand),
    /// Measure from which size of pairs on `hashkv` should keep values apart from the index
    Tune(Box<bench::cli::TuneArgs>),
    /// Print the value of a key
    Get(With<Get>),
    /// Set the value of a key
    Put(With<Put>),
    /// Delete keys
    Del(With<Del>),
    /// Print pairs in key order, or in the engine's own order if it keeps none
    Scan(With<Scan>),
    /// Print figures of a database and its keyspaces
    Stats(With<Stats>),
    /// Write all that is in memory to the keyspaces' own files, and trim the journal
    Flush(With<Flush>),
    /// Rewrite files so that nothing deleted or overwritten takes space in them
    Compact(With<Compact>),
    /// Verify every byte of a database that is not open, or of backups; changes nothing
    Check(With<Check>),
    /// Make a new database of the sound parts of a damaged one, which is not changed
    Salvage(With<Salvage>),
    /// Drop a keyspace and everything in it, also one that is damaged
    Drop(With<DropKeyspace>),
    /// Add a backup of a database that is not open to a directory of backups
    Backup(With<Backup>),
    /// Make a new database from a backup, and verify it
    Restore(With<Restore>),
    /// Write all pairs to one portable stream
    Dump(With<Dump>),
    /// Make a new database from a dump
    Load(With<Load>),
    /// A file into whose middle bytes can be put, and out of which they can be taken
    #[command(subcommand)]
    Flexspace(FlexspaceCommand),
    /// Print the completion script of a shell
    Completions(With<Completions>),
}

/// A StoC.
#[derive(Debug, Args)]
pub(crate) struct StocProcess {
    /// Start with an empty directory although the StoC had another one: its files are lost here,
    /// and the other StoCs have copies of them
    #[arg(long)]
    pub(crate) start_empty: bool,
    #[command(flatten)]
    pub(crate) settings: StocFlags,
}

/// An LTC.
#[derive(Debug, Args)]
pub(crate) struct LtcProcess {
    #[command(flatten)]
    pub(crate) settings: LtcFlags,
}

/// A process of a cluster.
#[derive(Debug, Args)]
pub(crate) struct Component {
    #[command(flatten)]
    pub(crate) settings: MemberFlags,
}

/// A database, and how it is opened.
#[derive(Debug, Args)]
pub(crate) struct Database {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) settings: StoreFlags,
}

/// Which keyspace, and how keys and values are written.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The keyspace
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    pub(crate) keyspace: String,
    /// Form of keys and values in arguments and in the output
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) encoding: Encoding,
    /// Use raw values: the stored form, which includes the expiry, also of expired values. This is
    /// for keyspaces of expiring values, such as redis-0 to redis-15, which `serve` keeps for Redis
    /// clients
    #[arg(long)]
    pub(crate) raw_values: bool,
}

/// Which keys.
#[derive(Debug, Args)]
pub(crate) struct Span {
    /// First key, itself included
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    pub(crate) start: Option<String>,
    /// Last key, itself excluded
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    pub(crate) end: Option<String>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY")]
    pub(crate) prefix: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) database: Database,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Print the bytes of the value and nothing else, without an encoding
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Put {
    #[command(flatten)]
    pub(crate) database: Database,
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// The value; - takes the bytes of standard input (a dash alone is \x2d)
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Time until the value expires, like 500ms, 30s or 2h. A keyspace that is made for it has
    /// expiring values; one that exists must have them
    #[arg(long, value_name = "TIME", value_parser = crate::config::duration)]
    #[arg(conflicts_with = "raw_values")]
    pub(crate) ttl: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Del {
    #[command(flatten)]
    pub(crate) database: Database,
    /// The keys; they go in one write, all or none
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) database: Database,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) span: Span,
    /// From the largest key down
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Stop after this many pairs
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    /// Print keys alone
    #[arg(long)]
    pub(crate) keys_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) database: Database,
    /// This keyspace alone
    #[arg(long, short, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The database's directory, or one of backups
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Salvage {
    #[command(flatten)]
    pub(crate) database: Database,
    /// Directory of the new database, which must be empty if it is there
    #[arg(value_name = "INTO")]
    pub(crate) into: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DropKeyspace {
    #[command(flatten)]
    pub(crate) database: Database,
    /// The keyspace
    #[arg(value_name = "NAME")]
    pub(crate) keyspace: String,
}

#[derive(Debug, Args)]
pub(crate) struct Flush {
    #[command(flatten)]
    pub(crate) database: Database,
    /// This keyspace alone
    #[arg(long, short, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    pub(crate) database: Database,
    /// This keyspace alone; a range of keys needs it
    #[arg(long, short, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
    /// How keys are written in arguments
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) encoding: Encoding,
    #[command(flatten)]
    pub(crate) span: Span,
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    pub(crate) database: Database,
    /// The directory of backups, made if it is not there; each database wants one of its own
    #[arg(value_name = "BACKUPS")]
    pub(crate) backups: PathBuf,
    /// Then remove all but the newest ones
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The new database's directory, which must be empty if it is there
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The directory of backups
    #[arg(value_name = "BACKUPS")]
    pub(crate) backups: PathBuf,
    /// Which backup; the newest unless given
    #[arg(long, value_name = "NUMBER")]
    pub(crate) backup: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) database: Database,
    /// The file to write; standard output unless given. A file that exists is not overwritten
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Only these keyspaces
    #[arg(long, short, value_name = "NAME")]
    pub(crate) keyspace: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The new database's directory, which must be empty if it is there
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) settings: LoadFlags,
    /// The dump; standard input unless given
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The database's directory; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "./data")]
    pub(crate) dir: PathBuf,
    /// Serve a cluster in the place of a directory: the addresses of its coordinators, with commas
    /// between them
    #[arg(long, value_name = "HOST:PORT,...", conflicts_with = "dir")]
    pub(crate) cluster: Option<String>,
    /// With --cluster: directory of ca.pem, and of client-NODE.pem or client.pem with its key
    #[arg(long, value_name = "DIR", default_value = "./certs")]
    pub(crate) certificates: PathBuf,
    /// With --cluster: number of this process among the clients
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) node: u32,
    /// If the port is taken, use the next one that is free, and print it
    #[arg(long)]
    pub(crate) next_free_port: bool,
    /// Say how to connect and what to try
    #[arg(long)]
    pub(crate) hints: bool,
    #[command(flatten)]
    pub(crate) settings: ServerFlags,
}
