//! `thermocline get`: the value of one key.

use serde_json::json;

use super::{Context, not_found};
use crate::arguments::Get;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(context: &Context, arguments: &Get) -> Outcome {
    let place = &arguments.place;
    let key = place.bytes("KEY", &arguments.key)?;
    let value = context
        .with_database(&arguments.database.dir, false, |db| Ok(place.existing(db)?.get(&key)?))?;
    let Some(value) = value else {
        let shown = place.encoding.show(&key);
        return Err(not_found(format_args!(
            "keyspace {:?} has no key \"{shown}\"",
            place.keyspace
        )));
    };
    if arguments.raw {
        return output::bytes(&value);
    }
    let shown = place.encoding.show(&value);
    if context.shared.json {
        return output::json_line(&json!({ "key": place.encoding.show(&key), "value": shown }));
    }
    output::line(&shown)
}
