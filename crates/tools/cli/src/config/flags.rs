//! The settings table as command-line flags.
//!
//! The flags are made from the table instead of being written a second time as fields, so that a
//! setting cannot exist in a file and not as a flag, or with another default.

use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::engines;
use super::layers::Flags;
use super::settings::{SETTINGS, Scope};

/// Flags of every command that opens a database.
#[derive(Debug, Default)]
pub(crate) struct StoreFlags(pub(crate) Flags);

/// Flags of `serve`: those of the store, and its own.
#[derive(Debug, Default)]
pub(crate) struct ServerFlags(pub(crate) Flags);

/// Flags of the processes of a cluster.
#[derive(Debug, Default)]
pub(crate) struct MemberFlags(pub(crate) Flags);

/// Flags of a StoC: those of a process of a cluster, and its own.
#[derive(Debug, Default)]
pub(crate) struct StocFlags(pub(crate) Flags);

/// Flags of an LTC: those of a process of a cluster, of the store, and its own.
#[derive(Debug, Default)]
pub(crate) struct LtcFlags(pub(crate) Flags);

/// Flags of `load`: those of the store, but that the dump has an engine of its own.
#[derive(Debug, Default)]
pub(crate) struct LoadFlags(pub(crate) Flags);

const LOAD_ENGINE_HELP: &str = "Engine of all keyspaces: {engines} [default: each as in the dump]";

/// Adds the settings of some scopes under one heading.
fn augment(command: Command, scopes: &[Scope], heading: &'static str) -> Command {
    let settings = SETTINGS.iter().filter(|setting| scopes.contains(&setting.scope));
    settings.fold(command, |command, setting| {
        let arg = Arg::new(setting.key)
            .long(setting.key)
            .value_name(setting.placeholder)
            .help(setting.full_help())
            .help_heading(heading);
        command.arg(arg)
    })
}

fn of_store(command: Command) -> Command {
    augment(command, &[Scope::Store], "Settings of the database")
}

fn of_server(command: Command) -> Command {
    augment(command, &[Scope::Server, Scope::Process], "Settings of the server")
}

const OF_MEMBERS: &str = "Settings of a process of a cluster";

fn of_member(command: Command) -> Command {
    augment(command, &[Scope::Member, Scope::Process], OF_MEMBERS)
}

/// Adds the settings of one kind of process.
fn of_own(command: Command, scope: Scope) -> Command {
    augment(command, &[scope], OF_MEMBERS)
}

fn given(matches: &ArgMatches, scope: Scope) -> Flags {
    let settings = SETTINGS.iter().filter(|setting| scope.includes(setting.scope));
    let text = |key: &'static str| Some((key, matches.get_one::<String>(key)?.clone()));
    settings.filter_map(|setting| text(setting.key)).collect()
}

impl Args for StoreFlags {
    fn augment_args(command: Command) -> Command {
        of_store(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StoreFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, Scope::Store)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServerFlags {
    fn augment_args(command: Command) -> Command {
        of_store(of_server(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, Scope::Server)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for MemberFlags {
    fn augment_args(command: Command) -> Command {
        of_member(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for MemberFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, Scope::Member)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for StocFlags {
    fn augment_args(command: Command) -> Command {
        of_own(of_member(command), Scope::Stoc)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StocFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, Scope::Stoc)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LtcFlags {
    fn augment_args(command: Command) -> Command {
        of_store(of_own(of_member(command), Scope::Ltc))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LtcFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, Scope::Ltc)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LoadFlags {
    fn augment_args(command: Command) -> Command {
        let command = StoreFlags::augment_args(command);
        command.mut_arg("engine", |arg| arg.help(engines::filled(LOAD_ENGINE_HELP)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LoadFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, Scope::Store)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
