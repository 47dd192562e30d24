//! The failures of commands, by exit code.

use std::fmt::Display;
use std::path::Path;

/// The exit codes, as `--help` lists them. 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything that is none of the others.
    Error = 1,
    /// Arguments or configuration that are not allowed; also clap's own code.
    Usage = 2,
    /// Stored bytes are damaged.
    Damaged = 3,
    /// The requested key, keyspace or database is not there.
    NotFound = 4,
    /// Another process has the database open.
    InUse = 5,
    /// A newer version wrote a file; nothing is damaged.
    NewerVersion = 6,
}

/// A command's failure: one line for a person, and the code for a script.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

/// The result of a command.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// An operating-system error on something that is no database: a dump, standard output.
    pub(crate) fn io(what: impl Display, error: &std::io::Error) -> Self {
        Self::new(Kind::Error, format_args!("{what}: {error}"))
    }

    /// Returns the failure of opening the database in `dir`. The system names a file by its place
    /// in the database, so this says which database.
    pub(crate) fn opening(dir: &Path, error: thermocline::Error) -> Self {
        let way_out = match error.is_no_space() {
            true => {
                "; nothing is lost: it opens once there is room, and until then `thermocline get`, \
                 `scan`, `stats` and `dump` read it, and `salvage` writes a new one elsewhere"
            }
            false => "",
        };
        let failure = Self::from(error);
        match failure.kind {
            // A command that needs an existing database has failed before.
            Kind::Error if failure.message == format!("{} does not exist", dir.display()) => {
                let dir = dir.display();
                Self::new(Kind::Error, format_args!("database {dir}: it cannot be made there"))
            }
            Kind::Error => Self::new(
                Kind::Error,
                format_args!("database {}: {}{way_out}", dir.display(), failure.message),
            ),
            _ => failure,
        }
    }

    /// A database that does not fit its memory; `whole` bytes would do.
    pub(crate) fn memory(error: &thermocline::Error, whole: u64) -> Self {
        let mib = whole.div_ceil(1 << 20);
        Self::usage(format_args!("{error}; --memory {mib}mb would do"))
    }

    /// A server that did not start, or did not end well.
    pub(crate) fn server(error: server::Error) -> Self {
        use server::Error as Refused;
        let kind = match &error {
            Refused::NoPassword { .. } | Refused::EmptyPassword | Refused::Threads { .. } => {
                Kind::Usage
            }
            _ => Kind::Error,
        };
        Self::new(kind, error)
    }
}

impl From<thermocline::Error> for Failure {
    fn from(error: thermocline::Error) -> Self {
        use thermocline::Error as Db;
        if let Db::MemoryTooSmall { needed, .. } = error {
            return Self::memory(&error, needed);
        }
        let kind = match &error {
            Db::NotADatabase { .. }
            | Db::NotADirectory { .. }
            | Db::NoKeyspace { .. }
            | Db::NoBackup { .. } => Kind::NotFound,
            Db::InUse { .. } => Kind::InUse,
            Db::NewerVersion(_) => Kind::NewerVersion,
            Db::UnknownEngine { .. }
            | Db::BadKeyspaceName { .. }
            | Db::KeyspaceExists { .. }
            | Db::NotExpiring { .. }
            | Db::NotStored(_)
            | Db::NotEmpty { .. }
            | Db::NotBackups { .. }
            | Db::AmongBackups { .. }
            | Db::OtherDatabase { .. } => Kind::Usage,
            other if other.corruption().is_some() => Kind::Damaged,
            _ => Kind::Error,
        };
        Self::new(kind, error)
    }
}
