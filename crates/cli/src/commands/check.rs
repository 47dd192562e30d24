//! `thermocline check`: verifies every byte of a database offline; damage exits with 3.

use serde_json::{Value, json};

use super::Context;
use crate::arguments::Check;
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Check) -> Outcome {
    let report = thermocline::check(&arguments.dir)?;
    if context.shared.json {
        let place = |damage: &thermocline::Corruption| json!({ "file": damage.file, "offset": damage.offset, "what": damage.what });
        let damage: Vec<Value> = report.damage.iter().map(place).collect();
        output::json_line(&json!({
            "whole": report.is_whole(),
            "checked": report.checked,
            "damage": damage,
        }))?;
    } else {
        for line in &report.checked {
            output::line(&format!("checked  {line}"))?;
        }
        for damage in &report.damage {
            output::line(&format!("damaged  {damage}"))?;
        }
    }
    match report.damage.len() {
        0 if context.shared.json => Ok(()),
        0 => output::line("everything is whole"),
        1 => Err(Failure::new(Kind::Damaged, "1 piece is damaged")),
        count => Err(Failure::new(Kind::Damaged, format_args!("{count} pieces are damaged"))),
    }
}
