//! An application that depends on `thermocline` and on none of its parts.
//!
//! It compiles only if `thermocline` exports each type that a public signature has, so that a user
//! can write down the type of a variable, a field or a parameter.

use std::sync::Arc;

use thermocline::error::{Device as DeviceError, Engine as EngineError, Journal as JournalError};
use thermocline::{
    BackgroundError, Db, Device, EngineStats, Error, ErrorKind, IoCounts, JournalStats, Keyspace,
    Options, Registry, Stats,
};

/// Figures of a database and of one keyspace, by their types.
#[derive(Debug)]
pub struct Figures {
    /// Of the database.
    pub database: Stats,
    /// Of the keyspace's engine.
    pub engine: EngineStats,
    /// Of the journal.
    pub journal: JournalStats,
    /// Of the device.
    pub io: IoCounts,
    /// Background errors, with their keyspaces.
    pub background_errors: Vec<(String, BackgroundError)>,
}

/// Returns the figures of `db` and `keyspace`.
///
/// # Errors
/// Those of [`Keyspace::stats`].
pub fn figures(db: &Db, keyspace: &Keyspace) -> thermocline::Result<Figures> {
    let database = db.stats();
    let (io, journal, background_errors) = (database.io, database.journal, db.background_errors());
    Ok(Figures { engine: keyspace.stats()?, io, journal, background_errors, database })
}

/// Opens a database on a device of the caller's.
///
/// # Errors
/// Those of [`Db::open_on`].
pub fn open_on(device: Arc<dyn Device>, options: Options) -> thermocline::Result<Db> {
    Db::open_on(device, "embedded", options)
}

/// Returns the registry of the database's counters.
pub fn registry(db: &Db) -> &Registry {
    db.telemetry()
}

/// The decision of a caller about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the call again.
    TryAgain,
    /// Make room or free memory, then run the call again.
    FreeRoom,
    /// Mend the call.
    MendTheCall,
    /// Wait again until the write, which is applied, is durable.
    Wait,
    /// Restore the data from a copy.
    Restore,
    /// Open the database again, or replace the device.
    OpenAgain,
}

/// Returns the decision about an error, by its kind alone.
pub fn action(error: &Error) -> Action {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::InUse | ErrorKind::Unavailable => Action::TryAgain,
        ErrorKind::NoSpace | ErrorKind::OutOfMemory => Action::FreeRoom,
        ErrorKind::NotYetDurable => Action::Wait,
        ErrorKind::Corruption => Action::Restore,
        ErrorKind::ReadOnly | ErrorKind::Io | ErrorKind::Closed => Action::OpenAgain,
        _ => Action::MendTheCall,
    }
}

/// Returns the name of the file of which a failure of the storage speaks.
pub fn file_of(error: &Error) -> Option<&str> {
    match error {
        Error::Engine(
            EngineError::Device(DeviceError::NoSpace { name } | DeviceError::Io { name, .. })
            | EngineError::NoRoomForJournal { cause: DeviceError::NoSpace { name } },
        )
        | Error::Journal(
            JournalError::NoRoom { cause: DeviceError::NoSpace { name } }
            | JournalError::Stopped { cause: DeviceError::Io { name, .. } },
        )
        | Error::NotYetDurable { cause: DeviceError::NoSpace { name }, .. } => Some(name),
        _ => error.corruption().map(|corruption| corruption.file.as_str()),
    }
}

#[cfg(test)]
mod tests;
