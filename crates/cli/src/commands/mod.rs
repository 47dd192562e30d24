//! One file a command, and what they share: the settings in force and how to open a database.

mod check;
mod completions;
mod del;
mod dump;
mod get;
mod load;
mod print_config;
mod put;
mod scan;
mod stats;

use std::path::Path;

use thermocline::{Db, Keyspace};

use crate::arguments::{Arguments, Command, Place, Shared};
use crate::config::{Effective, Flags, Scope};
use crate::failure::{Failure, Kind, Outcome};

/// What a command runs with.
struct Context {
    shared: Shared,
    settings: Effective,
}

/// Gathers the settings and runs the command.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let Arguments { shared, command } = arguments;
    let (scope, flags) = flags_of(&command);
    let settings =
        Effective::gather(shared.config.as_deref(), variables(), flags).map_err(Failure::usage)?;
    let context = Context { shared, settings };
    if context.shared.print_config {
        return print_config::run(&context, scope);
    }
    match &command {
        Command::Get(arguments) => get::run(&context, arguments),
        Command::Put(arguments) => put::run(&context, arguments),
        Command::Del(arguments) => del::run(&context, arguments),
        Command::Scan(arguments) => scan::run(&context, arguments),
        Command::Stats(arguments) => stats::run(&context, arguments),
        Command::Check(arguments) => check::run(&context, arguments),
        Command::Dump(arguments) => dump::run(&context, arguments),
        Command::Load(arguments) => load::run(&context, arguments),
        Command::Completions(arguments) => completions::run(arguments),
    }
}

fn flags_of(command: &Command) -> (Scope, &Flags) {
    static NONE: Flags = Vec::new();
    let flags = match command {
        Command::Get(arguments) => &arguments.database.settings.0,
        Command::Put(arguments) => &arguments.database.settings.0,
        Command::Del(arguments) => &arguments.database.settings.0,
        Command::Scan(arguments) => &arguments.database.settings.0,
        Command::Stats(arguments) => &arguments.database.settings.0,
        Command::Dump(arguments) => &arguments.database.settings.0,
        Command::Load(arguments) => &arguments.database.settings.0,
        Command::Check(_) | Command::Completions(_) => &NONE,
    };
    (Scope::Store, flags)
}

/// The environment; a variable that is not UTF-8 is none of ours.
fn variables() -> impl Iterator<Item = (String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text)
}

impl Context {
    /// Opens the database in `dir`, which is made if `create` says so.
    fn open(&self, dir: &Path, create: bool) -> Result<Db, Failure> {
        let mut options = self.settings.database().map_err(Failure::usage)?;
        options.create_if_missing = create;
        Ok(Db::open(dir, options)?)
    }

    /// Runs `work` on the database and closes it; the first failure counts.
    fn with_database<T>(
        &self,
        dir: &Path,
        create: bool,
        work: impl FnOnce(&Db) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let db = self.open(dir, create)?;
        let answer = work(&db);
        let closed = db.close();
        let answer = answer?;
        closed?;
        Ok(answer)
    }
}

impl Place {
    /// The keyspace, which must be there.
    fn existing(&self, db: &Db) -> Result<Keyspace, Failure> {
        Ok(db.existing_keyspace(&self.keyspace)?)
    }

    /// The bytes of an argument.
    fn bytes(&self, what: &str, text: &str) -> Result<Vec<u8>, Failure> {
        self.encoding.parse(text).map_err(|why| Failure::usage(format_args!("{what}: {why}")))
    }
}

/// The failure for keys that are not there.
fn not_found(what: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::NotFound, what)
}
