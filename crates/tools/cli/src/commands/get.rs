//! `thermocline get`: the value of one key.

use serde_json::json;

use super::{Context, not_found};
use crate::arguments::Get;
use crate::failure::{Failure, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Get) -> Outcome {
    let place = &arguments.place;
    if arguments.raw && context.shared.json {
        return Err(Failure::usage("--raw and --json exclude each other"));
    }
    let key = place.bytes("KEY", &arguments.key)?;
    let (stored, form) = context.reading(&arguments.database.dir, |db| {
        let (keyspace, form) = place.existing(db)?;
        Ok((keyspace.get(&key)?, form))
    })?;
    let shown = match &stored {
        Some(stored) => form.show(stored).map_err(|why| place.unreadable(&key, &why))?,
        None => None,
    };
    let Some(shown) = shown else {
        let key = place.encoding.show(&key);
        return Err(not_found(format_args!("keyspace {:?} has no key \"{key}\"", place.keyspace)));
    };
    if arguments.raw {
        return output::bytes(shown.bytes);
    }
    let value = place.encoding.show(shown.bytes);
    if !context.shared.json {
        return output::line(&value);
    }
    let mut pair = json!({ "key": place.encoding.show(&key), "value": value });
    if let Some(expires_ms) = shown.expires_ms {
        pair["expires_ms"] = expires_ms.into();
    }
    output::json_line(&pair)
}
