//! One file a command, and their shared parts: the settings in force and how to open a database.

mod backup;
mod bench;
mod check;
mod cluster;
mod compact;
mod completions;
mod component;
mod del;
mod drop;
mod dump;
mod flexspace;
mod flush;
mod get;
mod in_use;
mod load;
mod print_config;
mod put;
mod restore;
mod salvage;
mod scan;
mod serve;
mod serving;
mod stats;

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::process::ExitCode;

use thermocline::{Db, KeyRange, Keyspace, MergeOperators};

pub(crate) use self::cluster::arguments::ClusterCommand;
pub(crate) use self::flexspace::arguments::FlexspaceCommand;
use crate::arguments::{Arguments, Command, Place, Shared, Span};
use crate::byte_string::Encoding;
use crate::config::{Effective, Flags, Scope};
use crate::failure::{Failure, Kind, Outcome};
use crate::value_form::ValueForm;

/// The context in which a command runs.
struct Context {
    shared: Shared,
    settings: Effective,
}

/// Gathers the settings and runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let command = &arguments.command;
    if let Command::Bench(command) = command {
        if arguments.shared() != Shared::default() {
            return Err(Failure::usage(
                "bench has options of its own, behind its command: see thermocline bench --help",
            ));
        }
        return bench::run(command);
    }
    if let Command::Tune(own) = command {
        if arguments.shared() != Shared::default() {
            return Err(Failure::usage("tune has options of its own: see thermocline tune --help"));
        }
        return bench::tune(own);
    }
    let context = Context::gather(arguments)?;
    if context.shared.print_config {
        print_config::run(&context, command.settings().0)?;
        return Ok(ExitCode::SUCCESS);
    }
    let done = match command {
        Command::Serve(with) => serve::run(&context, &with.own),
        Command::Cluster(command) => cluster::run(&context, command),
        Command::Stoc(with) => component::stoc(&context, with.own.start_empty),
        Command::Ltc(_) => component::ltc(&context),
        Command::Coordinator(_) => component::coordinator(&context),
        Command::Get(with) => get::run(&context, &with.own),
        Command::Put(with) => put::run(&context, &with.own),
        Command::Del(with) => del::run(&context, &with.own),
        Command::Scan(with) => scan::run(&context, &with.own),
        Command::Stats(with) => stats::run(&context, &with.own),
        Command::Flush(with) => flush::run(&context, &with.own),
        Command::Compact(with) => compact::run(&context, &with.own),
        Command::Check(with) => check::run(&context, &with.own),
        Command::Salvage(with) => salvage::run(&context, &with.own),
        Command::Drop(with) => drop::run(&context, &with.own),
        Command::Backup(with) => backup::run(&context, &with.own),
        Command::Restore(with) => restore::run(&context, &with.own),
        Command::Dump(with) => dump::run(&context, &with.own),
        Command::Load(with) => load::run(&context, &with.own),
        Command::Flexspace(command) => flexspace::run(&context, command),
        Command::Completions(with) => completions::run(&with.own),
        Command::Bench(_) | Command::Tune(_) => Ok(()),
    };
    done.map_err(|failure| in_use::advise(failure, command))?;
    Ok(ExitCode::SUCCESS)
}

impl Command {
    /// Returns the arguments that the command shares with the others, if it does.
    pub(crate) fn shared(&self) -> Option<&Shared> {
        match self {
            Self::Serve(with) => Some(&with.shared),
            Self::Cluster(command) => Some(command.shared()),
            Self::Stoc(with) => Some(&with.shared),
            Self::Ltc(with) => Some(&with.shared),
            Self::Coordinator(with) => Some(&with.shared),
            Self::Get(with) => Some(&with.shared),
            Self::Put(with) => Some(&with.shared),
            Self::Del(with) => Some(&with.shared),
            Self::Scan(with) => Some(&with.shared),
            Self::Stats(with) => Some(&with.shared),
            Self::Flush(with) => Some(&with.shared),
            Self::Compact(with) => Some(&with.shared),
            Self::Check(with) => Some(&with.shared),
            Self::Salvage(with) => Some(&with.shared),
            Self::Drop(with) => Some(&with.shared),
            Self::Backup(with) => Some(&with.shared),
            Self::Restore(with) => Some(&with.shared),
            Self::Dump(with) => Some(&with.shared),
            Self::Load(with) => Some(&with.shared),
            Self::Flexspace(command) => Some(command.shared()),
            Self::Completions(with) => Some(&with.shared),
            Self::Bench(_) | Self::Tune(_) => None,
        }
    }

