//! `--print-config`: the settings in force and the layer each came from, as TOML with comments
//! or as JSON.

use serde_json::{Map, Value, json};

use super::Context;
use crate::config::Scope;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(context: &Context, scope: Scope) -> Outcome {
    let entries = context.settings.entries(scope);
    if context.shared.json {
        let entry = |(key, text, origin): (&str, &str, &crate::config::Origin)| {
            (key.to_owned(), json!({ "value": text, "from": origin.to_string() }))
        };
        let all: Map<String, Value> = entries.map(entry).collect();
        return output::json_line(&Value::Object(all));
    }
    for (key, text, origin) in entries {
        let assignment = format!("{key} = {}", toml::Value::from(text));
        output::line(&format!("{assignment:<40} # {origin}"))?;
    }
    Ok(())
}
