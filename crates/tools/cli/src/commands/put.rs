//! `thermocline put`: sets one key; makes the database and the keyspace if they are not there.
//!
//! In a keyspace of the server's it does the same as a client's SET. Such a keyspace, and one whose
//! first value is to expire, is made with values that expire.

use std::io::Read;

use serde_json::json;
use thermocline::{Error, Expiring, KeyspaceOptions};

use super::Context;
use crate::arguments::Put;
use crate::failure::{Failure, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Put) -> Outcome {
    let place = &arguments.place;
    let key = place.bytes("KEY", &arguments.key)?;
    let value = match arguments.value.as_str() {
        "-" => read_standard_input()?,
        text => place.bytes("VALUE", text)?,
    };
    let is_served = server::is_database_name(&place.keyspace);
    if is_served && place.raw_values {
        // Before a database is made for it.
        Expiring::decode(&value).map_err(Error::NotStored)?;
    }
    let expiring = is_served || arguments.ttl.is_some();
    let options = context.settings.keyspace().map_err(Failure::usage)?;
    let options = KeyspaceOptions { expiring, ..options };
    let asked = context.settings.engine_flag().map_err(Failure::usage)?;
    let seqno =
        context.with_database(&arguments.database.dir, true, |db| {
            let keyspace = match db.existing_keyspace(&place.keyspace) {
                // It keeps the engine that it was made with; to ask for another is a mistake.
                Ok(existing) if asked.is_some_and(|asked| asked != existing.options().engine) => {
                    let KeyspaceOptions { engine, journaled, expiring, .. } = existing.options();
                    let name = place.keyspace.clone();
                    return Err(Error::KeyspaceExists { name, engine, journaled, expiring }.into());
                }
                Ok(existing) => existing,
                Err(Error::NoKeyspace { .. }) => db.keyspace(&place.keyspace, options)?,
                Err(error) => return Err(error.into()),
            };
            Ok(match arguments.ttl {
                Some(ttl) => keyspace.expiring().put_with_ttl(&key, &value, ttl).map_err(
                    |error| match error {
                        Error::NotExpiring { .. } => Failure::usage(format_args!(
                            "{error}; --ttl with --keyspace and a new name makes such a one"
                        )),
                        error => error.into(),
                    },
                )?,
                None if place.raw_values => keyspace.expiring().raw().put(&key, &value)?,
                None => keyspace.put(&key, &value)?,
            })
        })?;
    if context.shared.json {
        return output::json_line(&json!({ "written": 1, "seqno": seqno.get() }));
    }
    Ok(())
}

fn read_standard_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    // One byte more than any engine takes is enough to be refused with the right message.
    let limit = thermocline::VALUE_BYTES_MAX as u64 + 1;
    let read = std::io::stdin().lock().take(limit).read_to_end(&mut value);
    read.map_err(|error| Failure::io("standard input", &error))?;
    Ok(value)
}