    /// Returns which settings it reads, and the ones given as flags.
    fn settings(&self) -> (Scope, &Flags) {
        static NONE: Flags = Vec::new();
        let flags = match self {
            Self::Serve(with) => return (Scope::Server, &with.own.settings.0),
            Self::Cluster(command) => return command.settings(),
            Self::Stoc(with) => return (Scope::Stoc, &with.own.settings.0),
            Self::Ltc(with) => return (Scope::Ltc, &with.own.settings.0),
            Self::Coordinator(with) => return (Scope::Member, &with.own.settings.0),
            Self::Get(with) => &with.own.database.settings.0,
            Self::Put(with) => &with.own.database.settings.0,
            Self::Del(with) => &with.own.database.settings.0,
            Self::Scan(with) => &with.own.database.settings.0,
            Self::Stats(with) => &with.own.database.settings.0,
            Self::Flush(with) => &with.own.database.settings.0,
            Self::Compact(with) => &with.own.database.settings.0,
            Self::Salvage(with) => &with.own.database.settings.0,
            Self::Drop(with) => &with.own.database.settings.0,
            Self::Backup(with) => &with.own.database.settings.0,
            Self::Dump(with) => &with.own.database.settings.0,
            Self::Load(with) => &with.own.settings.0,
            Self::Check(_)
            | Self::Restore(_)
            | Self::Flexspace(_)
            | Self::Completions(_)
            | Self::Bench(_)
            | Self::Tune(_) => &NONE,
        };
        (Scope::Store, flags)
    }
}

/// The environment. A variable whose name is not UTF-8 is none of ours; a value that is not has
/// signs that no setting allows, so that the setting's own message names the allowed ones.
fn variables() -> impl Iterator<Item = (String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    };
    std::env::vars_os().filter_map(text)
}

impl Context {
    fn gather(arguments: &Arguments) -> Result<Self, Failure> {
        let shared = arguments.shared();
        let (_, flags) = arguments.command.settings();
        let settings = Effective::gather(shared.config.as_deref(), variables(), flags)
            .map_err(Failure::usage)?;
        Ok(Self { shared, settings })
    }

    /// Opens the database in `dir`, which is made if `create` says so.
    fn open(&self, dir: &Path, create: bool) -> Result<Db, Failure> {
        let mut options = self.settings.database().map_err(Failure::usage)?;
        options.create_if_missing = create;
        // No command merges: the dump's operator is for the program that does.
        options.merge_operators = MergeOperators::elsewhere();
        Db::open(dir, options).map_err(|error| Failure::opening(dir, error))
    }

    /// Runs `work` on the database and closes it; the first failure counts.
    fn with_database<T>(
        &self,
        dir: &Path,
        create: bool,
        work: impl FnOnce(&Db) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        closing(self.open(dir, create)?, work)
    }

    /// Runs `work`, which copies the database, and closes it. A user who cannot write to it gets
    /// the database open for reads.
    fn copying<T>(
        &self,
        dir: &Path,
        work: impl FnOnce(&Db) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut options = self.settings.database().map_err(Failure::usage)?;
        options.create_if_missing = false;
        options.merge_operators = MergeOperators::elsewhere();
        match Db::open(dir, options) {
            Ok(db) => closing(db, work),
            Err(error) if error.is_write_protected() => self.reading(dir, work),
            Err(error) => Err(Failure::opening(dir, error)),
        }
    }

