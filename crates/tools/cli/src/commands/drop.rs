//! `thermocline drop`: drops a keyspace and everything in it, also one that is damaged.

use serde_json::json;

use super::Context;
use crate::arguments::DropKeyspace;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(context: &Context, arguments: &DropKeyspace) -> Outcome {
    let dir = &arguments.database.dir;
    context.with_database(dir, false, |db| Ok(db.drop_keyspace(&arguments.keyspace)?))?;
    if context.shared.json {
        output::json_line(&json!({ "dropped": arguments.keyspace }))?;
    }
    Ok(())
}
