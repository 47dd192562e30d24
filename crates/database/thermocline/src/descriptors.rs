//! How many file descriptors a database needs, and the refusal of a keyspace with which it could
//! not be opened again.

use crate::catalog::Catalog;
use crate::drivers::EngineKind;
use crate::error::{Error, Result};

/// Descriptors that a process needs besides those of keyspaces: its standard streams, the
/// directory, the lock, the journal, a queue, and files and directories that are open for a moment.
const OF_DATABASE: u64 = 32;

/// Refuses a keyspace of `engine` if the process may not have the descriptors that an opening with
/// it needs.
///
/// # Errors
/// [`Error::TooManyDescriptors`].
pub(crate) fn check_new(catalog: &Catalog, engine: EngineKind) -> Result<()> {
    let Some(limit) = device::open_files_limit() else { return Ok(()) };
    let held = catalog.keyspaces.iter().map(|entry| entry.options.engine.driver().descriptors);
    let needed = OF_DATABASE + held.sum::<u64>() + engine.driver().descriptors;
    if engine.driver().descriptors > 0 && needed > limit {
        let keyspaces = catalog.keyspaces.len() as u64;
        return Err(Error::TooManyDescriptors { engine, keyspaces, needed, limit });
    }
    Ok(())
}