    /// Does the same for work that only reads: nothing is written, also if the device is full.
    fn reading<T>(
        &self,
        dir: &Path,
        work: impl FnOnce(&Db) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let options = self.settings.database().map_err(Failure::usage)?;
        let opened = Db::open_read_only(dir, options);
        closing(opened.map_err(|error| Failure::opening(dir, error))?, work)
    }
}

fn closing<T>(db: Db, work: impl FnOnce(&Db) -> Result<T, Failure>) -> Result<T, Failure> {
    let answer = work(&db);
    let closed = db.close();
    let answer = answer?;
    closed?;
    Ok(answer)
}

/// Returns the keyspace `name`, which must be there; if it is not, the failure names the existing
/// ones.
fn existing(db: &Db, name: &str) -> Result<Keyspace, Failure> {
    db.existing_keyspace(name).map_err(|error| {
        let failure = Failure::from(error);
        if failure.kind != Kind::NotFound {
            return failure;
        }
        let names: Vec<_> = db.keyspaces().iter().map(|one| one.name().to_owned()).collect();
        let there = match names.as_slice() {
            [] => "the database has none".to_owned(),
            names => format!("there are: {} (--keyspace chooses)", names.join(", ")),
        };
        Failure::new(Kind::NotFound, format_args!("{}; {there}", failure.message))
    })
}

/// Walks over a keyspace in its engine's own order, until `visit` breaks or fails.
fn walk(
    keyspace: &Keyspace,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Failure>,
) -> Outcome {
    let mut failure = None;
    keyspace.walk(None, |key, value| {
        visit(key, value).unwrap_or_else(|why| {
            failure = Some(why);
            ControlFlow::Break(())
        })
    })?;
    failure.map_or(Ok(()), Err)
}

impl Place {
    /// Returns the keyspace, which must be there, by a handle that shows values in their stored
    /// form, and the form that a user sees.
    fn existing(&self, db: &Db) -> Result<(Keyspace, ValueForm), Failure> {
        let keyspace = existing(db, &self.keyspace)?;
        let form = match keyspace.options().expiring && !self.raw_values {
            true => ValueForm::Ending { now_ms: db.now_ms() },
            false => ValueForm::Stored,
        };
        Ok((keyspace.expiring().raw(), form))
    }

    /// The failure for a value of `key` that is damaged.
    fn unreadable(&self, key: &[u8], why: &str) -> Failure {
        let key = self.encoding.show(key);
        let message = format!(
            "the value of \"{key}\" in keyspace {:?} is damaged: {why}; \
             --raw-values shows it as it is, put replaces it",
            self.keyspace
        );
        Failure::new(Kind::Damaged, message)
    }

    /// The bytes of an argument.
    fn bytes(&self, what: &str, text: &str) -> Result<Vec<u8>, Failure> {
        bytes(self.encoding, what, text)
    }
}

fn bytes(encoding: Encoding, what: &str, text: &str) -> Result<Vec<u8>, Failure> {
    encoding.parse(text).map_err(|why| Failure::usage(format_args!("{what}: {why}")))
}

impl Span {
    /// The range of keys, whose ends are written in `encoding`.
    fn range(&self, encoding: Encoding) -> Result<KeyRange, Failure> {
        if let Some(prefix) = &self.prefix {
            return Ok(KeyRange::prefix(&bytes(encoding, "--prefix", prefix)?));
        }
        let start = match &self.start {
            Some(key) => Bound::Included(bytes(encoding, "--start", key)?),
            None => Bound::Unbounded,
        };
        let end = match &self.end {
            Some(key) => Bound::Excluded(bytes(encoding, "--end", key)?),
            None => Bound::Unbounded,
        };
        Ok(KeyRange { start, end })
    }
}

/// The keyspaces that a command works on: one by its name, or all that are not damaged.
fn chosen(db: &Db, name: Option<&str>) -> Result<Vec<Keyspace>, Failure> {
    match name {
        Some(name) => Ok(vec![existing(db, name)?]),
        None => Ok(db.keyspaces().into_iter().filter(|one| one.stats().is_ok()).collect()),
    }
}

/// The failure for keys that are not there.
fn not_found(what: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::NotFound, what)
}
