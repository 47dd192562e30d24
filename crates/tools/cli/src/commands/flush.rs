//! `thermocline flush`: writes memory to the keyspaces' own files, and trims the journal.

use serde_json::json;

use super::{Context, chosen};
use crate::arguments::Flush;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(context: &Context, arguments: &Flush) -> Outcome {
    let flushed = context.with_database(&arguments.database.dir, false, |db| {
        let keyspaces = chosen(db, arguments.keyspace.as_deref())?;
        for keyspace in &keyspaces {
            keyspace.flush()?;
        }
        Ok(keyspaces.iter().map(|keyspace| keyspace.name().to_owned()).collect::<Vec<_>>())
    })?;
    if context.shared.json {
        output::json_line(&json!({ "flushed": flushed }))?;
    }
    Ok(())
}
